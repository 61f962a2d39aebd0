"""A broker group: replicas of one name, of which one leads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lakemq.cli.fleet.processes import Process, lakemq
from lakemq.cli.options import url_of
from lakemq.cli.up import take_port
from lakemq.client.http import HttpClient
from lakemq.model.errors import LakemqError
from lakemq.model.primary import PRIMARY
from lakemq.storage.disk.privacy import write_private

REPLICAS = 2
_ANSWER_S = 3.0

Sections = Mapping[str, Mapping[str, Any]]


def write_settings(file: Path, sections: Sections) -> None:
    """A file of settings, which nobody else reads: texts, numbers and lists of texts, as JSON and TOML both write
    them."""
    lines: list[str] = []
    for name, values in sections.items():
        lines += [f"[{name}]", *(f"{_name(key)} = {json.dumps(value)}" for key, value in values.items()), ""]
    write_private(file, "\n".join(lines))


def _name(key: str) -> str:
    return json.dumps(key) if "." in key else key


class Leader(NamedTuple):
    """Who leads a group."""

    replica: int
    epoch: int
    url: str


class Replica:
    """One of a group, with a file of settings by which anybody can start it."""

    def __init__(self, root: Path, host: str, name: str, number: int, shared: Sections, *, keep: bool) -> None:
        self.number = number
        port = take_port(host, 0)
        self.url = url_of(host, port)
        self.settings = root / f"{name}-{number}.toml"
        own = {
            "broker": {"name": name, "replica": number},
            "storage": {"data_dir": str(root / f"{name}-{number}")},
            "gateway": {"host": host, "port": port},
        }
        write_settings(self.settings, {**own, **shared})
        launch = lakemq("--config", str(self.settings), "gateway")
        self.process = Process(f"{name}, replica {number}", launch, self.settings.with_suffix(".log"), keep=keep)

    def said(self) -> dict[str, Any]:
        """What it says of itself; nothing while it doesn't answer, or changes from one role to the other."""
        if not self.process.runs:
            return {}
        try:
            with HttpClient(self.url, _ANSWER_S) as client:
                return client.broker()
        except LakemqError:
            return {}


class Group:
    """Its replicas, started together."""

    def __init__(self, root: Path, host: str, name: str, shared: Sections, *, keep: bool) -> None:
        self.name = name
        self.replicas = [Replica(root, host, name, number, shared, keep=keep) for number in range(REPLICAS)]

    def start(self) -> None:
        """Start all of them."""
        for each in self.replicas:
            each.process.start()

    def leader(self) -> Leader | None:
        """Who says that it leads, under the highest epoch; None: nobody does just now."""
        said = [(each, each.said()) for each in self.replicas]
        found = [Leader(each.number, int(of["epoch"]), each.url) for each, of in said if of.get("role") == PRIMARY]
        return max(found, key=lambda each: each.epoch, default=None)

    def is_whole(self) -> bool:
        """Whether one leads, and all are in sync with it."""
        leader = self.leader()
        if leader is None:
            return False
        in_sync = self.replicas[leader.replica].said().get("in_sync")
        return in_sync == [each.number for each in self.replicas]

    def is_in_lake(self, position: int) -> bool:
        """Whether its leader knows that the lake holds all that is before that position."""
        leader = self.leader()
        return leader is not None and self.replicas[leader.replica].said().get("compacted_position", 0) >= position

    def end(self) -> int:
        """Where the log of its leader ends; raises `LakemqError` where nobody leads."""
        leader = self.leader()
        said = {} if leader is None else self.replicas[leader.replica].said()
        if "max_position" not in said:
            raise LakemqError(f"nobody leads {self.name} just now")
        return int(said["max_position"])
