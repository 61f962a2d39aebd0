"""Who waits for what is confirmed is told of no less, and consumers are shown no more."""

from __future__ import annotations

import asyncio

import pytest

from lakemq.model.errors import NotConfirmed, NotEnoughReplicas, StoreUnwritable
from lakemq.storage.log.appends import OneAppend
from lakemq.storage.log.flusher import OnDisk
from lakemq.storage.log.receiver import StoredOne
from lakemq.storage.read.hiding import hide_from
from lakemq.storage.segment.rows import make_row
from tests.storage.harness import LogHarness


def write(harness: LogHarness) -> OneAppend:
    return OneAppend(make_row(body=b"x"), harness.queue("a"))


def test_alone_confirmed_is_what_is_on_disk(harness: LogHarness) -> None:
    async def scene() -> None:
        log = harness.log
        await log.append(write(harness))
        before = log.confirmed_position
        assert before == log.flushed_position < log.next_position == log.visible_position
        await log.until_confirmed()
        assert log.confirmed_position == log.flushed_position == log.next_position
        await log.until_confirmed()

    harness.run(scene())


def test_one_flush_is_shared_by_all_who_wait_and_none_needs_a_future(harness: LogHarness) -> None:
    async def store() -> StoredOne:
        told: asyncio.Future[StoredOne] = asyncio.get_running_loop().create_future()
        harness.log.submit(write(harness), OnDisk(harness.log.confirmed, told))
        return await told

    async def many() -> list[StoredOne]:
        return await asyncio.gather(*[store() for _ in range(20)])

    harness.flush()
    syncs = harness.files.syncs
    positions = [position for _, _, position, _ in harness.run(many())]
    assert harness.files.syncs == syncs + 1
    assert harness.log.confirmed_position == max(positions) + 1


def test_with_others_it_is_confirmed_once_they_have_it_too_and_asked_for_at_once(harness: LogHarness) -> None:
    async def scene() -> None:
        log = harness.log
        await log.until_confirmed()
        log.confirmed.limit(log.flushed_position)
        asked = asyncio.get_running_loop().create_future()
        moved = asyncio.get_running_loop().create_future()
        log.confirmed.asked.waiters.add(asked)
        log.confirmed.waiters.add(moved)
        _, _, position, _ = await log.append(write(harness))
        waiting = log.until_confirmed()
        assert (asked.done(), log.confirmed.awaited) == (True, position + 1)
        await log.flushed()
        assert (waiting.done(), moved.done(), log.confirmed_position) == (False, False, position)
        log.confirmed.limit(position + 1)
        assert (waiting.done(), moved.done(), log.confirmed_position) == (True, True, position + 1)
        log.confirmed.limit(0)  # one more counts, which has nothing yet
        assert log.confirmed_position == position + 1
        await log.append(write(harness))
        waiting = log.until_confirmed()
        log.confirmed.limit(None)
        await waiting

    harness.run(scene())


def test_who_waits_for_too_long_is_told_and_others_go_on(harness: LogHarness) -> None:
    async def scene() -> None:
        log = harness.log
        await log.until_confirmed()
        log.confirmed._wait_s_max = 0.05  # pyright: ignore[reportPrivateUsage]  a setting, for the whole log
        early = log.until_confirmed()
        await log.append(write(harness))
        first = log.until_confirmed()  # alone yet: the disk alone is waited for
        log.confirmed.limit(log.confirmed_position)
        second = log.until_confirmed()
        for waiting in (first, second):
            with pytest.raises(NotConfirmed, match="it may be stored"):
                await waiting
        await early
        third = log.until_confirmed()
        with pytest.raises(NotConfirmed):
            await third
        log.confirmed.limit(None)
        await log.until_confirmed()

    harness.run(scene())


