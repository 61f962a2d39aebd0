"""A real gateway for the tests of the jobs, and topics of their own in it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from lakemq.testing import GatewayProcess, start_gateway

TIMEOUT_S = 600
WAIT_S = 90
"""For an answer, which may be held for a minute."""

Message = dict[str, Any]
Produce = Callable[[str, Sequence[Message]], list[dict[str, Any]]]


def produce_to(url: str, topic: str, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Produces, and returns what the gateway answered for each message."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=WAIT_S)
    try:
        body = json.dumps({"messages": list(messages)})
        path = f"/v1/topics/{quote(topic)}/messages"
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        assert response.status == 200, answer
        return answer["messages"]
    finally:
        connection.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A cold JVM on a busy machine takes minutes, and whichever test is first waits for it."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with start_gateway(tmp_path_factory.mktemp("log"), routing__grace_ms=-1) as process:
        yield process


@pytest.fixture
def produce(gateway: GatewayProcess) -> Produce:
    return lambda topic, messages: produce_to(gateway.url, topic, messages)


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"
