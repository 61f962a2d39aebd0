"""`lakemq up` as a process, with a real gateway. Its jobs need not get far to be restarted."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import typer.main

from lakemq.cli.app import app
from lakemq.cli.gateway_options import gateway_arguments
from lakemq.cli.options import url_of
from lakemq.cli.up import take_port
from lakemq.client.http import HttpClient
from lakemq.model.errors import LakemqError
from lakemq.model.message import Draft
from lakemq.settings import Broker, Fleet, Gateway, Lake, Settings, Storage, load
from lakemq.testing import start_gateway
from tests.cli.shell import Run
from tests.cli.site import a_java_that_never_gets_up
from tests.cli.started import Commands
from tests.gateway.http_client import TLS
from tests.ports import Ports
from tests.process_list import command_lines, secrets_below, shown_of

WAIT_S_MAX = 120.0
pytestmark = pytest.mark.timeout(500)


class Up:
    """A running `lakemq up`."""

    def __init__(
        self, commands: Commands | None, folder: Path, port: int, console: int | None = None, **more: str
    ) -> None:
        """`commands`: what forks it; None: it starts and ends whole. `console`: the port of one; None: without. `more`:
        of its environment."""
        self.port = port
        self._log = folder / "up.log"
        self._log.touch()
        environment = os.environ | {"JAVA_HOME": str(a_java_that_never_gets_up(folder / "jdk"))}
        environment |= {
            "LAKEMQ_CONSOLE__ENABLED": str(console is not None),
            "LAKEMQ_CONSOLE__PORT": str(console or 0),
            **more,
        }
        arguments = ["up", "--data-dir", "data", "--lake", "lake", "--port", str(port)]
        if commands is not None:
            self.process = commands.start(arguments, folder, self._log, environment)
            return
        command = [sys.executable, "-m", "lakemq", *arguments]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, cwd=folder, stderr=log, env=environment, start_new_session=True)

    @property
    def said(self) -> str:
        return self._log.read_text()

    def children(self) -> list[int]:
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        end_s = time.monotonic() + WAIT_S_MAX
        while not condition():
            assert time.monotonic() < end_s, self.said
            time.sleep(0.05)


@contextmanager
def ready(up: Up, parts: int) -> Generator[None]:
    """Goes on once it is ready and has started so many processes; it is killed at the end."""
    try:
        up.wait_for(lambda: len(up.children()) == parts and "stop with Ctrl-C" in up.said)
        yield
    finally:
        up.process.kill()
        up.process.wait()


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_it_says_where_all_of_it_listens_once_it_is_ready_and_stops_on_ctrl_c(tmp_path: Path, ports: Ports) -> None:
    """And no secret stands in the list of processes, whether it was given or is in a file."""
    given = {"LAKEMQ_SQL__TOKEN": "s3cret-of-sql", "LAKEMQ_SPARK__CONF": '{"spark.hadoop.a.secret": "s3cret-of-spark"}'}
    up = Up(None, tmp_path, ports.take(), console=(port := ports.take()), **given)
    with ready(up, parts=3):
        url = url_of("127.0.0.1", up.port)
        assert f"gateway on {url}, log in data" in up.said
        with HttpClient(url) as client:
            assert client.is_ready()
        up.wait_for(lambda: "console: listening on" in up.said)
        console = url_of("127.0.0.1", port)
        assert f"lakemq: console on {console}" in up.said
        page = httpx.get(console, trust_env=False, verify=TLS, timeout=60).text
        assert f"{url}/v1/topics/greetings/messages" in page
        children = up.children()
        assert len(children) == 3
        lines = command_lines(up.process.pid)
        for name in (b"up", b"gateway", b"jobs", b"console"):
            assert any(name in line.split(b"\0") for line in lines), name
        token = (tmp_path / "data" / "admin.token").read_text().strip()
        secrets = secrets_below(tmp_path)
        assert token.rpartition("_")[2].encode() in secrets
        assert shown_of(secrets | {b"s3cret"}, lines) == []
        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(WAIT_S_MAX) == 0
        assert all(is_gone(pid) for pid in children)


def test_what_ends_stops_nothing_else_and_starts_again_and_none_outlives_it(
    tmp_path: Path, ports: Ports, commands: Commands
) -> None:
    """A console whose port is taken, killed jobs, a killed gateway; then it is killed itself."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        up = Up(commands, tmp_path, ports.take(), console=(port := taken.getsockname()[1]))
        with ready(up, parts=2):
            said = f"no console, as it can't listen on 127.0.0.1:{port}: Address already in use; set another port"
            assert said in up.said
            gateway, jobs = up.children()
            os.kill(jobs, signal.SIGKILL)
            up.wait_for(lambda: "jobs ended (killed by SIGKILL); starting again in 1 s" in up.said)
            up.wait_for(lambda: len(up.children()) == 2)
            assert up.children()[0] == gateway
            _, jobs = up.children()
            _kill_gateway(up, gateway)
            children = up.children()
            assert (children[0], len(children)) == (jobs, 2)
            up.process.kill()
            up.process.wait()
            up.wait_for(lambda: all(is_gone(pid) for pid in children))


