"""A primary's in-sync set as it starts: in this process."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from lakemq.client.http import HttpClient
from lakemq.gateway.fleet.follower import AGAIN_S_MAX
from lakemq.gateway.fleet.incarnation import Incarnation
from lakemq.gateway.fleet.replication import FORGOTTEN_S_MAX, Question, Replication
from lakemq.gateway.fleet.static_leadership import StaticLeadership
from lakemq.gateway.fleet.tenure import Elected
from lakemq.model.election import forced
from lakemq.model.errors import InvalidRequest, NotConfirmed
from lakemq.model.in_sync import Member, Record
from lakemq.settings import Replication as Limits
from lakemq.settings import Settings, Storage
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.disk.files import Files
from lakemq.storage.log.appends import OneAppend
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.reader import Reader
from lakemq.storage.segment.rows import make_row
from tests.gateway.http_client import WAIT_S

SILENT_MS = 200


def test_a_primary_that_starts_lets_nobody_go_before_it_can_be_asked(tmp_path: Path) -> None:
    limits = Limits(silent_ms=SILENT_MS, confirm_ms_max=60_000)
    settings = Settings(storage=Storage(data_dir=tmp_path), replication=limits)

    async def scene() -> None:
        log = CommitLog(settings.storage, Files(), SystemClock())
        replication = Replication(settings, log, Reader(log))
        log.open(loop=asyncio.get_running_loop())
        leadership = StaticLeadership(log.files, tmp_path, log.identity.log_id)
        await leadership.compare_and_set(Record(0, 1, 1, (Member(0, "a"), Member(1, "b")), log.identity.log_id))
        await replication.start(leadership)
        await asyncio.sleep(3 * SILENT_MS / 1000)  # the rest of a start
        assert replication.in_sync == [0, 1]
        replication.serve()
        async with asyncio.timeout(WAIT_S):
            while replication.in_sync != [0]:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.01)
        await replication.close()
        await log.close()

    asyncio.run(scene())


@pytest.mark.parametrize("ack", ["async", "sync"])
def test_who_was_replaced_promises_nothing_though_nobody_but_it_was_in_sync(
    tmp_path: Path, ack: Literal["async", "sync"]
) -> None:
    # So that a promise comes, where one does, and the end of the wait doesn't.
    limits = Limits(ack=ack, confirm_ms_max=60_000)
    settings = Settings(storage=Storage(data_dir=tmp_path), replication=limits)

    async def scene() -> None:
        log = CommitLog(settings.storage, Files(), SystemClock())
        replication = Replication(settings, log, Reader(log))
        log.open(loop=asyncio.get_running_loop())
        leadership = StaticLeadership(log.files, tmp_path, log.identity.log_id)
        alone, looks = Record(0, 1, 0, (Member(0, "a"),), log.identity.log_id), list[bool]()
        lost, own = NotConfirmed("no lease"), Incarnation(log.files, tmp_path)
        asked = lambda: "", lambda: lost, lambda: looks.append(True), dict[str, Any], list[str]
        await replication.start(leadership, Elected(leadership, own, *asked, alone))
        replication.serve()
        queue = log.topics.ensure_queue("t", 0)
        assert (log.lease is None) == (ack == "sync")
        assert log.lease is None or log.lease() is None
        await log.append(OneAppend(make_row(body=b"x"), queue))
        await log.until_confirmed()
        await log.append(OneAppend(make_row(body=b"x"), queue))
        waits, confirmed = log.until_confirmed(), log.confirmed_position
        replication.replaced(forced(alone, Member(1, "b"), 1))
        assert log.lease is None or isinstance(log.lease(), NotConfirmed)
        assert looks
        with pytest.raises(NotConfirmed):  # of who waited
            await waits
        await log.flushed()
        late = log.until_confirmed()
        assert not late.done()
        assert log.confirmed_position == confirmed < log.flushed_position
        await replication.close()
        with pytest.raises(NotConfirmed):  # of who came to wait afterwards
            await late
        await log.close()

    asyncio.run(scene())


class _Held(StaticLeadership):
    """Its record is changed no sooner than `free` is set."""

    def __init__(self, log: CommitLog, folder: Path) -> None:
        super().__init__(log.files, folder, log.identity.log_id)
        self.asked, self.free = asyncio.Event(), asyncio.Event()
        self.free.set()

    async def compare_and_set(self, record: Record) -> bool:
        self.asked.set()
        await self.free.wait()
        return await super().compare_and_set(record)


@asynccontextmanager
async def _missing_1(folder: Path) -> AsyncGenerator[tuple[Replication, CommitLog, _Held]]:
    """A primary whose replica 1 is missing, and whose record isn't changed for now."""
    limits = Limits(silent_ms=30_000, confirm_ms_max=200_000)
    settings = Settings(storage=Storage(data_dir=folder), replication=limits)
    log = CommitLog(settings.storage, Files(), SystemClock())
    replication = Replication(settings, log, Reader(log))
    log.open(loop=asyncio.get_running_loop())
    leadership = _Held(log, folder)
    await leadership.compare_and_set(Record(0, 1, 1, (Member(0, "a"),), log.identity.log_id, missing=(1,)))
    await replication.start(leadership)
    replication.serve()
    leadership.free.clear()
    leadership.asked.clear()
    async with asyncio.timeout(WAIT_S):
        yield replication, log, leadership
    await replication.close()
    await log.close()


def test_a_replica_that_was_joining_as_it_was_to_be_forgotten_is_in_sync(tmp_path: Path) -> None:
    """The answer said that it was removed."""

    async def scene() -> None:
        async with _missing_1(tmp_path) as (replication, log, leadership):
            end = log.flushed_position
            assert replication.hear(Question(Member(1, "b"), end, log.identity.now.epoch, end))
            await leadership.asked.wait()
            assert replication.missing == [1]
            removed = asyncio.create_task(replication.remove(1))
            await asyncio.sleep(0)  # it begins
            assert not removed.done()
            leadership.free.set()
            with pytest.raises(InvalidRequest, match="replica 1 is in sync"):
                await removed
            assert replication.in_sync == [0, 1]

    asyncio.run(scene())


def test_who_removes_a_replica_is_answered_though_writes_may_wait_longer_for_replicas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client had given up by then."""
    assert inspect.signature(HttpClient).parameters["timeout_s"].default > FORGOTTEN_S_MAX
    monkeypatch.setattr("lakemq.gateway.fleet.replication.FORGOTTEN_S_MAX", 0.05)

    async def scene() -> None:
        async with _missing_1(tmp_path) as (replication, _, leadership):
            with pytest.raises(NotConfirmed, match="it is being changed"):
                await replication.remove(1)
            leadership.free.set()

    asyncio.run(scene())


def test_a_follower_asks_again_before_a_primary_that_is_back_lets_it_go() -> None:
    assert Limits().silent_ms > 2_000 * AGAIN_S_MAX
