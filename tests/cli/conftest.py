from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakemq.testing import GatewayProcess, start_gateway
from tests.cli.fleet import Fleet, start_fleet
from tests.cli.shell import Run, Shell
from tests.cli.site import Site, start_site
from tests.cli.started import Commands


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with start_gateway(tmp_path_factory.mktemp("log")) as started:
        yield started


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, capsys, monkeypatch)


@pytest.fixture
def shell(run: Run, gateway: GatewayProcess) -> Shell:
    return Shell(run, gateway.url)


@pytest.fixture(scope="package")
def commands() -> Iterator[Commands]:
    """What starts processes of commands."""
    made = Commands()
    yield made
    made.close()


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Iterator[Site]:
    with start_site(tmp_path_factory.mktemp("site"), commands) as started:
        yield started


@pytest.fixture(scope="package")
def fleet() -> Iterator[Fleet]:
    """One for all modules: each test has topics and groups of its own."""
    with start_fleet() as started:
        yield started
