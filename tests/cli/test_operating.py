"""What docs/operate_fleet.md shows, done as it stands there, a section after the other, with a real etcd: what each
section says was lost is lost before."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.as_administrator import AsAdministrator
from tests.cli.examples import all_flags, call_of
from tests.cli.shell import Done, Run
from tests.cli.started import Commands
from tests.cli.test_documents import OPERATING, ROOT
from tests.docs.documents import Block, blocks
from tests.etcd_server import EtcdServer, find_etcd
from tests.gateway.http_client import pull_all
from tests.gateway.routing.asking import wait_until
from tests.ports import free_port
from tests.standstill import begins_again_after

pytestmark = pytest.mark.timeout(1500)

SERVED = {"9876": "", "9877": "", "8080": "a-0", "8081": "a-1", "8082": "a-2", "9000": "b-0", "9001": "b-1"}
"""Of each port that the page has: which replica listens there."""
ETCD = "http://127.0.0.1:2379"
PATIENT = {"LAKEMQ_FLEET__LEASE_MS": "8000", "LAKEMQ_REPLICATION__SILENT_MS": "8000"}
"""Of seven processes on two cores one may stand still for seconds: none is to lead, or to be let go, for that."""
STILL_S = 4.0
"""Half of the lease: what fails after so long a standstill begins again."""
SMALL = "segment_bytes = 1_048_576\ndisk_high_ratio = 1.0\n"


class Machine:
    """Where all processes of the page run: in a folder, with ports of its own."""

    def __init__(self, folder: Path, run: Run, etcd: EtcdServer, commands: Commands) -> None:
        self.folder, self.etcd, self.run, self.commands = folder, etcd, run, commands
        self.ports = {port: str(free_port()) for port in SERVED}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.answers: list[str] = []
        for name in ("etc/lakemq", "var/lib/lakemq", "srv", "backups/monday"):
            (folder / name).mkdir(parents=True)

    def placed(self, text: str) -> str:
        """With this machine's ports and folders."""
        text = text.replace(ETCD, self.etcd.address)
        text = re.sub(r"(?<![\w.])/(?=etc/|var/|srv/|backups/)", f"{self.folder}/", text)
        return re.sub(r"\b(\d{4})\b", lambda found: self.ports.get(found[1], found[1]), text)

    def settings(self, shown: str) -> None:
        """Write each replica's file, by the one that is shown."""
        for port, name in SERVED.items():
            if not name:
                continue
            broker, _, number = name.partition("-")
            text = shown.replace('"broker-a"', f'"broker-{broker}"').replace("replica = 0", f"replica = {number}")
            text = text.replace("8080", port).replace("a-0", name).replace("[storage]\n", f"[storage]\n{SMALL}")
            (self.folder / f"etc/lakemq/{name}.toml").write_text(self.placed(text))

    def command(self, line: str) -> None:
        """Do it; what serves goes on in the background, once it listens."""
        placed = self.placed(line)
        if not placed.startswith("lakemq "):
            done = subprocess.run(["bash", "-c", placed], capture_output=True, text=True, check=True)
            self.answers.append(done.stdout)
            return
        call = call_of(placed)
        assert call.flags() <= all_flags()
        if call.path in (("gateway",), ("nameserver",)):
            self._start(line, call.arguments)
            return
        done = self._once_known(call.arguments)
        assert done.code == 0, (placed, done.stderr)
        self.answers.append(done.stdout + done.stderr)

    def _once_known(self, arguments: list[str]) -> Done:
        """What the command says once name servers know a leader: they hear a moment later of one that has just begun
        to lead."""
        said: list[Done] = []

        def is_known() -> bool:
            said[:] = [self.run(*arguments)]
            return "no broker is known" not in said[0].stderr

        wait_until(is_known)
        return said[0]

    def _start(self, line: str, arguments: list[str]) -> None:
        found = re.search(r"/([ab]-\d)\.toml|--port (\d+)", line)
        assert found is not None, line
        name = found[1] or found[2]
        log = self.folder / f"{name}.log"
        log.touch()
        self.running[name] = self.commands.start(arguments, self.folder, log, os.environ | PATIENT)
        wait_until(lambda: self.running[name].poll() is None and "listening on" in log.read_text(), name)
        log.rename(self.folder / f"{name}.log.before")

    def stop(self, *names: str, how: int = signal.SIGTERM) -> None:
        for name in names:
            self.running[name].send_signal(how)
        for name in names:
            self.running.pop(name).wait(60)

    def lose(self, *folders: str) -> None:
        for each in folders:
            shutil.rmtree(self.folder / each)

    def http(self, name: str) -> httpx.Client:
        port = next(self.ports[port] for port, its in SERVED.items() if its == name)
        return httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60, auth=AsAdministrator())

    def settled(self, leader: str, *replicas: int) -> None:
        """Wait until that one leads, and just these are in sync."""

        def done() -> bool:
            with contextlib.suppress(httpx.HTTPError), self.http(leader) as http:
                said: dict[str, Any] = http.get("/v1/broker").json()
                return (said.get("role"), said.get("in_sync")) == ("primary", list(replicas))
            return False

        wait_until(done, f"{leader} does not lead with {replicas}")

    def send(self, leader: str, body: str) -> None:
        with self.http(leader) as http:
            answer = http.post("/v1/topics/orders/messages", json={"messages": [{"body": body}]})
            assert answer.is_success, answer.text

    def bodies(self, name: str) -> set[str]:
        with self.http(name) as http:
            return {each["body"] for each in pull_all(http, "orders")}


