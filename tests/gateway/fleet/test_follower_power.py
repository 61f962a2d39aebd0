"""A follower whose machine loses its power has all that was acknowledged: in this process, beside a real primary."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from lakemq.gateway.fleet.follower import Follower
from lakemq.settings import load
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.log.followed_log import FollowedLog
from lakemq.storage.read.reader import Reader
from lakemq.testing import GatewayProcess, LossyFiles, start_gateway
from tests.gateway.fleet.following import broker_of, leave
from tests.gateway.fleet.test_in_sync import PATIENT
from tests.gateway.http_client import WAIT_S, connect, produce

FLUSH = "storage.log.commit_log.CommitLog._prepare_flush.<locals>.flush: sync"
CUTS, CUTS_WITHOUT = 4, 40


def follow_until_the_power_is_cut(primary: GatewayProcess, root: Path, seed: int, skipped_site: str | None) -> bool:
    """Follow a primary that waits for this follower, until messages are acknowledged; then the machine ends. Whether
    the next start finds all of them, and knows that it may have lost something."""
    root.mkdir()
    files = LossyFiles(root, seed)
    files.skipped_site = skipped_site
    options: dict[str, dict[str, object]] = {
        "storage": {"data_dir": str(root)},
        "broker": {"replica": 1},
        "fleet": {"primary": primary.url},
        "gateway": {"wait_ms_max": 500},  # its last question is waited for
    }
    settings = load(environment={}, options=options)
    with connect(primary) as http:
        was = broker_of(http)
    # The one before this one, if there was one, goes as this one comes.
    changes = len(was["in_sync"])

    def has_joined(http: httpx.Client) -> bool:
        now = broker_of(http)
        version = now["replication"]["record_version"]
        return now["in_sync"] == [0, 1] and version >= was["replication"]["record_version"] + changes

    async def until_cut() -> tuple[int, str]:
        log = FollowedLog(settings.storage, files, SystemClock())
        follower = Follower(settings, log, Reader(log), lambda position: None)
        await asyncio.to_thread(follower.begin)
        log.open(loop=asyncio.get_running_loop())
        follower.opened()
        follower.start()
        with connect(primary) as http:
            async with asyncio.timeout(WAIT_S):
                while not await asyncio.to_thread(has_joined, http):  # noqa: ASYNC110  nobody tells
                    await asyncio.sleep(0.01)
            sent = [await asyncio.to_thread(produce, http, "t", f"{seed}-{number}") for number in range(3)]
        files.die_at = files.calls + 1
        await leave(follower)
        log.release()
        name = follower._incarnation.name  # pyright: ignore[reportPrivateUsage]  what the primary knew it by
        return sent[-1][0]["position"], name

    async def after() -> tuple[int, str]:
        log = FollowedLog(settings.storage, files, SystemClock())
        follower = Follower(settings, log, Reader(log), lambda position: None)
        log.open(loop=asyncio.get_running_loop())
        follower.opened()
        end, name = log.next_position, follower._incarnation.name  # pyright: ignore[reportPrivateUsage]
        await log.close()
        return end, name

    acknowledged, before = asyncio.run(until_cut())
    files.cut_power()
    end, now = asyncio.run(after())
    assert now != before
    return end > acknowledged


@pytest.fixture
def primary(tmp_path: Path) -> GatewayProcess:
    return start_gateway(tmp_path / "primary", **PATIENT)


def test_what_was_acknowledged_is_there_after_a_power_cut_of_the_follower(
    primary: GatewayProcess, tmp_path: Path
) -> None:
    with primary:
        for seed in range(CUTS):
            assert follow_until_the_power_is_cut(primary, tmp_path / str(seed), seed, None)


def test_a_follower_that_does_not_sync_what_it_says_it_has_loses_it(primary: GatewayProcess, tmp_path: Path) -> None:
    with primary:
        kept = (
            follow_until_the_power_is_cut(primary, tmp_path / str(seed), seed, FLUSH) for seed in range(CUTS_WITHOUT)
        )
        assert not all(kept)
