"""The typed program runs. That a strict type checker takes it, `make lint` shows."""

from __future__ import annotations

import asyncio

from lakemq.testing import GatewayProcess
from tests.client.consuming import numbered, put
from tests.client.typed_consumers import pull, push, push_batches, push_with_asyncio, receive


def test_the_typed_program_runs(gateway: GatewayProcess, topic: str) -> None:
    put(gateway.url, topic, numbered(20))
    bodies = sorted(text.encode() for text in numbered(20))
    assert sorted(push(gateway.url, topic, 20)) == bodies
    assert sorted(pull(gateway.url, topic, 20)) == bodies
    assert push_batches(gateway.url, topic, 20) == 20
    assert set(receive(gateway.url, topic)) == {"ok"}
    assert asyncio.run(push_with_asyncio(gateway.url, topic)).body in bodies
