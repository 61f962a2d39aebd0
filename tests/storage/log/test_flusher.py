"""Who waits for the disk is told when the message is there, or that it may not be, whatever the others do."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from lakemq.model.errors import StoreUnwritable
from lakemq.storage.log.appends import BatchAppend, OneAppend, RowsAppend
from lakemq.storage.log.flusher import OnDisk
from lakemq.storage.log.receiver import Receiver, StoredOne
from lakemq.storage.segment.rows import make_row, rows_to_batch
from lakemq.storage.state.topics import Queue
from tests.storage.harness import LogHarness


def test_a_receiver_is_told_once_its_message_is_on_disk(harness: LogHarness) -> None:
    async def store(number: int) -> StoredOne:
        log = harness.log
        told: asyncio.Future[StoredOne] = asyncio.get_running_loop().create_future()
        log.submit(OneAppend(make_row(body=b"%d" % number), harness.queue("a")), OnDisk(log.flusher, told))
        result = await told
        assert log.flushed_position > result[2]
        return result

    async def many() -> list[StoredOne]:
        return await asyncio.gather(*[store(number) for number in range(20)])

    harness.flush()
    syncs = harness.files.syncs
    results = harness.run(many())
    assert harness.files.syncs == syncs + 1
    bodies = {message.position: message.body for message in harness.read_log()}
    assert [bodies[position] for _, _, position, _ in results] == [b"%d" % number for number in range(20)]


def test_a_receiver_whose_message_does_not_come_to_disk_is_told_so(harness: LogHarness) -> None:
    async def store() -> None:
        log, loop = harness.log, asyncio.get_running_loop()
        harness.files.fail_sync = True
        told: list[asyncio.Future[StoredOne]] = [loop.create_future() for _ in range(3)]
        for receiver in told:
            log.submit(OneAppend(make_row(body=b"x"), harness.queue("a")), OnDisk(log.flusher, receiver))
        told[1].cancel()  # it needs to know no more, which is no trouble to the others
        for receiver in (told[0], told[2]):
            with pytest.raises(StoreUnwritable):
                await receiver
        late: asyncio.Future[StoredOne] = loop.create_future()
        log.submit(OneAppend(make_row(body=b"x"), harness.queue("a")), OnDisk(log.flusher, late))
        with pytest.raises(StoreUnwritable):
            await late

    harness.run(store())


class Faulty:
    """A receiver that fails as it is told."""

    def done(self) -> bool:
        return False

    def set_result(self, _: StoredOne, /) -> None:
        raise ValueError("faulty")

    def set_exception(self, exception: Exception, /) -> None:
        raise ValueError("faulty")


@pytest.mark.parametrize("disk_fails", [False, True])
def test_a_receiver_that_fails_keeps_nothing_from_the_others(
    harness: LogHarness, caplog: pytest.LogCaptureFixture, disk_fails: bool
) -> None:
    async def store() -> StoredOne:
        log = harness.log
        harness.files.fail_sync = disk_fails
        told: asyncio.Future[StoredOne] = asyncio.get_running_loop().create_future()
        log.submit(OneAppend(make_row(body=b"x"), harness.queue("a")), OnDisk(log.flusher, Faulty()))
        log.submit(OneAppend(make_row(body=b"y"), harness.queue("a")), OnDisk(log.flusher, told))
        return await told

    if disk_fails:
        with pytest.raises(StoreUnwritable):
            harness.run(store())
    else:
        assert harness.run(store())[2] < harness.log.flushed_position
        harness.append("a", 0, b"z")
        harness.flush()
    assert caplog.text.count("could not answer a request") == 1


def batch_of(queue: Queue) -> BatchAppend:
    return BatchAppend.of(rows_to_batch([make_row(body=b"b")])[1], [(queue, 1)])


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("kind", ["ones", "rows", "batches"])
def test_a_receiver_that_fails_harms_no_other_of_its_frame(
    harness: LogHarness, caplog: pytest.LogCaptureFixture, kind: str, refused: bool
) -> None:
    """Told that nothing was stored they would send again what was."""
    queue, row = harness.queue("a"), make_row(body=b"x")
    appends: dict[str, OneAppend | RowsAppend | BatchAppend] = {
        "ones": OneAppend(row, queue), "rows": RowsAppend([row], [queue]), "batches": batch_of(queue)
    }  # fmt: skip

    async def store() -> list[Any]:
        log, loop = harness.log, asyncio.get_running_loop()
        log.full = "the disk is full" if refused else None
        told: list[asyncio.Future[Any]] = []
        for faulty in (True, False, True, False):
            receiver: Receiver[Any] = Faulty() if faulty else loop.create_future()
            log.submit(cast("OneAppend", appends[kind]), receiver)
            told += [] if isinstance(receiver, Faulty) else [receiver]
        results = await asyncio.gather(*told, return_exceptions=True)
        assert log.full == ("the disk is full" if refused else None)
        log.full = None
        return results

    results = harness.run(store())
    assert [isinstance(result, StoreUnwritable) for result in results] == [refused, refused]
    assert caplog.text.count("could not answer a request") == 2
    harness.append("a", 0, b"z")
    stored = [message.body for message in harness.read_log() if message.topic == "a"]
    assert (len(stored), stored[-1]) == (1 if refused else 5, b"z")
