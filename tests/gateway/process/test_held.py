"""Requests that come while nobody serves them, as another broker begins."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from lakemq.gateway.process import exchange
from lakemq.gateway.process.exchange import Exchange
from lakemq.settings import Auth, Gateway, Settings, Storage
from lakemq.storage.disk.files import Files

HOUR_S = 3_600.0
SOON_S = 60.0


def test_who_needs_a_token_and_has_none_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "HOLD_S", HOUR_S)
    settings = Settings(auth=Auth(required=True), gateway=Gateway(), storage=Storage(data_dir=tmp_path))

    async def ask(between: Exchange, *headers: tuple[bytes, bytes]) -> list[Any]:
        sent: list[Any] = []

        async def send(event: Any) -> None:
            sent.append(event)

        async def receive() -> Any:
            raise NotImplementedError

        scope = {"type": "http", "method": "GET", "path": "/v1/topics", "query_string": b"", "headers": [*headers]}
        await between({**scope, "client": ("10.0.0.1", 1)}, receive, send)
        return sent

    async def both() -> None:
        between = Exchange(settings, Files(), None, lambda: None)
        start, body = await asyncio.wait_for(ask(between), SOON_S)
        assert start["status"] == 503
        assert orjson.loads(body["body"])["code"] == "busy"
        waiting = asyncio.ensure_future(ask(between, (b"authorization", b"Bearer lmq_a_b")))
        await asyncio.wait([waiting], timeout=0.1)
        assert not waiting.done(), "whether it may is known by the next broker"
        between.leave()
        assert (await waiting)[0]["status"] == 503
        await between.close()

    asyncio.run(both())
