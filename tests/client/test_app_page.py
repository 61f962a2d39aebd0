"""The order service of docs/app.md: it does what the page says, and so do its tests."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakemq.testing import GatewayProcess
from tests.client.consuming import wait_until
from tests.client.producing import stored
from tests.client.test_docs import APP, FILE, PROGRAMS

ROOT = Path(__file__).parents[2]
OF_PAGE = [program for place, program, _ in PROGRAMS if place.startswith(f"{APP}:")]
LINES_MAX = 50


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the page's files are."""
    for program in OF_PAGE:
        if found := FILE.match(program):
            (tmp_path / found.group(1)).write_text(program)
            assert program.count("\n") <= LINES_MAX
    assert {path.name for path in tmp_path.iterdir()} == {"orders.py", "test_orders.py"}
    return tmp_path


def the_program(part: str) -> str:
    """The one that has this in it and is no file."""
    (program,) = (each for each in OF_PAGE if part in each and not FILE.match(each))
    return program


def test_its_tests_pass(folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", "error", "."]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout


def test_the_service_bills_and_gives_up_and_stops(
    brisk: GatewayProcess, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEMQ_BROKER", brisk.url)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    exec(compile(the_program('"no order at all"'), APP, "exec"), {"__name__": "__main__"})
    command = [sys.executable, "orders.py"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            assert service.stdout.readline() == "posted 1\n"
            wait_until(lambda: len(dead_letters(brisk.url)) == 2)
            service.send_signal(signal.SIGTERM)
            assert service.wait(60) == 0
        finally:
            service.kill()
    by_body = {message.text()[:12]: message for message in dead_letters(brisk.url)}
    assert by_body['{"number":2,'].failure_text == "order 2 has no amount"
    assert by_body['{"number":2,'].reconsume_times == 2
    assert by_body["no order at "].reconsume_times == 0


def dead_letters(url: str) -> list[Any]:
    try:
        return stored(url, "%DLQ%billing")
    except Exception:  # noqa: BLE001  there is none yet
        return []


def test_within_a_web_framework_it_starts_and_stops_with_it(
    gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEMQ_BROKER", gateway.url)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(the_program("FastAPI(lifespan"), APP, "exec"), names)
    app, web = names["app"], names["web"]

    async def main() -> None:
        async with web.router.lifespan_context(web):
            await asyncio.to_thread(wait_until, lambda: app.health.ready)
            assert await names["ready"]() is True

    asyncio.run(main())
    assert app.health.state == "stopped"
