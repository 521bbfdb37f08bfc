"""--check-config, --print-config and --try of the services: exit codes and texts; no secret is shown,
and no server is contacted."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Iterator

import pytest

from tests.tools import libconfig, programs

ROOT = Path(__file__).resolve().parents[2]
RELAY, LEDGER = "counterfoil-relay", "counterfoil-ledger"
OK, ERROR, USAGE, CONFIG = 0, 1, 2, 78
SECRET = "sk-do-not-show-4711"
EACH_SERVICE = pytest.mark.parametrize("service", [RELAY, LEDGER])
Done = "subprocess.CompletedProcess[str]"


class Files:
    """A configuration whose every secret is SECRET, and servers that would notice a visitor."""

    def __init__(self, directory: Path, listeners: list[socket.socket]) -> None:
        self.directory = directory
        self.listeners = listeners
        kafka, database, provider = (listener.getsockname()[1] for listener in listeners)
        self.write("secret", SECRET + "\n")
        self.write("kafka.properties", f"sasl.password={SECRET}\nsasl.username=shop\n"
                                       "security.protocol=sasl_plaintext\nsasl.mechanism=PLAIN\n")
        self.settings: dict[str, Any] = {
            "postgres": {"conninfo": f"host=127.0.0.1 port={database} dbname=shop",
                         "password_file": str(directory / "secret")},
            "kafka": {"properties": [("bootstrap.servers", f"127.0.0.1:{kafka}")],
                      "properties_file": str(directory / "kafka.properties"),
                      "password_file": str(directory / "secret")},
            "targets": [{"name": "payments", "url": f"http://127.0.0.1:{provider}",
                         "profile": "stripe-v1", "auth": "Bearer ${secret}",
                         "secret_file": str(directory / "secret"),
                         "headers": [("X-Api-Key", SECRET), ("X-Shop", "corner")]}],
            "effects": [{"name": "charge", "on": {"topic": "orders", "type": "order.placed"},
                         "target": "payments", "key": "order:${/order_id}:charge",
                         "request": {"path": "/v1/charges",
                                     "content_type": "application/x-www-form-urlencoded",
                                     "body": "amount=${/total_cents}"},
                         "retention": "forever"}],
        }

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text)
        return path

    def config(self, changes: dict[str, Any] | None = None) -> Path:
        return self.write("counterfoil.conf",
                          libconfig.settings(libconfig.merge(self.settings, changes or {})))

    def effect(self, **changes: Any) -> dict[str, Any]:
        return {"effects": [{**self.settings["effects"][0], **changes}]}

    def run(self, service: str, *options: str, changes: dict[str, Any] | None = None,
            **how: Any) -> Done:
        done = programs.run(service, "--config", str(self.config(changes)), *options, **how)
        assert SECRET not in done.stdout + done.stderr
        assert not programs.SANITIZER.search(done.stderr), done.stderr
        return done

    def assert_no_visitor(self) -> None:
        for listener in self.listeners:
            with pytest.raises(BlockingIOError):
                listener.accept()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        for listener in listeners:
            listener.setblocking(False)
        files = Files(tmp_path, listeners)
        yield files
        files.assert_no_visitor()


def said(done: Done) -> list[str]:
    return done.stderr.splitlines()


# --- --check-config -------------------------------------------------------------------------------

@EACH_SERVICE
def test_a_good_configuration_is_one_line(files: Files, service: str):
    for options in (["--check-config"], ["--check-config", "--strict"]):
        done = files.run(service, *options)
        assert (done.returncode, done.stderr) == (OK, "")
        assert done.stdout == f"configuration ok: {files.directory / 'counterfoil.conf'}\n"


@EACH_SERVICE
def test_the_sample_is_good(files: Files, service: str):
    sample = (ROOT / "conf/counterfoil.conf").read_text()
    assert '"/run/credentials/stripe"' in sample
    path = files.write("sample.conf", sample.replace("/run/credentials/stripe",
                                                     str(files.directory / "secret")))
    done = programs.run(service, "--config", str(path), "--check-config", "--strict")
    assert (done.returncode, done.stdout, done.stderr) == (OK, f"configuration ok: {path}\n", "")


@EACH_SERVICE
def test_all_faults_are_listed_with_their_place(files: Files, service: str):
    files.write("kafka.properties", f"linger.ms=5\nsasl.pasword={SECRET}\n")
    changes = {"postgres": {"conninfo": "hots=a", "password_file": "/nowhere/password"},
               "kafka": {"properties": [("bootstrap.servers", "b:1"), ("linger.ms", "soon")],
                         "password_file": "/nowhere/kafka"}}
    done = files.run(service, "--check-config", changes=changes)
    path = files.directory / "counterfoil.conf"
    assert (done.returncode, done.stdout) == (CONFIG, "")
    expected = [
        rf'{path}:2: postgres\.conninfo: .*invalid connection option "hots"',
        rf"{path}:3: postgres\.password_file: /nowhere/password: No such file",
        rf"{path}:6: kafka\.properties\[1\]: .*Invalid value",
        rf"{files.directory / 'kafka.properties'}:2: .*No such configuration property: "
        '"sasl.pasword"',
        rf"{path}:8: kafka\.password_file: /nowhere/kafka: No such file",
    ]
    assert len(said(done)) == len(expected), done.stderr
    for line, pattern in zip(said(done), expected):
        assert re.match(pattern, line), line


@EACH_SERVICE
def test_settings_that_do_not_fit_each_other(files: Files, service: str):
    """What librdkafka would refuse only when the program starts."""
    files.write("kafka.properties", "security.protocol=ssl\nssl.ca.location=/nowhere/ca.pem\n")
    done = files.run(service, "--check-config", changes={"kafka": {"password_file": None}})
    assert (done.returncode, done.stdout) == (CONFIG, "")
    assert len(said(done)) == 1 and "kafka: " in done.stderr and "ssl.ca.location" in done.stderr


def test_a_secret_that_cannot_be_read(files: Files):
    target = {**files.settings["targets"][0], "secret_file": "/nowhere/secret"}
    done = files.run(LEDGER, "--check-config", changes={"targets": [target]})
    assert (done.returncode, done.stdout) == (CONFIG, "")
    assert "targets[0].secret_file: /nowhere/secret: No such file or directory" in done.stderr
    assert files.run(RELAY, "--check-config", changes={"targets": [target]}).returncode == OK


@pytest.mark.parametrize("secret, place", [
    ({"postgres": {"conninfo": f"dbname=shop password={SECRET}"}}, "postgres.conninfo"),
    ({"relay": {"conninfo": f"postgresql://u:{SECRET}@h/db"}}, "relay.conninfo"),
    ({"kafka": {"properties": [("sasl.password", SECRET)]}}, "kafka.properties[0]"),
    ({"targets": [{"name": "p", "url": "http://h", "profile": "plain",
                   "auth": f"Basic {SECRET}"}]}, "targets[0].auth"),
])
@EACH_SERVICE
def test_a_secret_in_the_configuration_is_refused(files: Files, service: str,
                                                  secret: dict[str, Any], place: str):
    for option in ("--check-config", "--print-config"):
        done = files.run(service, option, changes=secret)
        assert (done.returncode, done.stdout) == (CONFIG, "")
        assert f": {place}: " in done.stderr


def test_warnings_are_no_faults_unless_strict(files: Files):
    changes = {**files.effect(key="${event_id}"), "general": {"drain_timeout": "20s"}}
    done = files.run(LEDGER, "--check-config", changes=changes)
    path = files.directory / "counterfoil.conf"
    assert (done.returncode, done.stdout) == (OK, f"configuration ok: {path}\n")
    drain, key = sorted(said(done), key=lambda line: "effects[0]" in line)
    assert re.match(rf'warning: {path}:\d+: general\.drain_timeout: "20s" is shorter than the '
                    'timeout of target "payments", "30s", and 3s more', drain)
    assert re.match(rf"warning: {path}:\d+: effects\[0\]\.key: \$\{{event_id\}} alone", key)
    strict = files.run(LEDGER, "--check-config", "--strict", changes=changes)
    assert (strict.returncode, strict.stdout, strict.stderr) == (CONFIG, "", done.stderr)


# --- --print-config -------------------------------------------------------------------------------

def values(text: str) -> list[str]:
    """Its lines, without comments and blanks."""
    lines = (re.sub(r"\s+# [^\"]*$", "", line).rstrip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


@EACH_SERVICE
def test_what_is_printed_is_the_same_again(files: Files, service: str):
    changes = {"targets": [{**files.settings["targets"][0], "headers": [("X-Shop", "corner")]}],
               "ledger": {"start": "2026-01-31T00:00:00Z", "conninfo": "dbname=ledger"},
               "relay": {"batch_bytes": "12345B"}, "general": {"environment": 'a "b" \\ # c'}}
    printed = files.run(service, "--print-config", changes=changes)
    assert (printed.returncode, printed.stderr) == (OK, "")
    path = files.write("printed.conf", printed.stdout)
    again = programs.run(service, "--config", str(path), "--print-config")
    assert (again.returncode, again.stderr) == (OK, "")
    assert values(again.stdout) == values(printed.stdout)
    assert len(values(printed.stdout)) > 80
    own = '    conninfo = "dbname=ledger";'
    assert values(printed.stdout).count(own) == (2 if service == LEDGER else 1)
    good = programs.run(service, "--config", str(path), "--check-config")
    assert (good.returncode, good.stderr) == (OK, "")


def origin(done: Done, setting: str) -> str:
    assert (done.returncode, done.stderr) == (OK, "")
    found = re.findall(rf"^ +{re.escape(setting)} +# (.*)$", done.stdout, re.M)
    assert len(found) == 1, (setting, found)
    return found[0]


@EACH_SERVICE
def test_each_value_says_where_it_comes_from(files: Files, service: str):
    done = files.run(service, "--print-config", "--log-level", "error",
                     changes={"log": {"level": "debug"}, "relay": {"batch": 7}},
                     environment={"COUNTERFOIL_LOG_LEVEL": "warn", "COUNTERFOIL_RELAY_LEASE": "9s"})
    path = files.directory / "counterfoil.conf"
    assert origin(done, 'level = "error";') == "--log-level"
    assert origin(done, 'lease = "9s";') == "COUNTERFOIL_RELAY_LEASE"
    assert origin(done, 'group = "counterfoil-ledger";') == "default"
    place = re.fullmatch(rf"{path}:(\d+)", origin(done, "batch = 7;"))
    assert place and path.read_text().splitlines()[int(place[1]) - 1] == "  batch = 7;"


@EACH_SERVICE
def test_secrets_are_not_printed(files: Files, service: str):
    """Nor opened: who may read the configuration may print it."""
    for name in ("secret", "kafka.properties"):
        (files.directory / name).unlink()
    done = files.run(service, "--print-config")
    assert (done.returncode, done.stderr) == (OK, "")
    secret = files.directory / "secret"
    assert done.stdout.count(f'password_file = "{secret}";') == 2
    assert f'secret_file = "{secret}";' in done.stdout
    assert 'auth = "Bearer ${secret}";' in done.stdout
    assert re.search(r'\("X-Api-Key", "\[redacted\]"\), +# not shown', done.stdout)
    assert '("X-Shop", "corner")' in done.stdout


# --- --try ----------------------------------------------------------------------------------------

EVENT = {"topic": "orders", "type": "order.placed", "id": "e1",
         "payload": {"order_id": 42, "total_cents": 1999}}


def event(files: Files, name: str, **changes: Any) -> str:
    return str(files.write(name, json.dumps({**EVENT, **changes})))


def test_an_event_is_tried(files: Files):
    for name in ("secret", "kafka.properties"):
        (files.directory / name).unlink()           # nobody needs them for this
    path = event(files, "event.json")
    done = files.run(LEDGER, "--try", path)
    assert (done.returncode, done.stderr) == (OK, "")
    port = files.listeners[2].getsockname()[1]
    shown = re.sub(r"(fingerprint +)[0-9a-f]{32}\n", r"\1F\n", done.stdout)
    assert shown == f"""\
{path}
  topic orders, type order.placed, event id e1
  effect charge, target payments
    key           order:42:charge
    provider key  order:42:charge
    mode          idempotent
    fingerprint   F
    request
        POST http://127.0.0.1:{port}/v1/charges
        Content-Type: application/x-www-form-urlencoded
        X-Api-Key: [redacted]
        X-Shop: corner
        Idempotency-Key: order:42:charge
        Authorization: Bearer [redacted]
    body          11 bytes
        amount=1999