def test_where_too_few_are_in_sync_nothing_is_written_and_who_waits_is_told(harness: LogHarness) -> None:
    async def scene() -> None:
        log = harness.log
        log.confirmed.limit(log.flushed_position)
        await log.append(write(harness))
        waiting = log.until_confirmed()
        end = log.next_position
        log.too_few = "1 of 2"
        log.confirmed.refuse(NotEnoughReplicas("1 of 2"))
        with pytest.raises(NotEnoughReplicas):
            await waiting
        with pytest.raises(NotEnoughReplicas):
            await log.append(write(harness))
        assert log.next_position == end
        log.too_few = None
        await log.append(write(harness))
        log.confirmed.limit(None)

    harness.run(scene())


def test_a_flush_that_fails_tells_those_who_wait_for_others_too(harness: LogHarness) -> None:
    async def scene() -> None:
        log = harness.log
        await log.append(write(harness))
        harness.files.fail_sync = True
        waiting = log.until_confirmed()
        with pytest.raises(StoreUnwritable):
            await waiting
        with pytest.raises(StoreUnwritable):
            await log.until_confirmed()

    harness.run(scene())


def test_what_is_not_confirmed_is_hidden_and_who_waits_for_it_is_woken_when_it_is(harness: LogHarness) -> None:
    async def scene() -> None:
        log, queue = harness.log, harness.queue("a")
        await log.until_confirmed()
        log.sync_always = True
        log.confirmed.limit(log.flushed_position)
        begin = queue.end_offset
        await log.append(write(harness))
        await log.append(write(harness))
        assert (queue.next_offset, queue.end_offset) == (begin + 2, begin)
        assert (queue.count_from(begin), queue.visible_from(begin), queue.visible_from(begin + 1)) == (2, 0, 0)
        assert log.visible_position == log.next_position - 2
        arrival = asyncio.get_running_loop().create_future()
        queue.waiters.add(arrival)
        await log.flushed()
        log.confirmed.limit(log.next_position - 1)
        assert (queue.end_offset, arrival.done()) == (begin + 1, True)
        assert queue.visible_from(begin) == 1
        log.confirmed.show_all()
        assert queue.end_offset == queue.next_offset

    harness.run(scene())


def test_what_is_hidden_is_asked_for_at_once_also_where_no_request_waits_for_it(harness: LogHarness) -> None:
    async def scene() -> None:
        log = harness.log
        await log.until_confirmed()
        log.sync_always = True
        log.confirmed.limit(log.flushed_position)
        asked = asyncio.get_running_loop().create_future()
        log.confirmed.asked.waiters.add(asked)
        await log.append(write(harness))
        assert (asked.done(), log.confirmed.awaited) == (True, log.next_position)
        log.confirmed.limit(None)

    harness.run(scene())


def test_a_start_hides_what_is_not_known_to_be_confirmed(harness: LogHarness) -> None:
    harness.append("a", 0, b"0", b"1", b"2")
    known = harness.log.next_position
    harness.append("a", 0, b"3", b"4")
    harness.flush()
    harness.reopen()

    async def scene() -> None:
        log, queue = harness.log, harness.queue("a")
        log.confirmed.begin(known)
        hide_from(log, harness.reader, log.confirmed_position)
        assert queue.next_offset - queue.end_offset == 2
        log.confirmed.limit(log.next_position - 1)
        assert queue.next_offset - queue.end_offset == 2  # all of it, or nothing
        log.confirmed.limit(log.next_position)
        assert queue.next_offset == queue.end_offset
        hide_from(log, harness.reader, log.confirmed_position)
        assert queue.next_offset == queue.end_offset

    harness.run(scene())


@pytest.mark.parametrize("flush", ["async", "sync"])
def test_a_promise_waits_for_others_where_that_is_asked_for_and_else_for_the_disk_at_most(
    harness: LogHarness, flush: str
) -> None:
    log = harness.log
    log.settings = log.settings.model_copy(update={"flush": flush})
    assert log.promise() is (log.flusher if flush == "sync" else None)
    assert log.promise(sync=True) is log.confirmed
    log.sync_always = True
    assert log.promise() is log.confirmed
