"""What a service says of itself over HTTP; and a strict reader of Prometheus' text format."""

from __future__ import annotations

import http.client
import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, Iterator

from . import waiting
from .programs import Program

PREFIX = "counterfoil_"
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
COMMENT = re.compile(rf"# (HELP|TYPE) ({NAME}) (.+)")
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (NaN|[+-]Inf|-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}

Labels = tuple[tuple[str, str], ...]


# --- the text of /metrics -------------------------------------------------------------------------

@dataclass
class Family:
    """One metric: its samples by the end of their name and their labels, in the order of the text."""

    name: str
    help: str
    type: str = ""
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)


def _labels(text: str) -> Labels:
    found = []
    at = 0
    while at < len(text):
        label = LABEL.match(text, at)
        assert label, f"no label: {text[at:]!r}"
        found.append((label[1], label[2].replace(r"\n", "\n").replace(r"\"", '"')
                      .replace(r"\\", "\\")))
        at = label.end()
    assert len({name for name, _ in found}) == len(found), f"a label twice: {text}"
    return tuple(found)


def _check_histogram(family: Family) -> None:
    """Buckets rise, end with all, and agree with the count."""
    for series in {tuple(label for label in labels if label[0] != "le")
                   for _, labels in family.samples}:
        buckets = [(float(dict(labels)["le"]), value)
                   for (suffix, labels), value in family.samples.items() if suffix == "_bucket"
                   and tuple(label for label in labels if label[0] != "le") == series]
        assert buckets == sorted(buckets) and len({le for le, _ in buckets}) == len(buckets)
        assert [value for _, value in buckets] == sorted(value for _, value in buckets)
        assert buckets[-1] == (math.inf, family.samples["_count", series])
        assert family.samples["_sum", series] >= 0


def parse(text: str) -> dict[str, Family]:
    """The families of an exposition, by name without our prefix; asserts that it is one: HELP, then
    TYPE, then all samples of that name, none twice."""
    families: dict[str, Family] = {}
    family = Family("", "")
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        comment = COMMENT.fullmatch(line)
        if comment and comment[1] == "HELP":
            assert comment[2].startswith(PREFIX) and comment[2] not in families, line
            family = families[comment[2]] = Family(comment[2], comment[3])
            continue
        if comment:
            assert comment[2] == family.name and not family.type and not family.samples, line
            assert comment[3] in SUFFIXES, line
            family.type = comment[3]
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample and family.type, f"not a sample: {line!r}"
        suffix = sample[1].removeprefix(family.name)
        assert sample[1].startswith(family.name) and suffix in SUFFIXES[family.type], line
        key = suffix, _labels(sample[2] or "")
        assert key not in family.samples, f"twice: {line}"
        family.samples[key] = float(sample[3])
        assert family.type == "gauge" or family.samples[key] >= 0, line
    for found in families.values():
        assert found.type
        assert found.type != "counter" or found.name.endswith("_total")
        if found.type == "histogram":
            _check_histogram(found)
    return {name.removeprefix(PREFIX): found for name, found in families.items()}


class Metrics:
    """One reading of /metrics."""

    def __init__(self, text: str) -> None:
        self.families = parse(text)

    def value(self, name: str, suffix: str = "", **labels: str) -> float:
        """Of the one sample with exactly these labels."""
        samples = self.families[name].samples
        return next(value for (end, known), value in samples.items()
                    if end == suffix and dict(known) == labels)

    def sum(self, name: str, **labels: str) -> float:
        """Of all samples that have these labels."""
        return sum(value for (_, known), value in self.families[name].samples.items()
                   if labels.items() <= dict(known).items())

    def series(self) -> list[tuple[str, Labels]]:
        return sorted((family.name + suffix, labels) for family in self.families.values()
                      for suffix, labels in family.samples)

    def label_values(self) -> Iterator[str]:
        for family in self.families.values():
            for _, labels in family.samples:
                yield from (value for _, value in labels)


# --- asking ---------------------------------------------------------------------------------------

def request(address: str, method: str, path: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection(address, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def address(program: Program) -> str:
    """Where it listens, as it has said."""
    return program.wait_for("http listening").fields["address"]


def get(program: Program, path: str) -> tuple[int, str]:
    status, _, body = request(address(program), "GET", path)
    return status, body


def live(program: Program) -> bool:
    status, body = get(program, "/livez")
    assert status != 200 or body == "ok\n"
    return status == 200


def failed(program: Program) -> list[str]:
    """The names of the checks of /readyz that have failed; none: it is ready."""
    status, body = get(program, "/readyz")
    said: dict[str, Any] = json.loads(body)
    checks = [check["check"] for check in said["checks"] if not check["ok"]]
    assert said["ready"] == (status == 200) == (not checks) and said["failed"] == checks, body
    assert status in (200, 503)
    return checks


def metrics(program: Program) -> Metrics:
    status, headers, body = request(address(program), "GET", "/metrics")
    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Metrics(body)


def wait_ready(program: Program, timeout: float = 30) -> None:
    waiting.until(lambda: not failed(program), timeout, f"{program.name} to be ready")


def wait_failed(program: Program, *checks: str, timeout: float = 30) -> None:
    """Until exactly these checks fail."""
    try:
        waiting.until(lambda: failed(program) == list(checks), timeout, f"{checks} to fail")
    except waiting.Late as late:
        raise waiting.Late(f"{late}; {get(program, '/readyz')}") from None
