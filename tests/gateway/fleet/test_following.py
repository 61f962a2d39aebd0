"""What a follower does when its own machine fails: in this process, beside a real primary."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakemq.gateway.fleet.follower import Follower
from lakemq.gateway.fleet.incarnation import Incarnation
from lakemq.gateway.fleet.primary import Answered, Own, Primary, begin_log
from lakemq.gateway.fleet.static_leadership import StaticLeadership
from lakemq.gateway.fleet.tenure import Elected
from lakemq.settings import Settings, load
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.disk.files import Files
from lakemq.storage.log import followed_log
from lakemq.storage.log.followed_log import FollowedLog
from lakemq.storage.log.recovery import list_segments
from lakemq.storage.read.reader import Reader
from lakemq.storage.segment.frame import LogEpoch
from lakemq.testing import GatewayProcess, LossyFiles, start_gateway
from tests.gateway.fleet.following import broker_of, leave, nothing, starting_later
from tests.gateway.http_client import WAIT_S, connect, produce


@pytest.fixture(scope="module")
def primary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with start_gateway(tmp_path_factory.mktemp("primary")) as gateway, connect(gateway) as http:
        produce(http, "t", *map(str, range(10)))
        yield gateway


def settings_of(
    data_dir: Path, primary: GatewayProcess, wait_ms_max: int = 100, flush_interval_ms: int = 500, **fleet: Any
) -> Settings:
    options: dict[str, dict[str, Any]] = {
        "storage": {"data_dir": str(data_dir), "flush_interval_ms": flush_interval_ms},
        "broker": {"replica": 1},
        "fleet": {"primary": primary.url, **fleet},
        "gateway": {"wait_ms_max": wait_ms_max},
    }
    return load(environment={}, options=options)


def test_the_first_segment_is_there_after_a_power_cut(primary: GatewayProcess, tmp_path: Path) -> None:
    asked = Primary(settings_of(tmp_path, primary))
    for seed in range(8):
        root = tmp_path / str(seed)
        root.mkdir()
        files, directory = LossyFiles(root, seed), root / "commitlog"
        files.make_dirs(directory)
        begin_log(asked, files, directory)
        (begun,) = [each.path.read_bytes() for each in list_segments(files, directory)]
        files.cut_power()
        assert [each.path.read_bytes() for each in list_segments(files, directory)] == [begun] != [b""], seed
    asked.close()


def follow(
    settings: Settings, is_so: Callable[[Follower, FollowedLog], bool], go_on: Callable[[], None] = nothing
) -> str | None:
    """Follow until it is so; returns why it follows no more. `go_on` is called once it is closed."""

    async def scene() -> str | None:
        log = FollowedLog(settings.storage, Files(), SystemClock())
        follower = Follower(settings, log, Reader(log), lambda position: None)
        await asyncio.to_thread(follower.begin)
        log.open(loop=asyncio.get_running_loop())
        follower.opened()
        follower.start()
        async with asyncio.timeout(WAIT_S):
            while not is_so(follower, log):  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.01)
        await leave(follower, go_on)
        await log.close()
        return follower.fault

    return asyncio.run(scene())


def test_no_thread_or_no_memory_for_a_question_is_no_reason_to_stop(primary: GatewayProcess, tmp_path: Path) -> None:
    with connect(primary) as http:
        end = broker_of(http)["max_position"]

    def has_all(follower: Follower, log: FollowedLog) -> bool:
        return log.next_position >= end and follower.problem is None

    with starting_later("follower"):
        assert follow(settings_of(tmp_path, primary), has_all) is None


def test_who_is_closed_while_it_asks_leaves_no_connection_open(
    primary: GatewayProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, asks, goes_on = Primary.frames, threading.Event(), threading.Event()

    def asks_late(asked: Primary, *what: Any) -> Answered:
        asks.set()
        goes_on.wait(WAIT_S)
        return ask(asked, *what)

    monkeypatch.setattr(Primary, "frames", asks_late)
    assert follow(settings_of(tmp_path, primary), lambda follower, log: asks.is_set(), goes_on.set) is None


def test_what_is_written_and_could_not_be_applied_stops_it_until_a_start(
    primary: GatewayProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: Any) -> None:
        raise MemoryError

    settings = settings_of(tmp_path, primary)
    with monkeypatch.context() as patched:
        patched.setattr(followed_log, "move_on", no_memory)
        fault = follow(settings, lambda follower, log: follower.fault is not None)
    assert fault == "a frame could not be applied: MemoryError()"
    with connect(primary) as http:
        end = broker_of(http)["max_position"]
    assert follow(settings, lambda follower, log: log.next_position >= end) is None


def test_who_has_something_that_is_not_on_disk_yet_asks_again_once_it_is(
    primary: GatewayProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the question the primary hears of it, and so what nobody waits for is confirmed, too."""
    ask, asked = Primary.frames, list[tuple[bool, int]]()

    def asks(self: Primary, begin: int, log: LogEpoch, log_id: str, own: Own, wait_ms: int, bytes_max: int) -> Answered:
        asked.append((own.durable >= begin, wait_ms))
        return ask(self, begin, log, log_id, own, wait_ms, bytes_max)

    monkeypatch.setattr(Primary, "frames", asks)
    settings = settings_of(tmp_path, primary, wait_ms_max=400, flush_interval_ms=200)
    with connect(primary) as http:

        def both_were_asked(follower: Follower, log: FollowedLog) -> bool:
            produce(http, "t", "more")
            return {is_durable for is_durable, _ in asked} == {True, False}

        assert follow(settings, both_were_asked) is None
    assert {(is_durable, wait_ms < 400) for is_durable, wait_ms in asked} == {(True, False), (False, True)}


def has_begun(settings: Settings) -> None:
    """The folder has the beginning of the primary's log."""
    asked, files, directory = Primary(settings), Files(), settings.storage.data_dir / "commitlog"
    files.make_dirs(directory)
    begin_log(asked, files, directory)
    asked.close()


def test_who_follows_nobody_has_nothing_to_wait_for(primary: GatewayProcess, tmp_path: Path) -> None:
    """Such as one whose primary has another log."""
    with start_gateway(tmp_path / "other") as other:
        has_begun(settings_of(tmp_path, other))
    settings = settings_of(tmp_path, primary)

    async def scene() -> None:
        log = FollowedLog(settings.storage, Files(), SystemClock())
        follower = Follower(settings, log, Reader(log), lambda position: None)
        await asyncio.to_thread(follower.begin)
        assert follower.fault is not None
        log.open(loop=asyncio.get_running_loop())
        follower.opened()
        follower.start()
        async with asyncio.timeout(WAIT_S):
            await follower.has_asked(2 * WAIT_S)
        await follower.close()
        await log.close()

    asyncio.run(scene())


def test_where_nobody_leads_no_address_is_waited_for(primary: GatewayProcess, tmp_path: Path) -> None:
    """Such as where the store has lost who led: what a replica has is served, and an order may have it lead."""
    has_begun(settings := settings_of(tmp_path, primary, lease_ms=60_000))

    async def scene() -> None:
        log = FollowedLog(settings.storage, Files(), SystemClock())
        leadership, own = StaticLeadership(log.files, tmp_path, "log"), Incarnation(log.files, tmp_path)
        elected = Elected(leadership, own, str, lambda: None, lambda: None, dict[str, Any], list[str])
        follower = Follower(settings, log, Reader(log), lambda position: None, elected)
        async with asyncio.timeout(settings.fleet.lease_ms / 2_000):
            await follower.prepare()
        assert follower.problem is not None
        await follower.close()

    asyncio.run(scene())
