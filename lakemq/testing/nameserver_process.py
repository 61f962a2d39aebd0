"""A real name server in a process of its own."""

from __future__ import annotations

import sys
from typing import Any

from lakemq.testing import gateway_process
from lakemq.testing.server_process import ServerProcess, Spawn


class NameServerProcess(ServerProcess):
    """A name server on a free port of 127.0.0.1. `log` is what it has written to stderr."""

    def __init__(self, options: dict[str, object], spawn_by: Spawn | None = None) -> None:
        environment = gateway_process.environment_of(**{"nameserver__port": 0, **options})
        command = [sys.executable, "-m", "lakemq.nameserver"]
        super().__init__("nameserver", command, environment, spawn_by or gateway_process.spawn_by_default)


def start_nameserver(spawn: Any = None, **options: Any) -> NameServerProcess:
    """Start a name server and wait until it is ready; raises `RuntimeError` with its log if it isn't.

    Options are settings as `section__key=value`. To go on at the same address after a restart, give `nameserver__port`.
    """
    return NameServerProcess(options, spawn)
