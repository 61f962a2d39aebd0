"""What a proxy, or a broker of another version, answers in the place of what was asked for ends nothing in silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from lakemq.client import Message, MessageView, Resolution, aio
from lakemq.client.consume import membership
from lakemq.client.consume.group_api import GroupApi
from lakemq.client.consume.locks import Locks
from lakemq.client.consume.membership import Membership
from lakemq.client.produce import transactions
from lakemq.client.routes import Cluster
from lakemq.model.message_queue import MessageQueue

WAIT_S = 60.0
ODD: dict[str, Any] = {"something": "else"}


class Broker:
    """Called `odd`; the first time that it is asked for the members, or for locks, it answers something else."""

    def __init__(self) -> None:
        self.said_odd: set[str] = set()
        self.members = ["one"]
        self.checks: list[dict[str, Any]] = [{"transaction_id": "t-1", "message": {"message_id": "odd.m.1"}}]
        self.resolved = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/v1/broker":
            return web.json_response({"name": "odd"})
        what = request.path.rpartition("/")[2]
        if what in ("members", "locks", "checks") and what not in self.said_odd:
            self.said_odd.add(what)
            return web.json_response(ODD)
        if what == "locks":
            return web.json_response({"locked": (await request.json())["queues"], "lock_ms": 60_000})
        if what == "checks":
            asked, self.checks = self.checks, []
            if not asked:  # nothing more comes
                await asyncio.sleep(WAIT_S)
            return web.json_response({"checks": asked})
        if what == "t-1":
            self.resolved.set()
            return web.json_response({})
        if what == "members":
            self.members = ["one", "two"]
        return web.json_response({"generation": len(self.members), "members": self.members})


@asynccontextmanager
async def served(broker: Broker) -> AsyncGenerator[str]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", broker.answer)
    runner = web.AppRunner(application, handler_cancellation=True)  # else it would wait for who holds a request
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        async with asyncio.timeout(WAIT_S):
            yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def asked(broker: Broker) -> AsyncGenerator[GroupApi]:
    async with served(broker) as address:
        cluster = Cluster(address)
        try:
            await cluster.brokers()
            yield GroupApi(cluster, "group", "one")
        finally:
            await cluster.close()


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
            member = Membership(api, lambda _: {}, changed)
            await member.start()
            await both.wait()
            assert broker.said_odd == {"members"}
            await member.close()

    asyncio.run(test())
    assert "can't look up the members of group: 'generation'" in caplog.text


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


class _Commits:
    """Of a producer that began nothing itself."""

    async def execute_local_transaction(self, message: Message, transaction_id: str, argument: Any) -> Resolution:
        raise NotImplementedError

    async def check_local_transaction(self, message: MessageView) -> Resolution:
        assert message.message_id == "odd.m.1"
        return Resolution.COMMIT


def test_a_groups_checks_are_still_answered(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Regression: who took a broker's checks ended, and nobody answered them any more."""
    monkeypatch.setattr(transactions, "AGAIN_S", 0.01)

    async def test() -> None:
        async with served(broker := Broker()) as address:
            async with aio.TransactionProducer("group", _Commits(), address):
                await broker.resolved.wait()
            assert broker.said_odd == {"checks"}

    asyncio.run(test())
    assert "the checks of group group at odd can't be had now: 'checks'" in caplog.text
    assert "KeyError" in caplog.text
