"""A client's membership of its group, against a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from lakemq.client.consume import membership
from lakemq.client.consume.group_api import GroupApi
from lakemq.client.consume.membership import Membership
from lakemq.client.routes import Cluster
from lakemq.testing import GatewayProcess
from tests.client.between import Asked, between


def test_heartbeats_go_on_whatever_becomes_of_one(
    gateway: GatewayProcess, group: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(membership, "HEARTBEAT_S", 0.01)
    beats = 0

    async def test() -> None:
        on = asyncio.Event()

        def describe(_: str) -> Mapping[str, Any]:
            nonlocal beats
            beats += 1
            if beats == 2:
                raise ValueError("nobody thought of this")
            if beats == 4:
                on.set()
            return {}

        cluster = Cluster(gateway.url)
        member = Membership(GroupApi(cluster, group, "one"), describe, lambda: None)
        await member.start()
        async with asyncio.timeout(60):
            await on.wait()
        await member.close()
        await cluster.close()

    asyncio.run(test())
    assert "nobody thought of this" in caplog.text


def test_a_member_that_has_expired_sends_no_heartbeat_beside_another(gateway: GatewayProcess, group: str) -> None:
    """The older of the two could come last."""

    def is_beat(asked: Asked) -> bool:
        return asked.path.endswith("/heartbeat")

    async def test() -> None:
        expired = asyncio.Event()
        async with between(gateway.url) as proxy:
            cluster, direct = Cluster(proxy.url), Cluster(gateway.url)
            api = GroupApi(cluster, group, "one")
            member = Membership(api, lambda broker: {}, lambda: None)
            await member.start()
            (broker,) = [each.name for each in await direct.brokers()]
            member.on_enabled = lambda broker, enabled: expired.set()
            proxy.hold(is_beat)
            beating = asyncio.create_task(member.beat())
            await proxy.held.wait()
            await GroupApi(direct, group, "one").leave(broker)
            await expired.wait()
            for _ in range(20):
                await api.wait_members(broker, 0, 0.0)
            assert sum(map(is_beat, proxy.heard)) == 2, "the first one, and the one that is held"
            proxy.release()
            await beating
            while "one" not in (await api.wait_members(broker, 0, 0.0)).members:
                pass
            await member.close()
            for each in (cluster, direct):
                await each.close()

    asyncio.run(test())
