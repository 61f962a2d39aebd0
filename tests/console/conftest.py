from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import httpx
import pytest

from lakemq.testing import GatewayProcess, start_gateway
from tests.console.visitor import ConsoleProcess, Guarded, Visitor
from tests.gateway.http_client import TLS, connect

_numbers = count()


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """One gateway for all tests of a process, open to this machine; it tells the figures of all groups."""
    with start_gateway(tmp_path_factory.mktemp("console") / "data", gateway__metrics_groups_max=10_000) as process:
        yield process


@pytest.fixture(scope="session")
def http(gateway: GatewayProcess) -> Iterator[httpx.Client]:
    """A client of it."""
    with connect(gateway) as client:
        yield client


@pytest.fixture(scope="session")
def console(gateway: GatewayProcess) -> Iterator[ConsoleProcess]:
    """Its console."""
    with ConsoleProcess(gateway.url) as process:
        yield process


@pytest.fixture
def visitor(console: ConsoleProcess) -> Iterator[Visitor]:
    """Somebody whom the console has never seen."""
    made = Visitor(console.url)
    yield made
    made.close()


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"name-{next(_numbers)}"


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """One for all tests of a process that wants to know who asks."""
    data = tmp_path_factory.mktemp("guarded") / "data"
    with start_gateway(data, auth__required=True) as gateway, ConsoleProcess(gateway.url) as console:
        admin = (data / "admin.token").read_text("ascii").strip()
        headers = {"Authorization": f"Bearer {admin}"}
        with httpx.Client(base_url=gateway.url, headers=headers, trust_env=False, verify=TLS, timeout=60) as http:
            yield Guarded(gateway, console, admin, http)
