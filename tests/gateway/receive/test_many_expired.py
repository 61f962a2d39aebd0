"""However many messages have expired, and however few are wanted, who passes over them holds up nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.gateway.filter.scan import SCAN_STEP
from lakemq.gateway.process.app import make_app
from lakemq.gateway.process.broker import Broker
from lakemq.settings import Settings, Storage
from lakemq.web.gone import put_gone
from tests.gateway.http_client import ARROW, write_arrow
from tests.gateway.turns import turns_of

FEW, MANY, EVERY_SECOND = "few", "many", "every-second"
STEPS = 10
Ask = Callable[[httpx.AsyncClient, str], Awaitable[httpx.Response]]


class _Connection:
    """One that nobody closes."""

    def resume_reading(self) -> None:
        pass


@asynccontextmanager
async def expired(tmp_path: Path) -> AsyncGenerator[httpx.AsyncClient]:
    """Who asks a broker of which all messages have expired, but for those of one topic, where every second one has."""
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
            for topic, rows in ((FEW, 1), (MANY, STEPS * SCAN_STEP)):
                await http.put(f"/v1/topics/{topic}", json={"queues": 1, "ttl_ms": 1})
                content = write_arrow({"body": [b"x"] * rows, "ordering_key": ["k"] * rows})
                sent = await http.post(f"/v1/topics/{topic}/messages", content=content, headers={"Content-Type": ARROW})
                assert sent.status_code == 200, sent.text
            await http.put(f"/v1/topics/{EVERY_SECOND}", json={"queues": 1})
            content = write_arrow({"body": [b"x"] * 10_000, "ttl_ms": [1, None] * 5_000})
            await http.post(f"/v1/topics/{EVERY_SECOND}/messages", content=content, headers={"Content-Type": ARROW})
            stored_ms = broker.log.now_ms()
            while broker.log.reading_ms() <= stored_ms + 1:  # noqa: ASYNC110  nothing but time passes
                await asyncio.sleep(0.001)
            yield http
    finally:
        await broker.close()


async def pulled(http: httpx.AsyncClient, topic: str) -> httpx.Response:
    answer = await http.get(f"/v1/topics/{topic}/queues/0/messages", params={"offset": 0, "max": 1})
    assert answer.json()["next_offset"] == answer.json()["expired"] == answer.json()["max_offset"]
    return answer


async def received(http: httpx.AsyncClient, topic: str) -> httpx.Response:
    return await http.post("/v1/groups/g/receive", json={"topic": topic, "max": 1, "wait_ms": 0})


async def few_and_many(tmp_path: Path, ask: Ask) -> tuple[int, int]:
    """How often others had their turn while one expired message was passed over, and while many were."""
    async with expired(tmp_path) as http:
        await ask(http, FEW)  # what the first one of all needs is there then
        _, few = await turns_of(ask(http, FEW))
        answer, many = await turns_of(ask(http, MANY))
        assert answer.json()["messages"] == []
        return few, many


@pytest.mark.parametrize("ask", [pulled, received])
def test_others_have_their_turn_between_large_steps_over_what_has_expired(tmp_path: Path, ask: Ask) -> None:
    few, many = asyncio.run(few_and_many(tmp_path, ask))
    assert many >= few + STEPS - 1


async def pulled_as_arrow(http: httpx.AsyncClient, topic: str) -> httpx.Response:
    query = {"offset": 0, "max": 10_000}
    return await http.get(f"/v1/topics/{topic}/queues/0/messages", params=query, headers={"Accept": ARROW})


async def few_and_every_second(tmp_path: Path) -> tuple[int, int]:
    """`few_and_many`, of pulls as Arrow and of the topic that has both kinds."""
    async with expired(tmp_path) as http:
        _, few = await turns_of(pulled_as_arrow(http, FEW))
        answer, many = await turns_of(pulled_as_arrow(http, EVERY_SECOND))
        assert answer.headers["lakemq-expired"] == "5000"
        return few, many


def test_what_is_in_thousands_of_pieces_is_not_put_together_on_the_event_loop(tmp_path: Path) -> None:
    few, many = asyncio.run(few_and_every_second(tmp_path))
    assert many > few
