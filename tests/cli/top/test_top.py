"""`lakemq top` with real brokers: as text, and in a terminal with its keys."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

import pytest

from lakemq.client.http import HttpClient
from lakemq.model.message import Draft
from lakemq.testing import GatewayProcess, start_gateway
from tests.cli.shell import Run
from tests.cli.started import heeding_interrupts
from tests.client.consuming import wait_until
from tests.client.name_server import NameServer
from tests.gateway.http_client import connect

WAIT_S_MAX = 60.0
LEFT_OUT = ("LAKEMQ_", "NO_COLOR", "COLUMNS", "LINES")
"""Of the environment: the terminal says itself how large it is."""
STEERS = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[()][A-Z0-9]|[=>]|\][^\x07]*\x07|[0-9A-Za-z])")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with start_gateway(tmp_path_factory.mktemp("top") / "data") as process:
        with HttpClient(process.url) as client:
            client.produce("orders", [Draft(body=b"x")] * 7)
            client.produce("payments", [Draft(body=b"x")])
        with connect(process) as http:
            http.post("/v1/groups/billing/receive", json={"topic": "orders", "max": 1}).raise_for_status()
        yield process


@contextmanager
def silent() -> Generator[str]:
    """Where somebody takes connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


class Terminal:
    """A program in a terminal of that size."""

    def __init__(self, arguments: Sequence[str], rows: int = 30, columns: int = 120, **environment: str) -> None:
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        known = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
        with heeding_interrupts():
            self.process = subprocess.Popen(
                [sys.executable, "-m", "lakemq", "top", *arguments],
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env={**known, "TERM": "xterm-256color", **environment},
                start_new_session=True,
            )
        self.slave = slave
        self.raw = b""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def read(self) -> None:
        while select.select([self.master], [], [], 0.05)[0]:
            self.raw += os.read(self.master, 65_536)

    @property
    def text(self) -> str:
        self.read()
        return STEERS.sub(" ", self.raw.decode(errors="replace"))

    def until(self, said: str) -> None:
        wait_until(lambda: re.search(said, self.text) is not None, f"{said!r} did not come: {self.text[-2_000:]!r}")

    def forget(self) -> None:
        self.read()
        self.raw = b""

    def end(self) -> int:
        end_s = time.monotonic() + WAIT_S_MAX
        while (code := self.process.poll()) is None and time.monotonic() < end_s:
            self.read()
        assert code is not None, "it did not end"
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.slave)
        os.close(self.master)


@contextmanager
def terminal(*arguments: str, rows: int = 30, columns: int = 120, **environment: str) -> Generator[Terminal]:
    with closing(Terminal(arguments, rows, columns, **environment)) as made:
        yield made


def test_one_page_is_plain_text(run: Run, gateway: GatewayProcess) -> None:
    done = run("top", "--once", "--interval", "0.3", "--broker", f"{gateway.url},http://127.0.0.1:1")
    assert done.code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "lakemq top: 1 of 2 replicas answer"
    (row,) = [line.split() for line in lines if line.startswith("broker-a/0")]
    assert row[1:4] == ["primary", "1", "alone"]
    assert int(row[row.index(gateway.url) - 1]) >= 1, "its own connection is open"
    assert any(line.startswith("http://127.0.0.1:1 ") and "Connection refused" in line for line in lines)
    assert [line.split()[:2] for line in lines if line.startswith(("orders", "payments"))] == [
        ["orders", "0"],
        ["payments", "0"],
    ]
    assert next(line.split() for line in lines if line.startswith("billing"))[2] == "7"
    assert "\x1b" not in done.stdout


def test_a_fleet_is_watched_as_the_name_servers_know_it(run: Run, gateway: GatewayProcess) -> None:
    with NameServer() as server:
        server.put("broker-a", gateway.url, topics={})
        server.put("broker-z", "http://127.0.0.1:1", topics={})
        done = run("top", "--once", "--interval", "0.3", "--nameservers", server.url)
        assert done.code == 0, done.stderr
        assert re.search(r"^broker-a/0 +primary", done.stdout, re.MULTILINE)
        assert re.search(r"^broker-z/0 +http://127.0.0.1:1: .*refused", done.stdout, re.MULTILINE)
    gone = run("top", "--once", "--nameservers", server.url)
    assert (gone.code, gone.stdout) == (1, "")


def test_keys_sort_and_quit_and_the_terminal_is_as_it_was(gateway: GatewayProcess) -> None:
    with terminal("--interval", "0.5", "--broker", gateway.url) as shown:
        shown.until("topics by in")
        shown.until("billing")
        assert b"\x1b[36m" in shown.raw, "names are coloured"
        shown.press("t")
        shown.until("out")
        shown.forget()
        shown.press("g")
        shown.until("oldest")
        shown.press("l")
        shown.until("lag")
        shown.forget()
        shown.resize(12, 60)
        shown.process.send_signal(signal.SIGWINCH)
        shown.until("q quit")
        shown.press("q")
        assert shown.end() == 0
        assert termios.tcgetattr(shown.slave) == shown.before
        assert b"\x1b[?1049l" in shown.raw, "the screen that was there is back"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_terminal_as_it_was(gateway: GatewayProcess, number: signal.Signals) -> None:
    with terminal("--broker", gateway.url) as shown:
        shown.until("topics by in")
        shown.process.send_signal(number)
        assert shown.end() == (0 if number == signal.SIGINT else 128 + number)
        assert termios.tcgetattr(shown.slave) == shown.before


def test_no_color_means_none(gateway: GatewayProcess) -> None:
    with terminal("--broker", gateway.url, NO_COLOR="1") as shown:
        shown.until("billing")
        shown.press("q")
        assert shown.end() == 0
        assert re.search(rb"\x1b\[(?:[0-9;]*;)?3[0-7]m", shown.raw) is None


@pytest.mark.parametrize("name", ["dumb", ""])
def test_a_terminal_that_can_do_nothing_gets_page_after_page(gateway: GatewayProcess, name: str) -> None:
    with terminal("--interval", "0.3", "--broker", gateway.url, TERM=name, NO_COLOR="1") as shown:
        wait_until(lambda: shown.text.count("replicas answer") >= 3)
        shown.process.send_signal(signal.SIGINT)
        assert shown.end() == 0
        assert b"\x1b" not in shown.raw


def test_who_hangs_or_dies_holds_up_nobody(gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> None:
    with ExitStack() as stack:
        hangs = stack.enter_context(silent())
        dies = stack.enter_context(start_gateway(tmp_path_factory.mktemp("dies") / "data", broker__name="mortal"))
        where = f"{hangs},{gateway.url},{dies.url}"
        shown = stack.enter_context(terminal("--interval", "0.3", "--broker", where, columns=200))
        shown.until("mortal/0 +primary")
        shown.until("broker-a/0 +primary")
        shown.until(f"{hangs} .*(?:no answer|timed out|time)")
        shown.forget()
        dies.kill()
        shown.until("refused")
        shown.forget()
        with HttpClient(gateway.url) as client:
            client.produce("shipments", [Draft(body=b"x")])
        shown.until("shipments")
        shown.press("q")
        assert shown.end() == 0


def test_what_is_piped_ends_with_its_reader(gateway: GatewayProcess) -> None:
    command = [sys.executable, "-m", "lakemq", "top", "--interval", "0.2", "--broker", gateway.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "lakemq top: 1 of 1 replicas answer\n" in process.stdout  # a broker may not answer as soon as that
        process.stdout.close()
        assert process.wait(WAIT_S_MAX) == 0
        assert process.stderr.read() == ""
