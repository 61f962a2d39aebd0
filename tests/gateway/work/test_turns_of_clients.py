"""Whatever a client asks for that takes long, another client's request waits for no more than one piece of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from lakemq.gateway.cold.reader import THREADS, ColdReader
from lakemq.gateway.placement.bulk import LARGE_BYTES
from lakemq.gateway.process.app import make_app
from lakemq.gateway.process.broker import Broker
from lakemq.gateway.work import workshop
from lakemq.gateway.work.workshop import Workshop
from lakemq.settings import Settings, Storage
from lakemq.storage.state.topics import Queue
from lakemq.web.front import Front
from lakemq.web.gone import put_gone
from tests.gateway.access.asking import token_of

BODY = "x" * 1_000


@asynccontextmanager
async def serving(tmp_path: Path) -> AsyncGenerator[tuple[Front, Broker]]:
    """A broker with 300 messages in queue 0 of topic `t`, as requests come to it."""
    broker = Broker(Settings(storage=Storage(data_dir=tmp_path)))
    broker.open()
    await broker.start()
    front = make_app(broker).front
    try:
        await broker.topics.put("t", 1, "rw")
        await ask(front, "c", "POST", "/v1/topics/t/messages", MANY, JSON)
        yield front, broker
    finally:
        await broker.close()


@asynccontextmanager
async def busy(*workshops: Workshop) -> AsyncGenerator[None]:
    """Nothing is done in the workshops' threads meanwhile."""
    free = threading.Event()
    blocked = [asyncio.ensure_future(each.run(free.wait)) for each in workshops]
    try:
        yield
    finally:
        free.set()
        await asyncio.gather(*blocked)


async def until(is_so: Callable[[], bool]) -> None:
    """Return once it is so: nobody tells."""
    while not is_so():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


class Stays:
    """A client that nobody needs to listen to."""

    def resume_reading(self) -> None:
        """It says nothing more."""


async def ask(
    front: Front,
    client: str,
    method: str,
    path: str,
    body: bytes,
    media: bytes,
    query: bytes = b"",
    status: int = 200,
    token: str = "",
) -> Any:
    """The answer to one request that comes from an address, if it is JSON; with that token, if there is one."""
    headers = [(b"content-type", media), (b"host", b"localhost")]
    headers += [(b"authorization", b"Bearer " + token.encode())] if token else []
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "query_string": query, "headers": headers}
    put_gone(scope, Stays())
    answers, bodies = list[bytes](), [body]

    async def receive() -> Any:
        if not bodies:
            await asyncio.Event().wait()  # nobody goes away
        return {"type": "http.request", "body": bodies.pop(), "more_body": False}

    async def send(message: Any) -> None:
        answers.append(message.get("body", b""))
        if "status" in message:
            assert message["status"] == status, answers

    await front({**scope, "client": (client, 1)}, receive, send)
    answer = b"".join(answers)
    return orjson.loads(answer) if answer[:1] in (b"{", b"[") else None


def part() -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pydict({"body": pa.array([BODY.encode()] * 300, pa.binary())})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


MANY = orjson.dumps({"messages": [{"body": BODY}] * 300})
JSON, ARROW, TEXT = b"application/json", b"application/vnd.apache.arrow.stream", b"text/plain"
RECEIVE = orjson.dumps({"topic": "t", "max": 300})
LARGE = b"x" * (LARGE_BYTES + 1)
KINDS: dict[str, tuple[str, str, bytes, bytes, bytes, int]] = {
    "produce": ("POST", "/v1/topics/other/messages", MANY, JSON, b"", 200),
    "pull": ("GET", "/v1/topics/t/queues/0/messages", b"", JSON, b"offset=0&max=300", 200),
    "receive": ("POST", "/v1/groups/g{}/receive", RECEIVE, JSON, b"", 200),
    "part": ("PUT", "/v1/sinks/s{}/batches/0/parts/p", part(), ARROW, b"topic=t", 200),
    "request": ("POST", "/v1/topics/other/requests", LARGE, TEXT, b"timeout_ms=1", 504),
    "reply": ("POST", "/v1/replies/nobody-waits-{}", LARGE, TEXT, b"", 404),
    "log": ("GET", "/v1/log/messages", b"", JSON, b"from=0&to=300", 200),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_takes_long_is_done_for_clients_in_turn(tmp_path: Path, kind: str) -> None:
    order: list[str] = []
    method, path, body, media, query, status = KINDS[kind]

    async def one(front: Front, client: str, number: int, token: str) -> None:
        await ask(front, client, method, path.format(number), body, media, query, status, token)
        order.append(client)

    async def all_of_it() -> None:
        async with serving(tmp_path) as (front, broker):
            workshops = broker.work.decoding, broker.work.answering
            token = token_of(broker.settings.storage.data_dir)
            async with busy(*workshops):
                tasks = [
                    asyncio.ensure_future(one(front, each, number, token)) for number, each in enumerate("aaaaaaaab")
                ]
                await until(lambda: sum(each.waiting for each in workshops) == len(tasks))
            await asyncio.gather(*tasks)

    asyncio.run(asyncio.wait_for(all_of_it(), 60))
    # The second to have its turn. What follows takes longer for one than for another, but not for all of them.
    assert order[-1] == "a", order


@pytest.mark.parametrize("kind", ["pull", "receive"])
def test_what_is_read_in_the_lake_is_read_for_clients_in_turn(tmp_path: Path, kind: str) -> None:
    """One client's receives of history kept another one's waiting until the last was done."""
    order: list[str] = []

    async def one(cold: ColdReader, queue: Queue, client: str) -> None:
        if kind == "pull":
            found = await cold.pull(queue, 0, 10, 1_000, lambda parts, _: parts, client)
        else:
            found = await cold.slices(queue, 0, 10, 1_000, client)
        assert found is None, "there is no lake"
        order.append(client)

    async def all_of_it() -> None:
        async with serving(tmp_path) as (_, broker):
            cold, queue = broker.cold, broker.log.topics.queue("t", 0)
            free = threading.Event()
            blocked = [asyncio.ensure_future(cold.run(free.wait)) for _ in range(THREADS)]
            tasks = [asyncio.ensure_future(one(cold, queue, client)) for client in "aaaaaaaab"]
            try:
                await until(lambda: cold.waiting == len(tasks) - THREADS)
            finally:
                free.set()
            await asyncio.gather(*blocked, *tasks)

    asyncio.run(asyncio.wait_for(all_of_it(), 60))
    assert order[-1] == "a", order


def test_a_receive_that_finds_no_room_hands_out_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its messages were out when it was told `busy`, and came again only when their time was over."""
    monkeypatch.setattr(workshop, "WAITING_MAX", 1)
    method, path, body, media, *_ = KINDS["receive"]
    path = path.format(0)

    async def all_of_it() -> None:
        async with serving(tmp_path) as (front, broker):
            answering = broker.work.answering
            async with busy(answering):
                other = asyncio.ensure_future(answering.run(int))
                await until(lambda: answering.waiting == 1)
                assert (await ask(front, "a", method, path, body, media, status=503))["code"] == "busy"
                assert not broker.log.routing.receipts.out
            await other
            messages = (await ask(front, "a", method, path, body, media))["messages"]
            assert [each["queue_offset"] for each in messages] == list(range(300))
            assert {each["reconsume_times"] for each in messages} == {0}

    asyncio.run(asyncio.wait_for(all_of_it(), 60))
