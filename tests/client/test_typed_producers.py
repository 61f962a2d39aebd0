"""The typed program runs. That a strict type checker takes it, `make lint` shows."""

from __future__ import annotations

import asyncio

from lakemq.client import MessageView, Resolution
from lakemq.testing import GatewayProcess
from tests.client.producing import bodies
from tests.client.typed_producers import read, send, send_with_asyncio, transfer


def test_the_typed_program_runs(gateway: GatewayProcess, topic: str) -> None:
    assert len({receipt.message_id for receipt in send(gateway.url, topic)}) == 7
    assert transfer(gateway.url, topic).resolution is Resolution.COMMIT
    assert len(asyncio.run(send_with_asyncio(gateway.url, topic))) == 3
    assert b"20" in bodies(gateway.url, topic)
    message = MessageView.of(
        {"body": "[1]", "message_id": "b.1", "topic": topic, "queue_id": 0, "properties": {"n": "1"}}
    )
    assert read(message) == ("[1]", b"[1]", [1])
