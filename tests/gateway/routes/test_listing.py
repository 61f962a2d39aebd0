"""What is as long as what clients have made is described in slices: others go on in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from lakemq.gateway.http import in_slices
from lakemq.gateway.http.in_slices import all_of, in_order, write
from lakemq.gateway.process.app import make_app
from lakemq.gateway.process.broker import Broker
from lakemq.settings import Settings, Storage
from tests.gateway.turns import turns_of

COUNT = 60
TOPICS = [f"t{number:02}" for number in range(COUNT)]


@asynccontextmanager
async def asking(tmp_path: Path) -> AsyncGenerator[tuple[Broker, httpx.AsyncClient]]:
    """A broker with many topics, and who asks it."""
    broker = Broker(Settings(storage=Storage(data_dir=tmp_path)))
    broker.open()
    await broker.start()
    transport = httpx.ASGITransport(make_app(broker).front, client=("127.0.0.1", 1))
    try:
        await asyncio.gather(*[broker.topics.put(name, 2, "rw") for name in reversed(TOPICS)])
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http:
            yield broker, http
    finally:
        await broker.close()


async def get(http: httpx.AsyncClient, path: str) -> tuple[Any, int]:
    """The answer, and how many turns of the loop others had meanwhile."""
    response, turns = await turns_of(http.get(path))
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    return response.json(), turns


def test_others_go_on_while_many_topics_groups_and_offsets_are_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 10,000 topics of 10 queues the loop was held for most of a second, each time."""
    monkeypatch.setattr(in_slices, "SLICE_S", 0.0)

    async def all_of_it() -> None:
        async with asking(tmp_path) as (_, http):
            content = {"offsets": [{"topic": name, "queue_id": 0, "offset": 0} for name in TOPICS]}
            assert (await http.put("/v1/groups/g0/offsets", json=content)).is_success
            one = {"offsets": content["offsets"][:1]}
            for number in range(1, COUNT):
                assert (await http.put(f"/v1/groups/g{number}/offsets", json=one)).is_success
            topics, turns = await get(http, "/v1/topics")
            assert turns >= COUNT
            assert [each["topic"] for each in topics["topics"]] == TOPICS
            assert topics["topics"][7] == (await get(http, "/v1/topics/t07"))[0]
            groups, turns = await get(http, "/v1/groups")
            assert turns >= COUNT
            names = [each["group"] for each in groups["groups"]]
            assert names == sorted(f"g{number}" for number in range(COUNT))
            assert groups["groups"][0]["topics"] == TOPICS
            group, turns = await get(http, "/v1/groups/g0")
            assert turns >= 2 * COUNT
            assert [(each["topic"], each["queue_id"]) for each in group["lag"]] == [
                (name, queue_id) for name in TOPICS for queue_id in range(2)
            ]
            offsets, turns = await get(http, "/v1/groups/g0/offsets")
            assert turns >= COUNT
            assert offsets == content

    asyncio.run(asyncio.wait_for(all_of_it(), 120))


def test_one_long_answer_is_made_at_a_time_for_clients_in_turn(tmp_path: Path) -> None:
    async def all_of_it() -> None:
        async with asking(tmp_path) as (broker, http):
            async with broker.work.listing.place("another"):
                asked = [asyncio.create_task(http.get(path)) for path in ("/v1/topics", "/v1/groups")]
                while broker.work.listing.waiting < len(asked):  # noqa: ASYNC110  nobody tells
                    await asyncio.sleep(0)
            assert all(response.is_success for response in await asyncio.gather(*asked))

    asyncio.run(asyncio.wait_for(all_of_it(), 60))


def test_what_is_written_in_slices_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_slices, "SORTED_AT_ONCE", 3)
    monkeypatch.setattr(in_slices, "JOINED_BYTES_MAX", 10)

    async def all_of_it() -> None:
        fields = {"a": iter([1, "x", None]), "none": iter([]), "b": [1.5], "c": ({"n": n} for n in range(3))}
        expected = {"a": [1, "x", None], "none": [], "b": [1.5], "c": [{"n": n} for n in range(3)]}
        assert orjson.loads(await write(fields)) == expected
        assert await write({}) == b"{}"
        assert await in_order([]) == []
        assert await in_order([3, 1, 2]) == [1, 2, 3]
        assert await in_order([5, 3, 1, 2, 4, 9, 7], key=lambda number: -number) == [9, 7, 5, 4, 3, 2, 1]
        assert await all_of(number for number in range(3)) == [0, 1, 2]

    asyncio.run(all_of_it())
