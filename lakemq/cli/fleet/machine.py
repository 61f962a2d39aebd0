"""A whole fleet on this machine: name servers, etcd, broker groups, jobs, and what those share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Event

from lakemq.cli.fleet.etcd import Etcd
from lakemq.cli.fleet.group import Group, Leader, write_settings
from lakemq.cli.fleet.processes import Process, lakemq, wait_until
from lakemq.cli.fleet.surroundings import LakeStore, Spark
from lakemq.cli.options import url_of
from lakemq.cli.up import take_port
from lakemq.model.errors import LakemqError
from lakemq.wire.connections import NoAnswer
from lakemq.wire.name_servers import NameServers

HOST = "127.0.0.1"
NAME_SERVERS = 2


class Fleet:
    """Its processes, with their files in the folder `root`. `stop` is set when this process is to end: it is looked at
    between steps, so that none is left that was being started. `keep`: it may live on after this process."""

    def __init__(self, root: Path, stop: Event, *, keep: bool) -> None:
        self.root, self._keep, self._stop = root, keep, stop
        self.lake = LakeStore(root, HOST, keep=keep)
        self.spark = Spark(root, HOST, keep=keep)
        self.etcd = Etcd(root / "etcd", HOST)
        self.groups: list[Group] = []
        self.name_servers = [url_of(HOST, take_port(HOST, 0)) for _ in range(NAME_SERVERS)]
        self._etcd = Process("etcd", self.etcd.launch, root / "etcd.log", keep=keep)
        self._names = [self._name_server(number, url) for number, url in enumerate(self.name_servers)]
        self.jobs_settings = root / "jobs.toml"
        self._jobs = Process(
            "jobs",
            lakemq("--config", str(self.jobs_settings), "jobs", "--nameservers", self.named),
            root / "jobs.log",
            keep=keep,
        )

    @property
    def named(self) -> str:
        """The name servers, with commas between."""
        return ",".join(self.name_servers)

    def _name_server(self, number: int, url: str) -> Process:
        launch = lakemq("nameserver", "--host", HOST, "--port", url.rpartition(":")[2])
        return Process(f"name server {number}", launch, self.root / f"nameserver-{number}.log", keep=self._keep)

    # Starting --------------------------------------------------------------------------------

    def start_name_servers(self) -> None:
        """Name servers, etcd and the lake's store, until they answer."""
        for each in (*self._names, self._etcd, self.lake.process):
            each.start()
        wait_until(self._answer, "name servers, etcd and the S3 store answer", self.check_alive)

    def _answer(self) -> bool:
        if not (self.etcd.is_ready() and self.lake.is_ready()):
            return False
        try:
            for url in self.name_servers:
                servers = NameServers([url])
                try:
                    servers.replicas()
                finally:
                    servers.close()
        except NoAnswer:
            return False
        return True

    def start_groups(self, *names: str) -> None:
        """Groups of these names, until of each one leads, all are in sync with it, and all name servers know it."""
        shared = {
            "fleet": {"nameservers": self.name_servers, "leader": "etcd", "store": self.etcd.url},
            "replication": {"ack": "sync", "min_in_sync": 1},
            **self.lake.settings,
        }
        begun = [Group(self.root, HOST, name, shared, keep=self._keep) for name in names]
        for each in begun:
            self.groups.append(each)
            each.start()
        for each in begun:
            self.wait_until_whole(each)

    def start_jobs(self) -> None:
        """The cluster, until it is whole, and the jobs, which take their time: nothing waits for them here."""
        for each in self.spark.processes:
            each.start()
        wait_until(self.spark.is_ready, "Spark's workers have found their master", self.check_alive)
        write_settings(self.jobs_settings, {**self.lake.settings, **self.spark.settings})
        self._jobs.start()

    @property
    def has_jobs(self) -> bool:
        """Whether they were started."""
        return self._jobs.runs

    # While it runs ---------------------------------------------------------------------------

    def wait_until_whole(self, group: Group) -> None:
        """Returns once one leads, all are in sync with it, and all name servers know it as the one."""
        wait_until(group.is_whole, f"{group.name} has a leader and all replicas in sync", self.check_alive)
        wait_until(lambda: self.is_known(group), f"name servers know the leader of {group.name}", self.check_alive)

    def is_known(self, group: Group) -> bool:
        """Whether all name servers name the group's leader."""
        leader = group.leader()
        return leader is not None and all(self._names_at(url, group) == leader.url for url in self.name_servers)

    def _names_at(self, url: str, group: Group) -> str | None:
        servers = NameServers([url])
        try:
            return servers.primaries().get(group.name)
        except NoAnswer:
            return None
        finally:
            servers.close()

    def leader(self, group: Group) -> Leader:
        """Who leads it, once somebody does."""
        found: list[Leader | None] = [None]

        def leads() -> bool:
            found[0] = group.leader()
            return found[0] is not None

        wait_until(leads, f"somebody leads {group.name}", self.check_alive)
        assert found[0] is not None
        return found[0]

    def check_alive(self) -> None:
        """Raises `LakemqError` where a process has ended that nobody has killed, or this one is to end."""
        if self._stop.is_set():
            raise LakemqError("the fleet was asked to end")
        for each in self._processes():
            each.check_alive()

    def command(self, *arguments: str) -> None:
        """A command, as anybody may type it. Raises `LakemqError` when it fails."""
        command = [sys.executable, "-m", "lakemq", *arguments, "--nameservers", self.named]
        wide = {"COLUMNS": "140", **os.environ}  # where there is no terminal tables would be cut
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, env=wide) as running:  # noqa: S603  (our own command)
            try:
                wait_until(lambda: running.poll() is not None, f"lakemq {' '.join(arguments)} ends", self.check_alive)
            finally:
                running.terminate()
        if running.returncode != 0:
            raise LakemqError(f"lakemq {' '.join(arguments)} ended with exit code {running.returncode}")

    # Ending ----------------------------------------------------------------------------------

    @property
    def pids(self) -> list[int]:
        """Of all processes that run, in the order in which they are best stopped."""
        return [each.pid for each in reversed(self._processes()) if each.runs]

    def stop(self) -> None:
        """End all, those first that need the others."""
        for each in reversed(self._processes()):
            each.stop()

    def _processes(self) -> list[Process]:
        replicas = [replica.process for group in self.groups for replica in group.replicas]
        return [self.lake.process, self._etcd, *self._names, *replicas, *self.spark.processes, self._jobs]
