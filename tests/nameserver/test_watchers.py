"""Who waits for routes, without a name server around it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from lakemq.model.errors import Busy
from lakemq.nameserver import watchers
from lakemq.nameserver.registry import EVERYTHING
from lakemq.nameserver.watchers import Watchers
from lakemq.web.room import Room


class Scene:
    """Watchers of versions that a test sets."""

    def __init__(self, most: int = 100, each_most: int = 1_000) -> None:
        self.versions: dict[str | None, str] = {}
        self.room = True
        self.asked = 0
        self.watchers = Watchers(Room(most, each_most), self._version, lambda: self.room)
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def _version(self, topic: str | None) -> str:
        self.asked += 1
        return self.versions.get(topic, "1")

    async def wait(self, topic: str | None, count: int = 1, seconds: float = 60) -> list[asyncio.Task[None]]:
        """Some more who wait with the current version, once they do."""
        version = self.versions.get(topic, "1")
        waits = [self.watchers.wait(topic, version, seconds, self.gone, None) for _ in range(count)]
        tasks = [asyncio.ensure_future(each) for each in waits]
        await asyncio.sleep(0)
        return tasks

    def move(self, topic: str | None, version: str) -> None:
        self.versions[topic] = version
        self.watchers.moved({topic})


@pytest.fixture
def long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends when the test says so."""
    for name in ("PAUSE_S", "PAUSE_S_MAX"):
        monkeypatch.setattr(watchers, name, 3_600.0)


def run(scene: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scene

    asyncio.run(bounded())


def test_a_change_wakes_who_waits_for_it_and_nobody_else() -> None:
    async def scene() -> None:
        made = Scene()
        one, other, all_ = await made.wait("t"), await made.wait("u"), await made.wait(EVERYTHING)
        made.move("t", "2")
        await asyncio.gather(*one)
        assert not any(task.done() for task in (*other, *all_))
        assert len(made.watchers) == 2
        made.move(EVERYTHING, "2")  # which is told at the end of the pause
        await asyncio.gather(*all_)
        assert not other[0].done()
        made.watchers.stop()
        await asyncio.gather(*other)
        assert len(made.watchers) == 0

    run(scene())


def test_what_is_again_what_it_was_wakes_nobody_but_who_came_between(long_pause: None) -> None:
    async def scene() -> None:
        made = Scene()
        other = await made.wait("other")
        made.move("other", "2")
        await asyncio.gather(*other)
        first = await made.wait("t")
        made.move("t", "2")
        second = await made.wait("t")
        made.move("t", "1")
        made.watchers.end_pause()
        await asyncio.gather(*second)
        assert not first[0].done()
        made.move("t", "3")
        made.watchers.end_pause()
        await asyncio.gather(*first)

    run(scene())


def test_changes_after_a_wake_are_told_together(long_pause: None) -> None:
    async def scene() -> None:
        made = Scene()
        waiting = await made.wait("t", 3)
        for number in range(2, 30):
            made.move("t", str(number))
            waiting += await made.wait("t", 3)
        assert sum(task.done() for task in waiting) == 3
        assert made.asked == 1
        made.watchers.end_pause()
        await asyncio.gather(*waiting[:-3])
        assert made.asked == 2
        assert len(made.watchers) == 3
        made.watchers.stop()

    run(scene())


def test_many_are_woken_some_at_a_time() -> None:
    async def scene() -> None:
        made = Scene(most=1_000)
        tasks = await made.wait("t", 1_000)
        made.move("t", "2")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert 0 < sum(task.done() for task in tasks) < 1_000
        await asyncio.gather(*tasks)

    run(scene())


def test_who_does_not_read_holds_up_others_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        made = Scene()
        made.room = False
        tasks = await made.wait("t", 40)
        made.move("t", "2")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert 0 < sum(task.done() for task in tasks) < 40
        await asyncio.gather(*tasks)

    monkeypatch.setattr(watchers, "WITHOUT_ROOM_S", 0.002)
    run(scene())


def test_a_wait_ends_with_its_time_its_client_or_the_server() -> None:
    async def scene() -> None:
        made = Scene()
        await asyncio.gather(*await made.wait("t", seconds=0.001))
        tasks = await made.wait("t")
        made.gone.set_result(None)
        await asyncio.gather(*tasks)
        await asyncio.gather(*await made.wait("t"))
        assert len(made.watchers) == 0
        made.gone = asyncio.get_running_loop().create_future()
        tasks = await made.wait("t", 5)
        made.watchers.stop()
        await asyncio.gather(*tasks)
        await asyncio.gather(*await made.wait("t"))
        made.move("t", "2")
        assert len(made.watchers) == 0

    run(scene())


def test_too_many_are_refused() -> None:
    async def scene() -> None:
        made = Scene(most=2)
        await made.wait("t", 2)
        with pytest.raises(Busy, match=r"nameserver\.waiters_max"):
            await made.watchers.wait("t", "1", 60, made.gone, None)
        made.watchers.stop()
        made = Scene(most=3, each_most=2)
        await made.wait("t", 2)
        with pytest.raises(Busy, match=r"nameserver\.client_share"):
            await made.watchers.wait("t", "1", 60, made.gone, None)
        other = asyncio.ensure_future(made.watchers.wait("t", "1", 60, made.gone, "10.0.0.1"))
        await asyncio.sleep(0)
        assert len(made.watchers) == 3
        made.watchers.stop()
        await other

    run(scene())


def test_who_is_cancelled_waits_no_more() -> None:
    async def scene() -> None:
        made = Scene()
        (task,) = await made.wait("t")
        task.cancel()
        await asyncio.wait([task])
        assert len(made.watchers) == 0
        made.move("t", "2")

    run(scene())
