"""A group whose place is moved while a receive of it chooses: the place is where it was moved to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.gateway.filter.scan import SCAN_STEP
from lakemq.gateway.groups.offsets import QueueOffset
from lakemq.gateway.process.app import make_app
from lakemq.gateway.process.broker import Broker
from lakemq.model.errors import GroupInUse
from lakemq.model.names import dead_letter_topic
from lakemq.settings import Settings, Storage
from lakemq.storage.state.member import Member
from lakemq.web.gone import put_gone
from tests.gateway.http_client import ARROW, write_arrow

ROWS = 3 * SCAN_STEP
TURNS = 40
"""Many more than a receive of all rows takes."""


class _Connection:
    """One that nobody closes."""

    def resume_reading(self) -> None:
        pass


@asynccontextmanager
async def serving(tmp_path: Path) -> AsyncGenerator[httpx.AsyncClient]:
    """Who asks a broker with a topic of which only the first and the last message are of tag `y`."""
    broker = Broker(Settings(storage=Storage(data_dir=tmp_path)))
    broker.open()
    await broker.start()
    front = make_app(broker).front

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        put_gone(scope, _Connection())
        await front(scope, receive, send)

    transport = httpx.ASGITransport(serve, client=("127.0.0.1", 1))
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http:
            await http.put("/v1/topics/t", json={"queues": 1})
            content = write_arrow({"body": [b"x"] * ROWS, "tag": ["y"] + ["x"] * (ROWS - 2) + ["y"]})
            sent = await http.post("/v1/topics/t/messages", content=content, headers={"Content-Type": ARROW})
            assert sent.status_code == 200, sent.text
            yield http
    finally:
        await broker.close()


async def received(http: httpx.AsyncClient, group: str, **fields: Any) -> list[int]:
    answer = await http.post(f"/v1/groups/{group}/receive", json={"topic": "t", "wait_ms": 0, "max": 1, **fields})
    assert answer.status_code == 200, answer.text
    return [each["queue_offset"] for each in answer.json()["messages"]]


async def moved(http: httpx.AsyncClient, group: str, how: str) -> None:
    if how == "reset":
        answer = await http.post(f"/v1/groups/{group}/offsets/reset", json={"topic": "t", "to": "earliest"})
    else:
        answer = await http.delete(f"/v1/groups/{group}")
    assert answer.is_success, answer.text


async def move_at_each_turn(http: httpx.AsyncClient, how: str) -> set[tuple[int, ...]]:
    """Move a group to the beginning in each turn of its first receive; returns what that was answered."""
    answered: set[tuple[int, ...]] = set()
    for turns in range(TURNS):
        group = f"g{turns}"
        offsets = {"offsets": [{"topic": "t", "queue_id": 0, "offset": 10}]}
        assert (await http.put(f"/v1/groups/{group}/offsets", json=offsets)).status_code == 200
        first = asyncio.ensure_future(received(http, group, tags="y"))
        for _ in range(turns):
            await asyncio.sleep(0)
        await moved(http, group, how)
        got = await first
        answered.add(tuple(got))
        after = await received(http, group)
        assert (after == [0]) == (got != [0]), f"after {turns} turns, which gave {got}: {after}"
    return answered


@pytest.mark.parametrize("how", ["reset", "delete"])
def test_a_group_that_is_moved_while_its_first_receive_chooses_goes_on_there(tmp_path: Path, how: str) -> None:
    """Regression: the receipt was stored after the reset, and took the group past all that it was reset to get."""

    async def run() -> set[tuple[int, ...]]:
        async with serving(tmp_path) as http:
            return await move_at_each_turn(http, how)

    assert asyncio.run(run()) == {(0,), (), (ROWS - 1,)}, "moved before it chose, meanwhile, and afterwards"


def test_a_group_that_gets_a_member_while_its_receipts_are_waited_for_is_not_deleted(tmp_path: Path) -> None:
    """Its dead letters went all the same, as their deletion is in the same frame."""

    async def run() -> None:
        broker = Broker(Settings(storage=Storage(data_dir=tmp_path)))
        broker.open()
        await broker.start()
        groups, dead = broker.groups, dead_letter_topic("g")
        await broker.topics.put("t", 1, "rw")
        await broker.topics.system(dead)
        await groups.offsets.commit("g", [QueueOffset("t", 0, 0)])
        storing = asyncio.get_running_loop().create_future()
        groups.moves.store("g", storing)
        deleting = asyncio.ensure_future(groups.delete("g"))
        await asyncio.sleep(0)
        await groups.members.heartbeat("g", "c", Member("clustering", "last", None, ()))
        storing.set_result(None)
        with pytest.raises(GroupInUse):
            await deleting
        assert broker.log.topics.find(dead) is not None
        await groups.members.leave("g", "c")
        await groups.delete("g")
        assert broker.log.topics.find(dead) is None
        await broker.close()

    asyncio.run(asyncio.wait_for(run(), 60))
