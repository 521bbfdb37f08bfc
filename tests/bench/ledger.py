"""All that is measured of the ledger.

ledger_rate: events of a topic become requests to a sink, and completed keys. Its limit is
1/(1/d + 1/h), measured in the same round: d effects a second that the same PostgreSQL takes in with
nothing sent in between (three connections that intake, claim and record, in full batches, each
waiting for its answers only), h requests that the same HTTP client sends with no database.
ledger_work says the same of the processor time of all but the broker.

ledger_once: the same in mode at_most_once, where each key is marked durably before it is sent,
beside ledger_rate of the round.

ledger_rival: beside a consumer as it is written by hand; see rival-effects.c.

ledger_growth: with ten million keys that were completed before, beside an empty table.

ledger_memory: the most that is resident with 1,000 requests of 300 to 400 bytes in flight."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import Callable, Iterator

from tests.tools.broker import Client

from . import brokers, finished
from .effects import IN_FLIGHT, Done, Sink, Work, fresh_database
from .machine import Usage
from .setting import Bench, Pace, Size, run_tool
from .table import Figure, harmonic, middle

EFFECTS = 100_000
FINISHED = 10_000_000
MANY, MANY_EFFECTS, SLOW = 1000, 20_000, 400     # in flight, of so many, milliseconds each
LONG = ("amount=${/total_cents}&currency=usd&customer=${/customer_id}&order=${/order_id}"
        "&description=" + "An+order+of+the+bench.+" * 4 + "&note=${/note}")
MEGABYTE = 1e6
RIVAL_TABLE = ("CREATE TABLE done (key text PRIMARY KEY, event text NOT NULL, "
               "state text NOT NULL DEFAULT 'pending', provider_id text, "
               "created_at timestamptz NOT NULL DEFAULT now(), done_at timestamptz)")


# --- rate -----------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Round:
    effects: int
    postgres: Pace
    http: Pace
    usage: Usage      # of the ledger
    once: Usage       # of the ledger, in mode at_most_once

    @property
    def rate(self) -> float:
        return self.effects / self.usage.seconds

    @property
    def limit(self) -> float:
        return harmonic(self.postgres.rate, self.http.rate)

    @property
    def ratio(self) -> float:
        return self.rate / self.limit

    @property
    def _work(self) -> float:
        """Of those that have a part in the limit: the broker has none."""
        return self.usage.total - self.usage.processor["broker"]

    def figures(self, broker: str) -> list[Figure]:
        million = 1e6 / self.effects
        return [
            Figure(f"ledger_rate {broker}", self.rate, "effects/s", self.limit),
            Figure(f"ledger_rate {broker}: postgres alone", self.postgres.rate, "effects/s"),
            Figure(f"ledger_rate {broker}: http alone", self.http.rate, "requests/s"),
            Figure(f"ledger_rate {broker}: others had", 100 * self.usage.others, "% of machine"),
            Figure(f"ledger_work {broker}", self._work * million, "s/million",
                   1e6 * (self.postgres.processor + self.http.processor), cost=True),
            *(Figure(f"ledger_work {broker}: {who}", seconds * million, "s/million")
              for who, seconds in self.usage.processor.items()),
            Figure(f"ledger_once {broker}", self.effects / self.once.seconds, "effects/s",
                   self.rate),
        ]


def _round(work: Work) -> Round:
    return Round(work.effects, work.record(), work.send(), work.run().usage,
                 work.run("at_most_once").usage)


def _rounds(work: Work, broker: str, count: int) -> Iterator[Round]:
    for n in range(count):
        done = _round(work)
        print(f"ledger_rate {broker}, round {n + 1}: {done.rate:.0f} effects/s, ratio "
              f"{done.ratio:.2f}, at most once {done.effects / done.once.seconds:.0f}, "
              f"others had {done.usage.others:.0%}", flush=True)
        yield done


def measure_rate(bench: Bench, size: Size, name: str, broker: Client) -> list[Figure]:
    with closing(Sink()) as sink:
        work = Work(bench, broker, sink, size.of(EFFECTS))
        return middle(_rounds(work, name, size.rounds)).figures(name)


# --- beside something else ------------------------------------------------------------------------

@dataclass(frozen=True)
class Pair:
    effects: int
    ours: Done
    theirs: float     # effects a second

    @property
    def rate(self) -> float:
        return self.effects / self.ours.usage.seconds

    @property
    def ratio(self) -> float:
        return self.rate / self.theirs


def _rival(work: Work) -> Pace:
    topic = work.fill_topic()
    with fresh_database(work.bench) as database:
        work.bench.postgres.query(RIVAL_TABLE, None, database)
        return run_tool("rival-effects", work.bench.postgres.conninfo(database),
                        work.broker.bootstrap, topic, f"{work.sink.url}/v1/charges", work.effects,
                        IN_FLIGHT, with_=work.bench.postgres.process.pid)


def measure_rival(bench: Bench, size: Size, name: str, broker: Client) -> list[Figure]:
    with closing(Sink()) as sink:
        work = Work(bench, broker, sink, size.of(EFFECTS))
        done = middle(Pair(work.effects, work.run(), _rival(work).rate)
                      for _ in range(size.rounds))
    return [Figure(f"ledger_rival {name}", done.rate, "effects/s", done.theirs)]


def measure_growth(bench: Bench, size: Size, name: str, broker: Client) -> list[Figure]:
    keys = size.of(FINISHED)
    began = time.monotonic()
    full = finished.make(bench, keys)
    print(f"ledger_growth: {keys} completed keys, {finished.megabytes(bench):.0f} MB, "
          f"made in {time.monotonic() - began:.0f} s", flush=True)
    try:
        with closing(Sink()) as sink:
            work = Work(bench, broker, sink, size.of(EFFECTS))
            done = middle(Pair(work.effects, work.run(database=full),
                               work.effects / work.run().usage.seconds)
                          for _ in range(size.rounds))
    finally:
        bench.postgres.drop_database(full)
    return [Figure(f"ledger_growth {name}: {keys} completed keys", done.rate, "effects/s",
                   done.theirs)]


def measure_memory(bench: Bench, size: Size, name: str, broker: Client) -> list[Figure]:
    with closing(Sink(SLOW)) as sink:
        work = Work(bench, broker, sink, max(10 * MANY, size.of(MANY_EFFECTS)),
                    changes={"ledger": {"in_flight": MANY}}, target={"concurrency": MANY},
                    effect={"request": {"body": LONG}})
        done = work.run(watch=True)
    return [Figure(f"ledger_memory {name}: most in flight", done.most, "requests", MANY),
            Figure(f"ledger_memory {name}: peak", done.peak_bytes / MEGABYTE, "MB")]


# --- all ------------------------------------------------------------------------------------------

Measure = Callable[[Bench, Size, str, Client], list[Figure]]
PARTS: dict[str, tuple[Measure, bool]] = {     # on every broker?
    "ledger_rate": (measure_rate, True),       # and ledger_once
    "ledger_rival": (measure_rival, True),
    "ledger_memory": (measure_memory, False),
    "ledger_growth": (measure_growth, False),
}


def measure_part(part: str, bench: Bench, size: Size) -> Iterator[list[Figure]]:
    """The figures of each broker, as soon as they are there."""
    measure_one, everywhere = PARTS[part]
    for name, broker in brokers.each():
        yield measure_one(bench, size, name, broker)
        if not everywhere:
            return


def measure(bench: Bench, size: Size) -> Iterator[list[Figure]]:
    for part in PARTS:
        yield from measure_part(part, bench, size)
