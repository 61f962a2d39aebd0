"""Replicas that faults are done to: with a store of who leads that may die or lose its answers, and a network."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from lakemq.model.token import ID_BYTES, SECRET_BYTES, make_token
from lakemq.settings import Settings
from lakemq.storage.slices.kept_frames import messages_in
from lakemq.testing import GatewayProcess, start_gateway
from tests.as_administrator import AsAdministrator
from tests.etcd_server import EtcdServer
from tests.gateway.fleet.electing import Replicas, described, role_of
from tests.gateway.fleet.faulty_wire import FaultyWire
from tests.gateway.http_client import connect
from tests.pauses import pause
from tests.reliability.network import CLIENT, Network

UNTIL_S_MAX = 120.0


def spawn_with(lakemq: Path, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a process that imports lakemq from that folder."""
    return subprocess.Popen(
        command, env={**environment, "PYTHONPATH": str(lakemq)}, cwd=lakemq, stderr=subprocess.PIPE, text=True
    )


class TooLong(AssertionError):
    """What has to come by itself did not."""


TOKEN = make_token(bytes(ID_BYTES + SECRET_BYTES))
"""The administrator's, of all replicas of a fleet on nodes of their own."""


def until(done: Callable[[], bool], what: str) -> None:
    """Look until it is so, two minutes at most. Raises `TooLong`."""
    begun_s = time.monotonic()
    while True:
        try:
            if done():
                return
        except httpx.HTTPError:
            pass  # a replica that answers nobody just now
        if time.monotonic() > begun_s + UNTIL_S_MAX:
            raise TooLong(f"after {UNTIL_S_MAX:.0f} s it is not so that {what}")
        pause(begun_s)


class Fleet(Replicas):
    """So many replicas of a broker. `etcd`: it says who leads, by way of `wire` where there is one; else a folder."""

    def __init__(
        self,
        directory: Path,
        count: int,
        etcd: EtcdServer | None = None,
        wire: FaultyWire | None = None,
        network: Network | None = None,
        **options: Any,
    ) -> None:
        super().__init__(directory, **options)
        self.directory, self.count, self.etcd, self.wire, self.network = directory, count, etcd, wire, network
        self.lease_s = int(options["fleet__lease_ms"]) / 1000
        self.is_sync = options["replication__ack"] == "sync"
        self.lives: list[tuple[int, GatewayProcess]] = []
        """All processes that there ever were, for what they said."""
        self.lakemq: dict[int, Path] = {}
        """Folders with another lakemq than this one, by the replica that is to run it from its next start on."""
        self.refused = 0
        """So many starts were refused, and the folder was begun anew."""
        if etcd is not None:
            address = etcd.address if wire is None else wire.address
            self._options.update(fleet__leader="etcd", fleet__store=address)

    @property
    def origin(self) -> str | None:
        """From where writers send."""
        return None if self.network is None else self.network.address(CLIENT)

    def folder(self, replica: int) -> Path:
        return self.directory / str(replica)

    def start(self, replica: int) -> httpx.Client:
        """As `Replicas.start`, at that replica's node."""
        options = {"broker__replica": replica, "gateway__port": self._ports.get(replica, 0), **self._options}
        spawn = None
        if self.network is not None:
            host = self.network.address(str(replica))
            options |= {"gateway__host": host, "gateway__port": 8080, "auth__insecure": "true", "token": TOKEN.text}
            spawn = partial(self.network.spawn, str(replica))
            self._give_token(replica)
        elif replica in self.lakemq:
            spawn = partial(spawn_with, self.lakemq[replica])
        process = start_gateway(self.folder(replica), spawn=spawn, **options)
        self._ports[replica] = int(process.url.rpartition(":")[2])
        self.running[replica] = process
        self.lives.append((replica, process))
        http = self._clients[replica] = connect(process)
        if self.network is not None:
            http.auth = AsAdministrator(TOKEN.text)
        return http

    def _give_token(self, replica: int) -> None:
        """They are at other addresses than this machine's, where nobody finds a token: all have the same one."""
        folder = self.folder(replica)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "admin.token").write_text(TOKEN.text + "\n")
        (folder / "admin.token").chmod(0o600)

    def start_or_begin_anew(self, replica: int) -> None:
        """Start it; where a damaged log keeps it from that it is given an empty folder, as an operator would do."""
        if not self._starts(replica):
            self.refused += 1
            self.wipe(replica)
            self.start(replica)

    def _starts(self, replica: int) -> bool:
        """Start it; whether it went on to follow or to lead."""
        self.start(replica)
        process = self.running[replica]
        until(lambda: process.poll() is not None or role_of(self.http(replica)) is not None, f"replica {replica} began")
        if process.poll() is None:
            return True
        self.kill(replica)
        return False

    def wipe(self, replica: int) -> None:
        """Its disk is another, empty one."""
        shutil.rmtree(self.folder(replica))

    def followers(self) -> list[int]:
        leader = self.leader()
        return [each for each in self.running if each != leader]

    def all_in_sync(self) -> None:
        """Wait until all are."""
        everybody = list(range(self.count))
        try:
            until(lambda: described(self.http(self.leader())).get("in_sync") == everybody, "all replicas are in sync")
        except TooLong as error:
            names = ("role", "epoch", "in_sync", "max_position", "confirmed_position", "follower_lag", "follower_fault")
            said = [described(http) for http in self._clients.values()]
            raise TooLong(f"{error}: {[[each.get(name) for name in names] for each in said]}") from None

    def cut_messages(self) -> list[str]:
        """The ids of the messages that replicas cut and kept, once for each that did."""
        files = self.directory.glob("*/commitlog/cut-*.frames")
        return [str(each["message_id"]) for file in files for each in messages_in(file, Settings().broker.name)]

    def write_logs(self, file: Path) -> None:
        """What all of them have said, one life after the other."""
        with file.open("w", encoding="utf-8") as out:
            for replica, process in self.lives:
                out.write(f"=== replica {replica}, process {process.pid}\n{''.join(process.log)}")
