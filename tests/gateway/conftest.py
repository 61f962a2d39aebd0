from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest

from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import connect

_numbers = count()


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """One gateway for all tests that neither stop it nor set it up otherwise."""
    with start_gateway(tmp_path_factory.mktemp("gateway") / "data") as process:
        yield process


@pytest.fixture(scope="session")
def http(gateway: GatewayProcess) -> Iterator[httpx.Client]:
    """A client of it."""
    with connect(gateway) as client:
        yield client


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"topic-{next(_numbers)}"


@pytest.fixture
def fresh_gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    """One for a test that looks at the process as a whole."""
    with start_gateway(tmp_path / "data") as process:
        yield process