@contextlib.contextmanager
def machine_in(folder: Path, run: Run, commands: Commands) -> Generator[Machine]:
    """Its etcd is its own, as that is lost."""
    program = find_etcd()
    assert program is not None
    own = EtcdServer(program)
    own.start()
    made = Machine(folder, run, own, commands)
    try:
        yield made
    finally:
        for process in made.running.values():
            process.kill()
            process.wait()
        own.stop()


def sections() -> dict[str, list[Block]]:
    """The page's blocks, by the heading above."""
    text = (ROOT / OPERATING).read_text()
    starts = [(text.count("\n", 0, found.start()) + 1, found[1]) for found in re.finditer(r"^## (.*)$", text, re.M)]
    found: dict[str, list[Block]] = {}
    for block in blocks(OPERATING):
        found.setdefault(next(name for line, name in reversed(starts) if line < block.line), []).append(block)
    return found


def lost_store(machine: Machine) -> None:
    machine.stop("a-0", "a-1")
    machine.etcd.kill()
    machine.etcd.forget()
    machine.etcd.start()


def lost_all(machine: Machine) -> None:
    """All folders, and the store of leaders."""
    machine.send("b-0", "after the backup")
    machine.stop("a-0", "a-1", "b-0", "b-1")
    machine.lose("var/lib/lakemq")
    machine.etcd.kill()
    machine.etcd.forget()
    machine.etcd.start()


def watched(machine: Machine) -> None:
    """Each metric that the page names is one of a leader's or of a follower's."""
    told = ""
    for name in ("a-0", "a-1"):
        with machine.http(name) as http:
            told += http.get("/metrics").text
    named = set(re.findall(r"`(lakemq_[a-z_]+)`", (ROOT / OPERATING).read_text()))
    assert len(named) > 8
    assert {name for name in named if name not in told} == set()


@pytest.mark.usefixtures("etcd")  # which says that there is a program
@begins_again_after(STILL_S, timeout_s=1500)
def test_what_an_operator_is_told_to_do_is_done(tmp_path: Path, run: Run, commands: Commands) -> None:
    with machine_in(tmp_path, run, commands) as machine:
        check_all_of_it(machine)


def check_all_of_it(machine: Machine) -> None:
    before: dict[str, Callable[[], object]] = {
        "Maintenance of a machine": lambda: machine.send("a-0", "1"),
        "A replica is gone for good": lambda: (machine.stop("a-2", how=signal.SIGKILL), machine.settled("a-1", 0, 1)),
        "A replica lost its disk, or its log is damaged": lambda: (
            machine.command("lakemq broker switch broker-a --replica 0 --nameservers http://127.0.0.1:9876"),
            machine.settled("a-0", 0, 1),
            machine.stop("a-1", how=signal.SIGKILL),
        ),
        "Lose the store of leaders": lambda: lost_store(machine),
    }
    once_listed: dict[str, Callable[[], object]] = {
        "Start": lambda: machine.settled("a-0", 0, 1),
        "Stop and start all replicas": lambda: (machine.stop("a-0", "a-2"), machine.stop("a-1")),
    }
    after: dict[str, Callable[[], object]] = {
        "Start": lambda: (machine.settled("a-0", 0, 1), watched(machine)),
        "Add a replica": lambda: machine.settled("a-0", 0, 1, 2),
        "Add a broker group": lambda: (machine.settled("b-0", 0, 1), machine.send("b-0", "of b")),
        "Maintenance of a machine": lambda: (machine.settled("a-1", 0, 1, 2), machine.send("a-1", "2")),
        "Stop and start all replicas": lambda: machine.settled("a-1", 0, 1, 2),
        "A replica lost its disk, or its log is damaged": lambda: (
            machine.settled("a-0", 0, 1),
            machine.send("a-0", "3"),
        ),
        "Lose the store of leaders": lambda: (machine.settled("a-0", 0, 1), machine.send("a-0", "4")),
        "Back up, and restore all of it": lambda: (machine.settled("a-0", 0), machine.settled("b-0", 0)),
    }
    for section, shown in sections().items():
        before.pop(section, lambda: None)()
        for block in shown:
            if block.language == "toml":
                machine.settings(block.text)
                continue
            commands = list(block.commands())
            if commands[0].startswith("lakemq restore"):
                lost_all(machine)
            for command in commands:
                if command.startswith("lakemq broker elect"):
                    elected(machine, command)
                else:
                    machine.command(command)
                if command.startswith("lakemq broker switch"):
                    machine.settled("a-1", 0, 1, 2)
                    machine.stop("a-0")
                if command.startswith("lakemq broker list"):
                    once_listed.pop(section, lambda: None)()
        after.pop(section, lambda: None)()
    assert (before, once_listed, after) == ({}, {}, {}), "sections that the page has no more"
    assert machine.bodies("a-0") == {"1", "2", "3", "4"}
    assert machine.bodies("b-0") == {"of b"}
    assert '"degraded"' in machine.answers[-2]


def elected(machine: Machine, command: str) -> None:
    """The command, once the name servers know the replica, and no leader was heard of for two leases."""
    arguments = call_of(machine.placed(command)).arguments

    def done() -> bool:
        said = machine.run(*arguments)
        assert said.code == 0 or "leader" in said.stderr or "there are" in said.stderr, said.stderr
        return said.code == 0

    wait_until(done)
