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
