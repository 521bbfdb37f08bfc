"""`serialize_by`: of the keys of one value one is sent at a time, the oldest first; and `natural`, which
implies it for each URL.

Most tests share one world; what was done to their keys is done again at the end."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any, Callable, Iterator

import pytest

from tests.tools import bench as tools
from tests.tools import waiting
from tests.tools.bench import (Bench, attempts_of, effect, key_name, key_of, outcomes_of,
                               requests_of, wait_finished, wait_state)
from tests.tools.broker import Broker
from tests.tools.postgres import Postgres
from tests.tools.shop import Order
from tests.tools.world import World

LEASE = 2.0
IN_ORDER = {"serialize_by": "${/customer_id}"}
PUT = {"mode": "natural", "request": {"method": "PUT", "path": "/v1/customers/${/customer_id}"}}
DELETE = {"mode": "natural", "request": {"method": "DELETE", "body": "",
                                         "path": "/v1/customers/${/customer_id}"}}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, template: str,
           shared_broker: Broker) -> Iterator[Bench]:
    with tools.opened(
            tmp_path_factory.mktemp("serial"), postgres, template, shared_broker, "serial_bench",
            effects=[effect("order", **IN_ORDER),
                     effect("once", mode="at_most_once", **IN_ORDER),
                     effect("brief", "slow", not_after="1500ms", **IN_ORDER),
                     effect("put", **PUT),
                     effect("delete", **DELETE)],
            targets=[{"name": "slow", "timeout": "10s"}],
            settings={"ledger": {"lease": f"{LEASE:g}s"}}) as bench:
        yield bench


@pytest.fixture
def bench(opened: Bench, request: pytest.FixtureRequest) -> Iterator[Bench]:
    request.node.worlds = [opened.world]
    yield opened
    opened.world.provider.configure(think=(0, 0))
    opened.world.provider.clear()


def announce(world: World, orders: list[int], customer: str, event_type: str = "order") -> None:
    """Orders of one customer, in this order."""
    for n in orders:
        world.broker.produce(world.topic, Order(n, customer, 100 + n).payload.encode(),
                             customer.encode(), [("ce_id", b"event-%d" % n),
                                                 ("ce_type", event_type.encode())])
    world.broker.flush()


def recorded(world: World, orders: list[int]) -> None:
    waiting.until(lambda: all(key_of(world, n) for n in orders), 20, "the orders to be recorded")


def waits(world: World, order: int) -> bool:
    return world.value("SELECT s.waiting FROM counterfoil.effect e JOIN counterfoil.effect_state s "
                       "USING (id) WHERE e.idempotency_key = %s", (key_name(order),))


def assert_in_order(world: World, orders: list[int]) -> None:
    """Each was begun when the one before was on record, and no sooner."""
    ended = None
    for order in orders:
        attempts = attempts_of(world, order)
        assert not ended or attempts[0].started_at >= ended, f"order {order} overtook"
        ended = attempts[-1].recorded_at
    names = [key_name(n) for n in orders]
    asked = [r.key for r in world.provider.requests() if r.key in names]
    assert list(dict.fromkeys(asked)) == names


# --- order ----------------------------------------------------------------------------------------

def test_the_oldest_first_and_one_at_a_time(bench: Bench):
    """L16: waiting for the others costs no attempt, and is no attempt."""
    world, orders = bench.world, bench.orders(30)
    world.provider.configure(think=(0, 0.03))
    announce(world, orders, "ada")
    wait_finished(world, orders)
    assert_in_order(world, orders)
    for order in orders:
        key = key_of(world, order)
        assert (key.state, key.tries, key.attempts, key.epoch) == ("completed", 1, 1, 1)
        assert not waits(world, order)


def test_others_are_not_waited_for(bench: Bench):
    """A head that hangs holds up its own followers only."""
    world = bench.world
    head, follower, other = bench.orders(3)
    hang = world.provider.fault("hang", times=1, apply=False)
    announce(world, [head], "bob")
    waiting.until(lambda: world.provider.met(hang), 20, "the call")
    announce(world, [follower], "bob")
    announce(world, [other], "eve")
    wait_state(world, other, "completed")
    assert waits(world, follower) and key_of(world, head).state in ("in_flight", "retry_wait")
    wait_finished(world, [head, follower])
    assert_in_order(world, [head, follower])
    assert outcomes_of(world, head) == ["no_answer", "applied"]
    assert (key_of(world, follower).tries, key_of(world, follower).attempts) == (1, 1)


def test_a_head_that_is_tried_again_is_waited_for(bench: Bench):
    world, orders = bench.world, bench.orders(5)
    world.provider.fault("status", status=500, times=2, key=f"^{key_name(orders[0])}$")
    announce(world, orders, "cat")
    wait_finished(world, orders)
    assert len(requests_of(world, orders[0])) == 3
    assert_in_order(world, orders)


def test_a_dead_head_lets_the_next_go(bench: Bench):
    world, orders = bench.world, bench.orders(4)
    for order in orders[:2]:
        world.provider.fault("status", status=402, times=1, key=f"^{key_name(order)}$")
    announce(world, orders, "dan")
    wait_finished(world, orders)
    assert [key_of(world, n).state for n in orders] == ["dead", "dead", "completed", "completed"]
    assert_in_order(world, orders)


def settle(world: World, order: int, state: str) -> None:
    """As a person does it, elsewhere: nobody frees the next."""
    world.query("UPDATE counterfoil.effect_state SET state = %s::counterfoil.state, "
                "unknown_sends = 0, epoch = epoch + 1 WHERE id = %s",
                (state, key_of(world, order).id))


@pytest.mark.parametrize("state", ["completed", "dead", "cancelled"])
def test_an_uncertain_head_is_waited_for_until_somebody_decides(bench: Bench, state: str):
    world, orders = bench.world, bench.orders(3)
    world.provider.fault("hang", times=1, apply=False, key=f"^{key_name(orders[0])}$")
    announce(world, orders, f"fay-{state}", "once")
    wait_state(world, orders[0], "uncertain")
    waiting.holds(lambda: waits(world, orders[1]) and waits(world, orders[2]), 2.5, "they wait")
    settle(world, orders[0], state)
    wait_finished(world, orders)
    assert [key_of(world, n).state for n in orders[1:]] == ["completed", "completed"]
    assert_in_order(world, orders)


def test_what_a_race_left_waiting_is_freed(bench: Bench):
    """A follower that was recorded while its head was finishing: nobody is before it."""
    world, orders = bench.world, bench.orders(2)
    world.query("INSERT INTO counterfoil.target_state (target, held, held_by) VALUES "
                "('payments', true, 'a person') ON CONFLICT (target) DO UPDATE "
                "SET held = true, held_by = 'a person'")
    world.ledgers[0].wait_for("target is held")
    announce(world, orders, "hal")
    recorded(world, orders)
    world.query("UPDATE counterfoil.effect_state SET waiting = true WHERE id = %s",
                (key_of(world, orders[0]).id,))
    world.query("UPDATE counterfoil.target_state SET held = false, held_by = NULL")
    wait_finished(world, orders)
    assert_in_order(world, orders)


def test_a_head_ends_whoever_has_its_follower_in_hand(bench: Bench):
    """A person's order locked the follower, and wants the head next: the head's result waits for
    neither, so that there is no deadlock. The sweep frees the follower."""
    world, (head, follower) = bench.world, bench.orders(2)
    world.provider.fault("pass", times=1, delay=0.5, key=f"^{key_name(head)}$")
    announce(world, [head, follower], "ivy")
    recorded(world, [head, follower])
    lock = "SELECT state::text FROM counterfoil.effect_state WHERE id = %s FOR UPDATE"
    with closing(world.connect()) as person, closing(person.cursor()) as cursor:
        cursor.execute(lock, (key_of(world, follower).id,))
        wait_state(world, head, "completed")
        cursor.execute(lock, (key_of(world, head).id,))
        assert cursor.fetchone() == ("completed",) and waits(world, follower)
    wait_finished(world, [head, follower])
    assert_in_order(world, [head, follower])


def test_one_whose_time_is_over_when_its_turn_comes(bench: Bench):
    """It waited for longer than it may: it was never sent, and lets the next go."""
    world = bench.world
    head, late, next_one = bench.orders(3)
    world.provider.fault("pass", times=1, delay=2, key=f"^{key_name(head)}$")
    announce(world, [head, late], "ida", "brief")
    wait_finished(world, [head, late])
    announce(world, [next_one], "ida", "brief")
    wait_finished(world, [next_one])
    assert [key_of(world, n).state for n in (head, late, next_one)] == [
        "completed", "dead", "completed"]
    assert key_of(world, late).tries == 0 and not requests_of(world, late)


def test_a_lost_race_is_run_again_at_once(bench: Bench):
    """Two claims saw the same head: the one that comes second is refused by the unique index, takes
    nothing, and asks again."""
    world, orders = bench.world, bench.orders(3)
    world.postgres.psql("""
        CREATE SEQUENCE public.races;
        CREATE FUNCTION public.lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF nextval('public.races') <= 2 THEN
            RAISE EXCEPTION 'somebody was first' USING ERRCODE = 'unique_violation'; END IF;
          RETURN NEW; END $$;
        CREATE TRIGGER lose BEFORE UPDATE ON counterfoil.effect_state FOR EACH ROW
          WHEN (OLD.state = 'pending' AND NEW.state = 'in_flight' AND NEW.serial_key = 'joe')
          EXECUTE FUNCTION public.lose()""", world.database)
    began = time.monotonic()
    announce(world, orders, "joe")
    wait_finished(world, orders)
    assert time.monotonic() - began < 5
    world.query("DROP TRIGGER lose ON counterfoil.effect_state")
    assert_in_order(world, orders)
    assert {key_of(world, n).tries for n in orders} == {1}
    assert not world.ledgers[0].said("claim refused")


# --- natural --------------------------------------------------------------------------------------

def test_the_newest_put_is_the_last(bench: Bench):
    """The first hangs; a newer one of the same URL does not overtake it, nor is it undone by it."""
    world, orders = bench.world, bench.orders(4)
    world.provider.fault("hang", times=1, apply=False, key=f"^{key_name(orders[0])}$")
    announce(world, orders, "kim", "put")
    wait_finished(world, orders)
    assert_in_order(world, orders)
    applied = [r.body for r in world.provider.requests() if r.path.endswith("/kim") and r.applied]
    assert applied[-1] == f"amount={100 + orders[-1]}&currency=usd&customer=kim"
    assert world.value("SELECT count(DISTINCT serial_key) FROM counterfoil.effect "
                       "WHERE idempotency_key = ANY (%s)", ([key_name(n) for n in orders],)) == 1


def test_put_and_delete_of_one_url_are_in_one_order(bench: Bench):
    world, orders = bench.world, bench.orders(3)
    world.provider.configure(think=(0.05, 0.05))
    announce(world, orders[:1], "leo", "put")
    announce(world, orders[1:2], "leo", "delete")
    announce(world, orders[2:], "leo", "put")
    wait_finished(world, orders)
    assert_in_order(world, orders)
    assert [r.method for r in world.provider.requests() if r.path.endswith("/leo")] == [
        "PUT", "DELETE", "PUT"]


# --- several ledgers ------------------------------------------------------------------------------

Settle = Callable[..., World]


@pytest.fixture
def settled(make_world: Callable[..., World]) -> Settle:
    def make(ledgers: int, effect: dict[str, Any], **target: Any) -> World:
        world = make_world(target={"timeout": "30s", **target}, effect={
            **effect, "on": {"type": "order"}}, settings={
                "ledger": {"lease": f"{LEASE:g}s"}, "log": {"level": "debug"}})
        for _ in range(ledgers):
            world.ledger().start(ready=False)
        for ledger in world.ledgers:
            ledger.wait_for("lease taken")
        return world
    return make


@pytest.mark.parametrize("effect", [IN_ORDER, {**PUT, "key": "order:${/order_id}:charge"}],
                         ids=["serialize_by", "natural"])
def test_the_lock_ends_with_its_holder(settled: Settle, effect: dict[str, Any]):
    """L15: the lock is the call in progress itself. Its owner is killed: after the lease the same
    key is sent again, and then those behind it."""
    world = settled(2, effect)
    world.provider.fault("hang", times=1, apply=True)
    announce(world, [1, 2, 3], "mia")
    waiting.until(lambda: requests_of(world, 1), 20, "the call")
    name = world.value("SELECT name FROM counterfoil.instance WHERE id = %s",
                       (key_of(world, 1).owner,))
    (owner,) = [ledger for ledger in world.ledgers if name.startswith(f"{ledger.name}/")]
    owner.kill()
    killed = time.time()
    wait_finished(world, [1, 2, 3])
    assert requests_of(world, 1)[1].t - killed <= LEASE + 2
    assert_in_order(world, [1, 2, 3])
    assert [key_of(world, n).tries for n in (1, 2, 3)] == [2, 1, 1]
    world.run_twice()


def test_many_ledgers_keep_every_order(settled: Settle):
    """Three ledgers read and send, two of them are killed meanwhile: of no customer are two calls
    in progress at once, and each customer's come in their order."""
    world = settled(3, IN_ORDER, timeout="2s")
    world.provider.configure(think=(0, 0.02))
    customers = {f"customer-{c}": list(range(100 * c + 1, 100 * c + 21)) for c in range(20)}
    for place in range(20):
        for customer, orders in customers.items():
            announce(world, orders[place:place + 1], customer)
    everyone = [n for orders in customers.values() for n in orders]
    for done, victim in zip((60, 150), world.ledgers):
        waiting.until(lambda: len(world.provider.charges()) >= done, 60, f"{done} charges")
        victim.kill()
        victim.start(ready=False)
    wait_finished(world, everyone, timeout=60)
    for orders in customers.values():
        assert_in_order(world, orders)
    assert world.provider.charges_by_key() == {key_name(n): 1 for n in everyone}
    assert world.value("SELECT count(*) FROM counterfoil.effect_state WHERE waiting") == 0
    world.run_copies()


# --- again ----------------------------------------------------------------------------------------

def test_all_of_it_again_changes_nothing(bench: Bench):
    """Every event of the tests above comes again, as a copy and by a rewind."""
    bench.world.wait_drained()
    bench.world.run_twice()