def _kill_gateway(up: Up, pid: int) -> None:
    """It comes back on its port, with its log."""
    with HttpClient(url_of("127.0.0.1", up.port)) as client:
        (stored,) = client.produce("orders", [Draft(b"before")])
        os.kill(pid, signal.SIGKILL)
        up.wait_for(lambda: "gateway ended (killed by SIGKILL); starting again in 1 s" in up.said)
        up.wait_for(lambda: "the gateway is ready again" in up.said)
        assert client.message(stored.message_id).body == b"before"


def test_a_gateway_that_can_not_start_ends_all_with_its_reason(
    tmp_path: Path, ports: Ports, commands: Commands
) -> None:
    with start_gateway(tmp_path / "data"):
        up = Up(commands, tmp_path, ports.take())
        assert up.process.wait(WAIT_S_MAX) == 1
    assert "data is in use" in up.said
    assert "the gateway ended (exit code 1); all is stopped" in up.said


def test_a_follower_has_no_jobs_of_its_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEMQ_BROKER__REPLICA", "1")
    monkeypatch.setenv("LAKEMQ_FLEET__PRIMARY", "http://127.0.0.1:1")
    done = run("up")
    assert done.code == 1
    assert "a follower, and the jobs are its primary's: lakemq gateway starts it" in done.stderr


@pytest.mark.parametrize("replica", ["0", "1"])
def test_where_leaders_are_elected_no_replica_has_jobs_of_its_own(
    run: Run, monkeypatch: pytest.MonkeyPatch, replica: str
) -> None:
    monkeypatch.setenv("LAKEMQ_BROKER__REPLICA", replica)
    monkeypatch.setenv("LAKEMQ_FLEET__LEADER", "etcd")
    monkeypatch.setenv("LAKEMQ_FLEET__STORE", "http://127.0.0.1:1")
    done = run("up")
    assert done.code == 1
    assert "Start each replica with lakemq gateway, and the jobs once with lakemq jobs --nameservers" in done.stderr


def test_its_gateway_is_told_all_that_up_was_told(tmp_path: Path) -> None:
    """Of each option of `up` its gateway hears, in whatever way it was set."""
    settings = Settings(
        broker=Broker(name="b"),
        gateway=Gateway(host="::1", advertise="http://mq.example"),
        fleet=Fleet(nameservers=("http://a:9876", "http://b:9876")),
        storage=Storage(data_dir=tmp_path / "log", flush="sync"),
        lake=Lake(dir=tmp_path / "history"),
    )
    given = gateway_arguments(settings, 9000)
    told = dict(zip(given[1::2], given[2::2], strict=True))
    assert told == {
        "--data-dir": str(tmp_path / "log"),
        "--lake": str(tmp_path / "history"),
        "--host": "::1",
        "--port": "9000",
        "--broker-name": "b",
        "--flush": "sync",
        "--nameservers": "http://a:9876,http://b:9876",
        "--advertise": "http://mq.example",
    }
    commands = cast("Any", typer.main.get_command(app)).commands
    options = {name: {each.opts[0] for each in commands[name].params if not each.hidden} for name in ("up", "gateway")}
    assert options["up"] == options["gateway"] == set(told)


def test_its_gateway_hears_too_of_what_up_was_told_is_empty(tmp_path: Path) -> None:
    """Regression: a gateway took the name servers of the file that `lakemq up --nameservers ""` was to do without."""
    given = gateway_arguments(Settings(), 9000)
    told = dict(zip(given[1::2], given[2::2], strict=True))
    assert (told["--nameservers"], told["--advertise"]) == ("", "")
    file = tmp_path / "lakemq.toml"
    file.write_text('[fleet]\nnameservers = ["http://a:9876"]\n[gateway]\nadvertise = "http://b"\n')
    empty: dict[str, dict[str, object]] = {
        "fleet": {"nameservers": told["--nameservers"]},
        "gateway": {"advertise": told["--advertise"]},
    }
    settings = load(file, environment={}, options=empty)
    assert (settings.fleet.nameservers, settings.gateway.advertise) == ((), "")


def test_a_port_that_is_taken_is_named_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LakemqError, match=f"can't listen on 127.0.0.1:{port}: Address already in use"):
            take_port("127.0.0.1", port)
