"""What a proxy, or a broker of another version, answers in the place of what was asked for ends nothing in silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from lakemq.client.consume import membership
from lakemq.client.consume.group_api import GroupApi
from lakemq.client.consume.locks import Locks
from lakemq.client.consume.membership import Membership
from lakemq.client.routes import Cluster
from lakemq.model.message_queue import MessageQueue

WAIT_S = 60.0
ODD: dict[str, Any] = {"something": "else"}


class Broker:
    """Called `odd`; the first time that it is asked for the members, or for locks, it answers something else."""

    def __init__(self) -> None:
        self.said_odd: set[str] = set()
        self.members = ["one"]

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/v1/broker":
            return web.json_response({"name": "odd"})
        what = request.path.rpartition("/")[2]
        if what in ("members", "locks") and what not in self.said_odd:
            self.said_odd.add(what)
            return web.json_response(ODD)
        if what == "locks":
            return web.json_response({"locked": (await request.json())["queues"], "lock_ms": 60_000})
        if what == "members":
            self.members = ["one", "two"]
        return web.json_response({"generation": len(self.members), "members": self.members})


@asynccontextmanager
async def asked(broker: Broker) -> AsyncGenerator[GroupApi]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", broker.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    cluster = Cluster(f"http://{host}:{port}")
    try:
        async with asyncio.timeout(WAIT_S):
            await cluster.brokers()
            yield GroupApi(cluster, "group", "one")
    finally:
        await cluster.close()
        await runner.cleanup()


def test_who_is_in_the_group_is_still_heard_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: who watched a broker ended, and nobody said so."""
    monkeypatch.setattr(membership, "BEATS_AN_EXPIRY", 1e-3)  # no heartbeat says it instead
    monkeypatch.setattr(membership, "HEARTBEAT_S", 3_600.0)
    monkeypatch.setattr(membership, "AGAIN_S", 0.01)

    async def test() -> None:
        both = asyncio.Event()

        def changed() -> None:
            if member.members == ["one", "two"]:
                both.set()

        async with asked(broker := Broker()) as api:
            member = Membership(api, dict, changed)
            await member.start()
            await both.wait()
            assert broker.said_odd == {"members"}
            await member.close()

    asyncio.run(test())
    assert "the members of group can't be asked for: 'generation'" in caplog.text


def test_locks_are_still_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    """Regression: no lock was had, and none renewed, ever after."""

    async def test() -> None:
        async with asked(broker := Broker()) as api:
            locks = Locks(api, lambda queue: None)
            queue = MessageQueue("orders", "odd", 0)
            await locks.acquire(queue)
            assert locks.valid(queue)
            assert broker.said_odd == {"locks"}
            await locks.close()

    asyncio.run(test())
    assert "locks of 1 queues can't be had now: 'locked'" in caplog.text
