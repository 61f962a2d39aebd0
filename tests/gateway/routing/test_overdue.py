"""What no query decided: the gateway does, when it is overdue by its grace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakemq.gateway.routing.decisions import Posted
from lakemq.gateway.routing.jobs import ALIVE_MS, Heartbeat
from lakemq.gateway.routing.nacks import Nack
from lakemq.gateway.routing.overdue import LOOK_MS, REST_MS
from lakemq.model.decide import Kind
from lakemq.model.errors import TransactionResolved
from lakemq.model.message import Draft
from lakemq.model.names import CHECK_MAX_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, retry_topic
from lakemq.storage.state.due_index import FINE_MS
from tests.gateway.routing.harness import CONFIRM_MS, TOPIC, RoutingHarness, anybody

GRACE_MS = 5_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[RoutingHarness]:
    """A broker without a lead: what it decides, it decides as it is overdue."""
    harness = RoutingHarness(tmp_path)
    harness.open(0, GRACE_MS)
    yield harness
    harness.stop()


def after(harness: RoutingHarness, ms: int) -> None:
    """Let so much time pass, and the gateway look."""
    harness.pass_time(ms)
    harness.decide_overdue()


def causes_in(harness: RoutingHarness, topic: str) -> list[int]:
    return [message.get("cause") for message in harness.messages() if message.topic == topic and message.get("cause")]


def overdue(harness: RoutingHarness) -> dict[str, int]:
    return {kind: count for kind, count in harness.run(harness.broker.router.overdue.count()).items() if count}


@pytest.mark.parametrize("delay_ms", [1, 900, 12_000, 70_000, 5 * HOUR_MS, 5 * DAY_MS])
def test_a_delay_comes_a_grace_after_it_is_due_and_not_before(harness: RoutingHarness, delay_ms: int) -> None:
    position = harness.produce(Draft(b"x", delay_ms=delay_ms))
    after(harness, GRACE_MS)  # the queries have a grace from the start of the broker on
    after(harness, delay_ms - 1)
    assert causes_in(harness, TOPIC) == []
    after(harness, FINE_MS + 1)
    assert causes_in(harness, TOPIC) == [position]
    after(harness, 10 * DAY_MS)
    assert causes_in(harness, TOPIC) == [position]
    assert harness.broker.router.overdue.decided[Kind.DELAY] == 1


def wait_for(harness: RoutingHarness, done: Callable[[], bool]) -> int:
    """Look as the gateway does, and when it does, until it is so; after how many looks that was."""
    for looks in range(10_000):
        harness.decide_overdue()
        if done():
            return looks
        harness.pass_time(harness.run(harness.broker.router.overdue.pause_ms()))
    raise AssertionError("it does not come")


def test_the_gateway_looks_as_a_grace_is_over_however_many_wait(harness: RoutingHarness) -> None:
    dues = {harness.produce(Draft(b"x", delay_ms=1 + number * 137)): number * 137 for number in range(100)}
    looks = wait_for(harness, lambda: not harness.broker.router.state.delays)
    late = [
        message.store_time_ms - message.get("deliver_at_ms") for message in harness.messages() if message.topic == TOPIC
    ]
    assert len(late) == len(dues)
    assert min(late) >= GRACE_MS
    assert max(late) <= GRACE_MS + FINE_MS + REST_MS
    # There is a look for each, one as each second comes near, one every LOOK_MS in any case, and few more.
    span_ms = GRACE_MS + max(dues.values())
    assert looks <= len(dues) + span_ms // 1_000 + span_ms // LOOK_MS + 5


def test_checks_rollbacks_and_nacks_too_come_as_their_grace_is_over(harness: RoutingHarness) -> None:
    origin = harness.produce(Draft(b"x"), "pg")
    plain = harness.produce(Draft(b"x"))
    harness.pass_time(3_333)
    other = harness.produce(Draft(b"x"), "pg")
    transactions, state = harness.broker.router.transactions, harness.broker.router.state
    harness.run(transactions.resolve(harness.secret_of(other), "pg", "rollback"))
    harness.pass_time(111)
    harness.run(harness.broker.router.nacks.nack("g", [Nack(harness.id_of(plain))], anybody))
    stored_ms = harness.clock.time_ms
    wait_for(harness, lambda: len(state.transactions) == 1)
    assert stored_ms - 111 + GRACE_MS <= harness.clock.time_ms <= stored_ms - 111 + GRACE_MS + REST_MS
    wait_for(harness, lambda: not state.nacks)
    assert stored_ms + GRACE_MS <= harness.clock.time_ms <= stored_ms + GRACE_MS + REST_MS
    wait_for(harness, lambda: causes_in(harness, HALF_TOPIC) == [origin])
    due_ms = stored_ms - 3_444 + 6_000
    assert due_ms + GRACE_MS <= harness.clock.time_ms <= due_ms + GRACE_MS + REST_MS


def test_where_no_job_is_alive_nothing_waits_for_one(harness: RoutingHarness) -> None:
    harness.alive = ()
    after(harness, GRACE_MS)  # jobs may be about to start, as the broker is
    state, begun_ms = harness.broker.router.state, harness.clock.time_ms
    plain = harness.produce(Draft(b"x"))
    dues = [harness.produce(Draft(b"x", delay_ms=delay_ms)) for delay_ms in (900, 12_000, 70_000)]
    origin = harness.produce(Draft(b"x"), "pg")
    harness.run(harness.broker.router.nacks.nack("g", [Nack(harness.id_of(plain), 1)], anybody))
    harness.decide_overdue()
    assert not state.nacks
    wait_for(harness, lambda: causes_in(harness, HALF_TOPIC) == [origin])
    assert 6_000 <= harness.clock.time_ms - begun_ms <= 6_000 + REST_MS
    wait_for(harness, lambda: not state.delays)
    copies = [message for message in harness.messages() if message.topic == TOPIC and message.get("cause") in dues]
    late = [message.store_time_ms - message.get("deliver_at_ms") for message in copies]
    assert len(late) == len(dues)
    assert 0 <= min(late) <= max(late) <= FINE_MS + REST_MS
    harness.alive = ["delay"]
    position = harness.produce(Draft(b"x", delay_ms=900))
    after(harness, 900 + GRACE_MS - 1)
    assert position not in causes_in(harness, TOPIC)
    after(harness, FINE_MS + 1)
    assert position in causes_in(harness, TOPIC)
    harness.pass_time(ALIVE_MS)
    harness.alive = ()
    position = harness.produce(Draft(b"x", delay_ms=900))
    after(harness, 900 + FINE_MS)
    assert position in causes_in(harness, TOPIC), "a job that was killed is as none, some time later"


def test_many_that_wait_are_found_some_at_a_time_and_each_once(harness: RoutingHarness) -> None:
    spread = {harness.produce(Draft(b"x", delay_ms=1 + number * 40_000)): number * 40_000 for number in range(60)}
    together = [harness.produce(Draft(b"x", delay_ms=30_000)) for _ in range(1_100)]
    harness.restart_without_snapshots(0, GRACE_MS)
    after(harness, GRACE_MS + 31_001)
    assert sorted(causes_in(harness, TOPIC)) == sorted([*together, *(p for p, due in spread.items() if due < 31_000)])
    harness.restart(0, True, GRACE_MS)
    after(harness, GRACE_MS)
    after(harness, HOUR_MS)
    assert sorted(causes_in(harness, TOPIC)) == sorted([*together, *spread])


def test_while_the_query_keeps_up_nothing_is_read_and_what_it_leaves_is_found_all_the_same(
    harness: RoutingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    position = harness.produce(Draft(b"x", delay_ms=40_000))
    router = harness.broker.router
    reads: list[object] = []
    read_some = router.executor.read_some
    monkeypatch.setattr(router.executor, "read_some", lambda positions: reads.append(1) or read_some(positions))
    for _ in range(20):
        router.jobs.hear([Heartbeat("delay", 0, harness.clock.time_ms, None)])
        harness.clock.time_ms += 1_000
        harness.decide_overdue()
    assert reads == []
    for _ in range(12):
        router.jobs.hear([Heartbeat("delay", 0, harness.clock.time_ms, None)])
        after(harness, 10_000)
    assert causes_in(harness, TOPIC) == [position]


def test_checks_come_and_after_the_last_the_half_is_given_up(harness: RoutingHarness) -> None:
    origin = harness.produce(Draft(b"x"), "pg")
    after(harness, GRACE_MS + 5_999)
    assert causes_in(harness, HALF_TOPIC) == []
    after(harness, 1)
    assert causes_in(harness, HALF_TOPIC) == [origin]
    for _ in range(15):
        after(harness, GRACE_MS + 60_000)
    assert len(causes_in(harness, HALF_TOPIC)) == 15
    assert len(causes_in(harness, CHECK_MAX_TOPIC)) == 1
    with pytest.raises(TransactionResolved):
        harness.run(harness.broker.router.transactions.resolve(harness.secret_of(origin), "pg", "commit"))


@pytest.mark.parametrize("checks", [0, 15])
def test_an_operation_that_was_answered_beats_a_check_and_a_give_up(harness: RoutingHarness, checks: int) -> None:
    origin = harness.produce(Draft(b"x"), "pg")
    for _ in range(checks):
        after(harness, GRACE_MS + 60_000)
    harness.clock.time_ms += 10 * HOUR_MS
    harness.run(harness.broker.router.transactions.resolve(harness.secret_of(origin), "pg", "commit"))
    harness.decide_overdue()
    assert len(causes_in(harness, TOPIC)) == 1
    assert len(causes_in(harness, HALF_TOPIC)) == checks
    assert causes_in(harness, CHECK_MAX_TOPIC) == []


def test_a_commit_and_a_rollback_are_due_as_they_are_stored(harness: RoutingHarness) -> None:
    committed, rolled_back = (harness.produce(Draft(b"x"), "pg") for _ in range(2))
    harness.pass_time(1_000)
    transactions = harness.broker.router.transactions
    harness.run(transactions.resolve(harness.secret_of(committed), "pg", "commit"))
    harness.run(transactions.resolve(harness.secret_of(rolled_back), "pg", "rollback"))
    harness.restart(0, True, GRACE_MS)
    after(harness, GRACE_MS - 1)
    assert len(harness.broker.router.state.transactions) == 2
    after(harness, 1)
    assert len(harness.broker.router.state.transactions) == 0
    assert causes_in(harness, TOPIC) == [committed]


def test_a_nack_is_due_as_it_is_stored_and_its_delay_counts_from_then(harness: RoutingHarness) -> None:
    position = harness.produce(Draft(b"x"))
    harness.pass_time(GRACE_MS)
    stored_ms = harness.clock.time_ms
    harness.run(harness.broker.router.nacks.nack("g", [Nack(harness.id_of(position), 2)], anybody))
    after(harness, GRACE_MS - 1)
    assert len(harness.broker.router.state.nacks) == 1
    after(harness, 1)
    assert len(harness.broker.router.state.nacks) == 0
    (waiting,) = [message for message in harness.messages() if message.topic == SCHEDULE_TOPIC]
    assert waiting.get("deliver_at_ms") == stored_ms + 5_000
    after(harness, 6_000)
    assert len(causes_in(harness, retry_topic("g"))) == 1


def test_a_receipt_runs_out_a_grace_late_and_not_twice(harness: RoutingHarness) -> None:
    harness.produce(Draft(b"x"))
    (received,) = harness.run(harness.receiving("g", 10, 1_000, 16, False))
    harness.pass_time(1_000 + GRACE_MS - 1)
    assert harness.run(harness.receiving("g", 10, 1_000, 16, False)) == []
    harness.pass_time(1)
    assert harness.post([Posted(received.receipt, "retry", 1)]) == 0
    (again,) = harness.run(harness.receiving("g", 10, 1_000, 16, False))
    assert again.reconsume_times == 1


def test_without_a_grace_nothing_is_decided_but_counted(harness: RoutingHarness) -> None:
    harness.restart(0, True, -1)
    position = harness.produce(Draft(b"x", delay_ms=100_000))
    origin = harness.produce(Draft(b"x"), "pg")
    plain = harness.produce(Draft(b"x"))
    harness.run(harness.broker.router.nacks.nack("g", [Nack(harness.id_of(plain))], anybody))
    assert len(harness.run(harness.receiving("h", 1, 1_000, 16, False))) == 1
    after(harness, GRACE_MS + 101_000)
    assert overdue(harness) == {"delay": 1, "transaction": 1, "nack": 1, "receipt": 1}
    assert harness.run(harness.broker.degraded()) == [f"overdue: 1 of kind {kind}" for kind in overdue(harness)]
    assert harness.post([Posted(position, "deliver", None), Posted(origin, "check", None)]) == 2
    assert overdue(harness) == {"nack": 1, "receipt": 1}


def test_what_could_not_be_written_is_decided_when_it_can(harness: RoutingHarness) -> None:
    position = harness.produce(Draft(b"x", delay_ms=1_000))
    origin = harness.produce(Draft(b"x"), "pg")
    harness.pass_time(60_000)
    harness.files.room_bytes = 0
    with pytest.raises(Exception, match="written"):
        harness.decide_overdue()
    harness.decide_overdue()  # says nothing while nothing can be written
    harness.files.room_bytes = None
    harness.broker.log.retain()
    harness.decide_overdue()
    assert causes_in(harness, TOPIC) == [position]
    assert causes_in(harness, HALF_TOPIC) == [origin]


@pytest.mark.parametrize("lead_ms", [0, 10_000])
def test_a_clock_that_jumps_ahead_fires_nothing_until_it_has_stayed_there(
    harness: RoutingHarness, lead_ms: int
) -> None:
    harness.restart(lead_ms, True, GRACE_MS)
    position = harness.produce(Draft(b"x", delay_ms=9_000))
    far = harness.produce(Draft(b"x", delay_ms=HOUR_MS))
    harness.produce(Draft(b"x"), "pg")
    assert len(harness.run(harness.receiving("g", 1, 60_000, 16, False))) == 0
    harness.clock.jumped_ms = DAY_MS
    after(harness, 1_000)
    assert causes_in(harness, TOPIC) == []
    assert causes_in(harness, HALF_TOPIC) == []
    # What has passed has passed, whatever the wall says.
    after(harness, 9_000 + GRACE_MS)
    assert causes_in(harness, TOPIC) == [position]
    harness.clock.jumped_ms = 0
    after(harness, 2 * CONFIRM_MS)
    assert causes_in(harness, TOPIC) == [position]
    harness.clock.jumped_ms = DAY_MS
    after(harness, 1_000)
    for _ in range(2):
        after(harness, CONFIRM_MS)
    harness.clock.time_ms += GRACE_MS
    harness.decide_overdue()
    assert causes_in(harness, TOPIC) == [position, far]
