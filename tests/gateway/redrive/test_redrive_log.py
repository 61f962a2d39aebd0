"""Redrives and their log: crashes at random, dead letters that left it or were damaged, a full disk."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap64

from lakemq.gateway.redrive import Discarder, discarder, redriver
from lakemq.gateway.redrive.dead_letters import find_copies
from lakemq.gateway.routing.nacks import Nack
from lakemq.model.errors import Busy, FlowControl, InvalidRequest, LogDamaged, RedriveNotFound, StoreUnwritable
from lakemq.model.message import Draft
from lakemq.model.names import DISCARD_TOPIC, dead_letter_topic, retry_topic
from tests.gateway.routing.harness import Message, RoutingHarness, anybody

GROUP = "g"
LEAD_MS = 10_000
FAST = 100_000
SLOW = 0.001
"""The next one after a quarter of an hour."""
WAIT_S = 60.0


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[RoutingHarness]:
    """An open broker; whatever the test leaves open is closed."""
    harness = RoutingHarness(tmp_path, retention_ms=0)
    harness.open(LEAD_MS)
    yield harness
    harness.stop()


def whoever(group: str, is_deleted: bool) -> None:
    """May see each redrive."""


def make_dead(harness: RoutingHarness, count: int, body: bytes = b"") -> list[int]:
    """Dead letters of the group, one a frame; returns their positions."""
    for number in range(count):
        position = harness.produce(Draft(b"%d" % number + body))
        harness.run(harness.broker.router.nacks.nack(GROUP, [Nack(harness.id_of(position), -1)], anybody))
    return [message.position for message in of_topic(harness, dead_letter_topic(GROUP))]


def of_topic(harness: RoutingHarness, topic: str) -> list[Message]:
    return [message for message in harness.messages() if message.topic == topic]


def begin(harness: RoutingHarness, where: str | None = None, rate_per_s: float = FAST) -> str:
    return harness.run(harness.broker.redriver.begin(GROUP, where, rate_per_s, False))[0]


def finished(harness: RoutingHarness, redrive_id: str, state: str = "done") -> dict[str, Any]:
    """How the redrive is when it is done, or in that state."""

    for _ in range(int(WAIT_S / 0.01)):
        shown = harness.run(harness.broker.redriver.describe(redrive_id, 0, 1_000, whoever))
        if shown["state"] == state:
            return shown
        harness.run(asyncio.sleep(0.01))
    raise AssertionError("the redrive did not end")


@pytest.mark.parametrize("seed", range(5))
def test_each_is_redriven_once_whenever_the_broker_crashes(harness: RoutingHarness, seed: int) -> None:
    chance = random.Random(seed)
    dead = make_dead(harness, 40)
    redrives = [begin(harness, rate_per_s=chance.choice([50, 200, 1000])) for _ in range(chance.randint(1, 3))]
    for _ in range(6):
        harness.run(asyncio.sleep(chance.choice([0, 0.001, 0.03, 0.1])))
        harness.crash()
        harness.open(LEAD_MS)
        if chance.random() < 0.3:
            redrives.append(begin(harness))
    shown = [finished(harness, each) for each in redrives]
    copies = of_topic(harness, retry_topic(GROUP))
    assert Counter(copy.get("cause") for copy in copies) == Counter(dead)
    where = {harness.id_of(copy.get("cause")): harness.id_of(copy.position) for copy in copies}
    for each in shown:
        assert (each["redriven"], each["failed"]) == (each["matched"], 0)
        assert all(where[result["message_id"]] == result["redriven_message_id"] for result in each["results"])


def until_first_of(harness: RoutingHarness, count: int) -> None:
    """Until the first of so many is redriven, and no turn of the loop longer."""
    dead = harness.broker.log.routing.dead
    while len(dead) == count:
        harness.run(asyncio.sleep(0))
    assert len(dead) == count - 1


def fill_segments(harness: RoutingHarness) -> None:
    """Write until what was there before is in a segment that may leave the log."""
    before = len(harness.broker.log.segments)
    while len(harness.broker.log.segments) < before + 2:
        harness.produce(Draft(random.Random(0).randbytes(300_000)))


def retain(harness: RoutingHarness) -> None:
    """Let all segments leave that may."""
    harness.clock.time_ms += 1
    harness.broker.log.retention.certain_position = harness.broker.log.next_position
    assert harness.broker.log.retain() > 0


def test_dead_letters_that_leave_the_log_fail_and_the_redrive_ends(harness: RoutingHarness) -> None:
    dead = make_dead(harness, 10, b"x" * 100)
    fill_segments(harness)
    later = make_dead(harness, 3)[len(dead) :]
    redrive_id = begin(harness, rate_per_s=1)
    until_first_of(harness, 13)
    harness.broker.log.retention.certain_position = later[0]
    harness.clock.time_ms += 1
    assert harness.broker.log.retain() > 0
    # At one a second it would take long: another redrive takes what is left.
    finished(harness, begin(harness))
    shown = finished(harness, redrive_id)
    assert (shown["matched"], shown["redriven"], shown["failed"]) == (13, 4, 9)
    assert [result["status"] for result in shown["results"]] == ["redriven"] + ["failed"] * 9 + ["redriven"] * 3


def test_a_redrive_that_left_the_log_is_not_found(harness: RoutingHarness) -> None:
    make_dead(harness, 2)
    redrive_id = begin(harness)
    finished(harness, redrive_id)
    fill_segments(harness)
    retain(harness)
    with pytest.raises(RedriveNotFound):
        harness.run(harness.broker.redriver.describe(redrive_id, 0, 10, whoever))


def test_a_redrive_that_left_the_log_is_open_until_it_is_nowhere_to_be_read(harness: RoutingHarness) -> None:
    """Regression: it was forgotten in silence, and so were the dead letters."""
    make_dead(harness, 50)
    begin(harness, rate_per_s=1)
    until_first_of(harness, 50)
    harness.crash()
    harness.open(LEAD_MS)
    fill_segments(harness)
    retain(harness)
    assert len(harness.broker.log.routing.redrives) == 1
    assert len(harness.broker.log.routing.dead) in range(1, 50)
    harness.restart(LEAD_MS, clean=False)
    for _ in range(int(WAIT_S / 0.01)):
        harness.run(asyncio.sleep(0.01))
        if not harness.broker.log.routing.redrives:
            return
    raise AssertionError("without a lake it is lost, and has to end")


def test_a_redrive_waits_for_room_on_the_disk(harness: RoutingHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakemq.gateway.redrive.run.AGAIN_S", 0.01)
    dead = make_dead(harness, 20)
    redrive_id = begin(harness, rate_per_s=100)
    harness.files.room_bytes = 1_000
    harness.run(asyncio.sleep(0.3))
    assert harness.run(harness.broker.redriver.describe(redrive_id, 0, 0, whoever))["state"] == "running"
    harness.files.room_bytes = None
    harness.broker.log.retain()
    shown = finished(harness, redrive_id)
    assert (shown["redriven"], shown["failed"]) == (20, 0)
    assert [copy.get("cause") for copy in of_topic(harness, retry_topic(GROUP))] == dead


@pytest.fixture
def forgetful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RoutingHarness]:
    """An open broker that keeps no frame in memory."""
    monkeypatch.setattr("lakemq.storage.read.row_reader.RECENT_BYTES_MAX", 0)
    harness = RoutingHarness(tmp_path, cache_bytes=0)
    harness.open(LEAD_MS)
    yield harness
    harness.stop()


def test_a_dead_letter_that_damage_took_fails_and_the_others_are_redriven(forgetful: RoutingHarness) -> None:
    harness = forgetful
    dead = make_dead(harness, 5, b"-find-me-")
    redrive_id = begin(harness, rate_per_s=10)
    (path,) = harness.broker.log.directory.glob("*.log")
    at = path.read_bytes().rindex(b"2-find-me-")
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"X")
    shown = finished(harness, redrive_id)
    assert (shown["matched"], shown["redriven"], shown["failed"]) == (5, 4, 1)
    assert [result["status"] for result in shown["results"]][2] == "failed"
    causes = BitMap64([each for each in dead if each != dead[2]])
    executor = harness.broker.router.executor
    assert set(harness.run(find_copies(executor, harness.broker.cold, GROUP, causes, 0))) == set(causes)
    with pytest.raises(LogDamaged):
        begin(harness)


def test_a_redrive_that_an_error_stops_says_so_takes_no_place_and_goes_on_after_a_start(
    harness: RoutingHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lakemq.gateway.redrive.redriver.OPEN_MAX", 1)
    dead = make_dead(harness, 20)

    def fail(*_: object) -> None:
        raise TypeError("a bug")

    with monkeypatch.context() as broken:
        broken.setattr("lakemq.gateway.redrive.run._copy", fail)
        redrive_id = begin(harness)
        assert finished(harness, redrive_id, "stopped")["redriven"] == 0
        (record,) = [each for each in caplog.records if "has stopped, and continues after a restart" in each.message]
        assert record.exc_info is not None
        assert isinstance(record.exc_info[1], TypeError)
    assert finished(harness, begin(harness, f"position = {dead[0]}"))["redriven"] == 1
    harness.restart(LEAD_MS, clean=False)
    shown = finished(harness, redrive_id)
    assert (shown["redriven"], shown["failed"]) == (20, 0)
    assert [copy.get("cause") for copy in of_topic(harness, retry_topic(GROUP))] == dead


def test_more_than_a_redrive_can_hold_is_refused_with_how_to_narrow_it(
    harness: RoutingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakemq.gateway.redrive.dead_letters.MATCHED_MAX", 3)
    dead = make_dead(harness, 5)
    with pytest.raises(InvalidRequest, match=f"position <= {dead[2]}"):
        begin(harness)
    assert finished(harness, begin(harness, f"position <= {dead[2]}"))["redriven"] == 3


def test_letters_are_kept_no_longer_than_their_group(harness: RoutingHarness) -> None:
    """Regression: those of deleted groups were counted, and kept in memory, until there were millions."""
    make_dead(harness, 3)
    position = harness.produce(Draft(b"x"))
    harness.run(harness.broker.router.nacks.nack("other", [Nack(harness.id_of(position), -1)], anybody))
    (kept,) = [message.position for message in of_topic(harness, dead_letter_topic("other"))]
    harness.run(harness.broker.groups.delete(GROUP))
    assert harness.broker.log.routing.dead == BitMap64([kept])
    harness.crash()
    harness.open(LEAD_MS)
    assert harness.broker.log.routing.dead == BitMap64([kept])


def test_a_redrive_ends_with_its_group(harness: RoutingHarness) -> None:
    make_dead(harness, 50)
    redrive_id = begin(harness, rate_per_s=SLOW)
    until_first_of(harness, 50)
    harness.run(harness.broker.groups.delete(GROUP))
    shown = finished(harness, redrive_id)
    assert (shown["matched"], shown["redriven"], shown["failed"]) == (50, 1, 49)


def discarder_of(harness: RoutingHarness) -> Discarder:
    return Discarder(harness.broker.router.executor, harness.broker.cold, 0.5)


def discard(harness: RoutingHarness) -> tuple[int, int]:
    """All that are open: how many they were, and how many are discarded."""
    done = harness.run(discarder_of(harness).discard(discarder.Discard(GROUP), False, None))
    return done.matched, done.discarded


def test_what_a_redrive_is_just_sending_is_not_discarded(harness: RoutingHarness) -> None:
    dead = make_dead(harness, 3)
    executor = harness.broker.router.executor
    assert executor.claim([dead[1]]) == [dead[1]]
    assert discard(harness) == (3, 2)
    executor.release([dead[1]])
    assert discard(harness) == (1, 1)
    assert (list(harness.broker.log.routing.dead), list(harness.broker.log.routing.discarded)) == ([], dead)


def test_many_letters_are_discarded_by_several_records(
    harness: RoutingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discarder, "LETTERS_MAX", 2)
    make_dead(harness, 5)
    assert discard(harness) == (5, 5)
    assert len(of_topic(harness, DISCARD_TOPIC)) == 3


def test_discards_wait_for_one_another_and_are_bounded(
    harness: RoutingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discarder, "WAITING_MAX", 1)
    dead = make_dead(harness, 3)

    async def all_at_once() -> list[object]:
        one = discarder_of(harness)
        asked = [one.discard(discarder.Discard(GROUP, "true"), False, None) for _ in range(3)]
        return await asyncio.gather(*asked, return_exceptions=True)

    first, second, refused = harness.run(all_at_once())
    assert first == discarder.Discarded(3, 3, 0, dead[-1])
    assert second == discarder.Discarded(0, 0, 0, None)
    assert isinstance(refused, Busy)


def test_a_discard_that_finds_the_disk_full_goes_on_when_it_is_asked_for_again(
    harness: RoutingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discarder, "LETTERS_MAX", 1)
    dead = make_dead(harness, 40)
    harness.run(discarder_of(harness).discard(discarder.Discard(GROUP, None, dead[0]), False, None))
    harness.files.room_bytes = 2_000
    with pytest.raises(StoreUnwritable):
        discard(harness)
    done = list(harness.broker.log.routing.discarded)
    assert 1 <= len(done) < 40
    assert done == dead[: len(done)]
    harness.files.room_bytes = None
    harness.broker.log.retain()
    harness.crash()
    harness.open(LEAD_MS)
    assert discard(harness) == (40 - len(done), 40 - len(done))
    assert list(harness.broker.log.routing.discarded) == dead


def test_erased_letters_are_open_no_more_and_a_replay_says_the_same(harness: RoutingHarness) -> None:
    """Regression: they counted for ever, and nothing could redrive or discard them."""
    dead = make_dead(harness, 4)
    first = discarder.Discard(GROUP, up_to=dead[0])
    assert harness.run(discarder_of(harness).discard(first, False, None)).discarded == 1

    async def others(_offset: int, _seconds: float) -> None:
        return

    system = harness.broker.topics.system
    harness.run(harness.broker.erasures.erase([(dead[0], dead[2])], system, others))
    for _ in ("live", "replayed"):
        routing = harness.broker.log.routing
        assert (list(routing.dead), list(routing.discarded)) == (dead[2:], [])
        assert routing.dead_of.count(GROUP, routing.dead) == 2
        harness.crash()
        for path in harness.broker.log.directory.glob("*.idx"):
            path.unlink()
        harness.open(LEAD_MS)


def test_a_redrive_reports_what_was_discarded_before_it_came_to_it(harness: RoutingHarness) -> None:
    dead = make_dead(harness, 60)
    redrive_id = begin(harness, rate_per_s=1)
    _, discarded = discard(harness)
    assert discarded
    shown = finished(harness, redrive_id)
    assert shown["redriven"] + shown["failed"] == len(dead)
    assert shown["failed"] == discarded


def test_slow_redrives_of_one_group_leave_room_and_end_with_their_group(harness: RoutingHarness) -> None:
    dead = make_dead(harness, 3 * redriver.GROUP_OPEN_MAX)
    each = [dead[at : at + 3] for at in range(0, len(dead), 3)]  # one goes at once, and one after the restart
    slow = [begin(harness, f"position IN ({a}, {b}, {c})", SLOW) for a, b, c in each]
    with pytest.raises(FlowControl, match=f"redrives of group {GROUP}"):
        begin(harness, rate_per_s=SLOW)
    harness.restart(LEAD_MS, clean=False)
    for each in slow:
        finished(harness, each, "running")
    room = harness.broker.redriver._of_group  # pyright: ignore[reportPrivateUsage]
    for _ in range(6_000):  # each has its place again once it has read its record
        if not room.is_full_for(GROUP):
            harness.run(asyncio.sleep(0.01))
    with pytest.raises(FlowControl, match=f"redrives of group {GROUP}"):
        begin(harness, rate_per_s=SLOW)
    assert harness.run(harness.broker.redriver.begin("another", None, FAST, False))[1:] == (0, 0)
    harness.run(harness.broker.groups.delete(GROUP))
    for each in slow:
        finished(harness, each)
    finished(harness, begin(harness))
