"""Messages that effects are of, planned in a thread while the log goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lakemq.gateway.cold.by_key import KeySearch
from lakemq.gateway.process.metrics_page import MetricsPage
from lakemq.gateway.requests.requests import Requests
from lakemq.gateway.routing.jobs import ALIVE_MS, Heartbeat
from lakemq.gateway.routing.nacks import Nack
from lakemq.model.errors import Busy, LogDamaged
from lakemq.model.message import Draft
from lakemq.storage.read.sealed_indexes import UNUSED_MAX
from lakemq.storage.segment.frame_rows import FrameRows
from lakemq.testing import FaultyFiles
from tests.gateway.routing.harness import TOPIC, RoutingHarness, anybody
from tests.storage.harness import begin_segment

SEGMENTS = 3


class _Meanwhile(FaultyFiles):
    """What is done on the loop while a thread is about to read an index: once."""

    def __init__(self) -> None:
        super().__init__()
        self.do: Callable[[], object] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.indexes_read = 0

    def open_read(self, path: Path) -> int:
        self.indexes_read += path.suffix == ".idx"
        do, self.do = (self.do, None) if path.suffix == ".idx" else (None, self.do)
        if do is not None:
            assert threading.current_thread() is not threading.main_thread()
            assert self.loop is not None
            done = threading.Event()
            self.loop.call_soon_threadsafe(lambda: (do(), done.set()))
            assert done.wait(60)
        return super().open_read(path)


@pytest.fixture
def files() -> _Meanwhile:
    return _Meanwhile()


@pytest.fixture
def harness(tmp_path: Path, files: _Meanwhile) -> Iterator[RoutingHarness]:
    """A broker of a few segments, no index of which is in memory but of the last; each begins with a message."""
    harness = RoutingHarness(tmp_path)
    harness.files = files
    harness.open(lead_ms=1_000)
    harness.run(harness.broker.topics.put(TOPIC, 1, "rw"))
    for _ in range(SEGMENTS):
        harness.run(begin_segment(harness.broker.log))
        harness.produce(Draft(body=b"x"))
    reader = harness.broker.reader
    forget_all(harness)
    assert [reader.known_index(segment) is None for segment in reader.segments()] == [True] * SEGMENTS + [False]
    files.loop = harness.run(_running_loop())
    yield harness
    harness.stop()


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


@pytest.mark.parametrize("is_known", [False, True], ids=["unknown", "known"])
def test_what_leaves_the_log_while_an_index_is_read_is_looked_for_in_the_lake(
    harness: RoutingHarness, files: _Meanwhile, is_known: bool
) -> None:
    """Also where the index of what leaves is in memory, so that its plan says nothing of that."""
    log, executor = harness.broker.log, harness.broker.router.executor
    gone, there = (log.segments[number].base_position for number in (1, 2))
    asked: list[int] = []

    async def read_cold(positions: Sequence[int]) -> list[FrameRows]:
        asked.extend(positions)
        return []

    def remove() -> None:
        for _ in range(2):
            log._store.remove_oldest(log.topics)  # pyright: ignore[reportPrivateUsage]

    executor.read_cold = read_cold
    if is_known:
        harness.broker.reader.forget(log.segments[1])  # its frames too
        harness.broker.reader.index(log.segments[1])
    files.do = remove
    found = harness.run(executor.read_some([gone, there]))
    assert log.min_position == there
    assert asked == found.lost == [gone]
    assert [position for part in found.parts for position in part.rows()] == [there]
    assert not found.damaged


def test_what_leaves_the_log_hides_no_damage_from_who_looks_for_messages_by_key(
    harness: RoutingHarness, files: _Meanwhile
) -> None:
    """What can't be read was missing in the answer where what was read before it had left the log."""
    broker = harness.broker
    _, gone, there = broker.log.segments[:3]
    for segment in (gone, there):
        broker.reader.forget(segment)
    broker.reader.index(gone)
    with there.path.open("r+b") as file:
        file.seek(there.size // 2)
        file.write(bytes(there.size - there.size // 2))

    def remove() -> None:
        for _ in range(2):
            broker.log._store.remove_oldest(broker.log.topics)  # pyright: ignore[reportPrivateUsage]

    files.do = remove
    search = KeySearch(broker.store, broker.cold, 2**20, 1)
    with pytest.raises(LogDamaged, match=f"position {there.base_position} "):
        harness.run(search.messages([gone.base_position, there.base_position]))
    assert broker.log.min_position == there.base_position


def test_who_goes_while_an_index_is_read_keeps_no_claim(harness: RoutingHarness, files: _Meanwhile) -> None:
    executor, deliveries = harness.broker.router.executor, harness.broker.router.deliveries
    cause = harness.produce(Draft(body=b"later", delay_ms=600_000))
    harness.run(begin_segment(harness.broker.log))
    going: list[asyncio.Task[int]] = []

    async def deliver() -> None:
        going.append(asyncio.create_task(deliveries.deliver([cause])))
        with pytest.raises(asyncio.CancelledError):
            await going[0]

    files.do = lambda: going[0].cancel()
    harness.run(deliver())
    assert executor.is_free(cause)
    assert harness.run(executor.read_one(cause)) is not None


def harness_with_a_nack(tmp_path: Path, files: _Meanwhile) -> RoutingHarness:
    """A broker without a lead, and with a grace of a second, in which one nack waits."""
    harness = RoutingHarness(tmp_path)
    harness.files = files
    harness.open(lead_ms=0, grace_ms=1_000)
    harness.run(harness.broker.topics.put(TOPIC, 1, "rw"))
    nack = Nack(harness.id_of(harness.produce(Draft(body=b"x"))))
    assert harness.run(harness.broker.router.nacks.nack("g", [nack], anybody)) == ["ok"]
    return harness


def test_when_a_nack_is_overdue_is_looked_up_without_an_index_read_on_the_loop(
    tmp_path: Path, files: _Meanwhile
) -> None:
    harness = harness_with_a_nack(tmp_path, files)
    harness.run(begin_segment(harness.broker.log))
    harness.clock.time_ms += 500
    harness.produce(Draft(body=b"y"))
    overdue, files.loop = harness.broker.router.overdue, harness.run(_running_loop())
    for look in (overdue.pause_ms, overdue.look):
        forget_all(harness)
        read: list[None] = []
        files.do = lambda read=read: read.append(None)
        harness.hear_jobs()
        harness.run(look())
        assert read == [None]
        harness.clock.time_ms += 900
    harness.stop()


def test_what_is_overdue_is_counted_without_an_index_read_on_the_loop(tmp_path: Path, files: _Meanwhile) -> None:
    harness = harness_with_a_nack(tmp_path, files)
    for later_ms in (100, 400):
        harness.run(begin_segment(harness.broker.log))
        harness.clock.time_ms += later_ms
        harness.produce(Draft(body=b"y"))
    harness.clock.time_ms += 550
    overdue, files.loop = harness.broker.router.overdue, harness.run(_running_loop())
    forget_all(harness)
    read: list[None] = []
    files.do = lambda: read.append(None)
    assert harness.run(overdue.count())["nack"] == 1
    assert read == [None]
    harness.stop()


def test_what_may_be_held_again_is_looked_up_without_an_index_read_on_the_loop(
    harness: RoutingHarness, files: _Meanwhile
) -> None:
    deliveries = harness.broker.router.deliveries
    harness.produce(Draft(body=b"soon", delay_ms=500))
    harness.run(begin_segment(harness.broker.log))
    forget_all(harness)
    held, read = len(deliveries.dues), list[None]()
    files.do = lambda: read.append(None)
    harness.run(deliveries._anticipate_again())  # pyright: ignore[reportPrivateUsage]
    assert read == [None]
    assert len(deliveries.dues) == held == 1


def test_a_reply_whose_segment_is_written_no_more_is_shown_without_an_index_read_on_the_loop(
    harness: RoutingHarness, files: _Meanwhile
) -> None:
    broker, read = harness.broker, list[None]()
    requests = Requests(broker.store, broker.topics, 1, broker.work)
    files.do = lambda: read.append(None)
    position = broker.log.segments[1].base_position
    message = harness.run(requests._read(position))  # pyright: ignore[reportPrivateUsage]
    assert message["position"] == position
    assert read == [None]


def test_a_job_that_is_heard_of_while_an_index_is_read_for_it_is_alive(
    harness: RoutingHarness, files: _Meanwhile
) -> None:
    jobs = harness.broker.router.jobs
    beat = Heartbeat("delay", 1, 0, frozenset({"of nobody"}))
    jobs.hear([beat])
    harness.clock.time_ms += ALIVE_MS + 1
    files.do = lambda: jobs.hear([beat._replace(position=2)])
    said = harness.run(jobs.describe())["delay"]
    assert files.do is None
    assert (said["alive"], said["position"], said["lag"]) == (True, 1, 0)
    assert said["last_heartbeat_ms"] == harness.clock.now_ms()
    assert harness.run(jobs.describe())["delay"]["position"] == 2


def test_one_look_is_for_all_who_ask_meanwhile_how_far_jobs_are(harness: RoutingHarness, files: _Meanwhile) -> None:
    jobs = harness.broker.router.jobs
    jobs.hear([Heartbeat("delay", 0, 0, frozenset({"of nobody"}))])
    files.indexes_read = 0
    first, *others = harness.run_all(*(jobs.describe(client) for client in ("1.1.1.1", "1.1.1.1", "2.2.2.2")))
    assert first["delay"]["lag"] == 0
    assert others == [first, first]
    assert files.indexes_read == SEGMENTS


def test_who_asks_for_all_that_looks_at_the_log_waits_for_one_look_and_is_refused_past_a_share(
    tmp_path: Path, files: _Meanwhile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is overdue, how far jobs are, and the metrics, which have both: one count of who waits."""
    monkeypatch.setattr("lakemq.gateway.routing.router.LOOKS_WAITING_MAX", 4)  # three of them of one client
    harness = harness_with_a_nack(tmp_path, files)
    harness.run(begin_segment(harness.broker.log))
    router, page = harness.broker.router, MetricsPage(harness.broker)
    router.jobs.hear([Heartbeat("retry", 0, 0, frozenset({"of nobody"}))])
    forget_all(harness)

    async def asking() -> list[Any]:
        parts = [router.overdue.count("1.1.1.1"), router.jobs.describe("1.1.1.1")]
        pages = [page.write(client) for client in ["1.1.1.1"] * 3 + ["2.2.2.2"]]
        return await asyncio.gather(*parts, *pages, return_exceptions=True)

    *own, of_another = harness.run(asking())
    assert [type(each) for each in own[2:]].count(Busy) == 1
    assert isinstance(of_another, bytes)
    harness.stop()


def forget_all(harness: RoutingHarness) -> None:
    """No index of a segment that is written no more stays in memory."""
    for _ in range(UNUSED_MAX + 1):
        harness.broker.reader.forget_unused()
