"""A primary's in-sync set as it starts: in this process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from lakemq.gateway.fleet.follower import AGAIN_S_MAX
from lakemq.gateway.fleet.incarnation import Incarnation
from lakemq.gateway.fleet.replication import Replication
from lakemq.gateway.fleet.static_leadership import StaticLeadership
from lakemq.gateway.fleet.tenure import Elected
from lakemq.model.election import forced
from lakemq.model.errors import NotConfirmed
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


def test_a_follower_asks_again_before_a_primary_that_is_back_lets_it_go() -> None:
    assert Limits().silent_ms > 2_000 * AGAIN_S_MAX