"""


def test_events_come_from_files_and_standard_input(files: Files):
    text = Path(event(files, "event.json")).read_text()
    stdin = files.write("payload.json", json.dumps(EVENT["payload"]))
    of_file = files.run(LEDGER, "--try", event(files, "event.json")).stdout.splitlines()
    for options in ([], ["-"]):
        done = subprocess.run(
            [str(programs.build_directory() / LEDGER), "--config", str(files.config()), "--try",
             *options], input=text, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (OK, "")
        assert done.stdout.splitlines() == ["-", *of_file[1:]]
    bare = files.run(LEDGER, "--try", "--topic", "orders", "--type", "order.placed", str(stdin))
    assert (bare.returncode, bare.stderr) == (OK, "")
    assert bare.stdout.splitlines()[2:] == of_file[2:]


@pytest.mark.parametrize("changes, says", [
    ({"payload": {"order_id": 42}}, "dead          request.body: ${/total_cents} "),
    ({"payload": {"total_cents": 1}}, 'poison: effect "charge": key: ${/order_id} '),
    ({"payload": "no JSON"}, "poison: "),
    ({"type": "order.placd"}, "effect charge: order.placed"),
    ({"topic": "order"}, "unmatched: no effect is for this topic\n"),
    ({"payload": None}, ", a tombstone\n"),
    ({"headers": {"ce_subject": "a\x1b[2J"}}, "poison: header ce_subject: "),
])
def test_what_would_not_be_performed_is_told(files: Files, changes: dict[str, Any],
                                             says: str):
    """And the files behind it are tried all the same."""
    bad, good = event(files, "bad.json", **changes), event(files, "good.json")
    done = files.run(LEDGER, "--try", bad, good)
    assert (done.returncode, done.stderr) == (ERROR, "")
    first, second = done.stdout.split(f"{good}\n")
    assert says in first and "Idempotency-Key" not in first and "\x1b" not in done.stdout
    assert "Idempotency-Key: order:42:charge\n" in second


def test_what_is_no_event(files: Files):
    wrong = {
        "/nowhere/event.json": "No such file or directory",
        str(files.directory): "Is a directory",
        str(files.write("bare.json", '{"order_id": 42}')): "names no topic",
        str(files.write("typo.json", '{"topic": "orders", "tpye": "x", "payload": 1}')):
            'the member "tpye" is not known',
        str(files.write("text", "hello\x1b")): "a file holds one event",
    }
    for path, says in wrong.items():
        done = files.run(LEDGER, "--try", path)
        assert (done.returncode, done.stdout) == (ERROR, "")
        assert done.stderr.startswith(f"{path}: ") and says in done.stderr, done.stderr
        assert "\x1b" not in done.stderr


def test_a_wrong_configuration_tries_nothing(files: Files):
    done = files.run(LEDGER, "--try", event(files, "event.json"), changes=files.effect(key="x"))
    assert (done.returncode, done.stdout) == (CONFIG, "")
    assert "effects[0].key: is the same for every event" in done.stderr


# --- options --------------------------------------------------------------------------------------

@EACH_SERVICE
@pytest.mark.parametrize("options, says", [
    (["--strict"], "--strict goes with --check-config"),
    (["--check-config", "--print-config"], "one task at a time"),
    (["--log-level", "loud"], '--log-level: "loud" is not one of "error", "warn"'),
    (["--log-format"], "requires an argument"),
    (["--check-config", "file"], "unexpected argument: file"),
    (["--config", ""], "--config: the name is empty"),
    (["--chek-config"], "unrecognized option"),
])
def test_wrong_options(files: Files, service: str, options: list[str], says: str):
    done = files.run(service, *options)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert says in done.stderr and f"usage: {service} " in done.stderr


@pytest.mark.parametrize("options, says", [
    (["--try", "--check-config"], "one task at a time"),
    (["--topic", "orders"], "--topic goes with --try"),
    (["--try", "--type", "x"], "--type goes with --topic"),
])
def test_wrong_options_of_the_ledger(files: Files, options: list[str], says: str):
    done = files.run(LEDGER, *options)
    assert (done.returncode, done.stdout) == (USAGE, "") and says in done.stderr
    assert files.run(RELAY, *options).returncode == USAGE


@EACH_SERVICE
def test_what_cannot_be_written_is_told(files: Files, service: str):
    config = files.config()
    for option in ("--print-config", "--check-config", "--help", "--version"):
        with open("/dev/full", "w") as full:
            done = subprocess.run([str(programs.build_directory() / service), "--config",
                                   str(config), option], stdout=full, stderr=subprocess.PIPE,
                                  text=True, check=False)
        assert done.returncode == ERROR
        assert done.stderr == f"{service}: standard output: No space left on device\n"
