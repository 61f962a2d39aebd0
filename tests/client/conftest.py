from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from lakemq.testing import GatewayProcess, start_gateway

_numbers = count()


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """One gateway for all tests that neither stop it nor set it up otherwise."""
    with start_gateway(tmp_path_factory.mktemp("gateway") / "data") as process:
        yield process


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"topic-{next(_numbers)}"


@pytest.fixture(scope="session")
def brisk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """One whose retries come at once. Its members don't expire while a machine stands still: what they had would come
    once more."""
    with start_gateway(tmp_path_factory.mktemp("brisk") / "data", delay__levels="0s 0s 0s") as process:
        yield process


@pytest.fixture(scope="session")
def expiring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """One whose members and locks expire soon, but not so soon that a busy machine makes them."""
    options = {"groups__member_expiry_ms": 5_000, "groups__lock_expiry_ms": 6_000}
    with start_gateway(tmp_path_factory.mktemp("expiring") / "data", **options) as process:
        yield process


@pytest.fixture(scope="session")
def two_brokers(
    gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[GatewayProcess, GatewayProcess]]:
    """`gateway`, which is broker-a, and broker-b."""
    with start_gateway(tmp_path_factory.mktemp("second") / "data", broker__name="broker-b") as process:
        yield gateway, process


@pytest.fixture
def group() -> str:
    """A name that no other test uses."""
    return f"group-{next(_numbers)}"
