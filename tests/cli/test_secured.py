"""What docs/secured.md shows, done as it stands there: from nothing to a broker with TLS, users and a lake."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docs.documents import Block, blocks
from tests.ports import Ports
from tests.process_list import command_lines, secrets_below, shown_of
from tests.quick_spark import COMMANDS_CONF, QUICK_SPARK

pytestmark = pytest.mark.timeout(900)

WAIT_S_MAX = 600.0
CERTIFICATES, SETTINGS, START, USERS, SEND, FORGE, PROGRAM, AUDIT = blocks("docs/secured.md")


class Reader:
    """Somebody who types what the page shows, in a folder of his own. Only the port is another, and no other machine
    reaches it."""

    up = 0
    """The process of the broker and its jobs."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self._port = folder, port
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
        path = f"{Path(sys.executable).parent}:{kept['PATH']}"
        own = {"PATH": path, "LAKEMQ_GATEWAY__HOST": "127.0.0.1", "LAKEMQ_GATEWAY__PORT": str(port)}
        self.environment = kept | QUICK_SPARK | {"LAKEMQ_SPARK__CONF": json.dumps(COMMANDS_CONF)} | own

    def types(self, block: Block) -> subprocess.CompletedProcess[str]:
        text = block.text.replace("https://mq.example:8080", f"https://127.0.0.1:{self._port}")
        command = ["bash", "-ec", text] if block.language == "sh" else [sys.executable, "-c", text]
        environment = self.environment if block.language == "sh" else self.alone
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=WAIT_S_MAX
        )

    @property
    def alone(self) -> dict[str, str]:
        """As on another machine: without any settings of the broker's."""
        return {name: value for name, value in self.environment.items() if not name.startswith("LAKEMQ_")}


@pytest.fixture
def reader(tmp_path: Path, ports: Ports) -> Iterator[Reader]:
    made = Reader(tmp_path, ports.take())
    assert made.types(CERTIFICATES).returncode == 0
    (tmp_path / "secured.toml").write_text(SETTINGS.text)
    log = tmp_path / "up.log"
    with log.open("wb") as out:
        up = subprocess.Popen(
            ["bash", "-c", f"exec {START.text}"], cwd=tmp_path, env=made.environment, stdout=out, stderr=out
        )
    try:
        until(lambda: "stop with Ctrl-C" in log.read_text(), log, up)
        made.up = up.pid
        yield made
        up.send_signal(signal.SIGINT)
        assert up.wait(WAIT_S_MAX) == 0, log.read_text()
    finally:
        up.kill()
        up.wait()


def until(condition: Callable[[], bool], log: Path, up: subprocess.Popen[bytes] | None = None) -> None:
    end_s = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < end_s, log.read_text()
        assert up is None or up.poll() is None, log.read_text()
        time.sleep(0.2)


def test_from_nothing_to_a_broker_with_two_users(reader: Reader) -> None:
    done = reader.types(USERS)
    assert done.returncode == 0, done.stderr
    for name in ("alice.token", "bob.token", "ca.key", "broker.key"):
        assert (reader.folder / name).stat().st_mode & 0o077 == 0, name
    sent = reader.types(SEND)
    assert (sent.returncode, "invoice paid" in sent.stdout) == (0, True), sent.stdout + sent.stderr
    forged = reader.types(FORGE)
    assert forged.returncode == 1
    assert "user bob may not: it takes Pub on Topic:orders" in forged.stderr
    from_elsewhere = reader.types(PROGRAM)
    assert from_elsewhere.returncode == 0, from_elsewhere.stderr
    assert from_elsewhere.stdout.startswith("broker-a")

    def the_lake_knows() -> bool:
        audit = reader.types(AUDIT)
        shown = audit.stdout
        return audit.returncode == 0 and "PUT /v1/users/alice" in shown and "bob" in shown and "refused" in shown

    until(the_lake_knows, reader.folder / "up.log")
    lines = command_lines(reader.up)
    assert any(b"spark.authenticate=true" in line for line in lines), "Java is there"
    secrets = secrets_below(reader.folder)
    assert (reader.folder / "lake/_connect.token").read_bytes().strip() in secrets
    for file in ("data/admin.token", "alice.token", "bob.token"):
        assert (reader.folder / file).read_bytes().strip().rpartition(b"_")[2] in secrets, file
    assert shown_of(secrets, lines) == []
