"""A real gateway in a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from lakemq.testing.server_process import ServerProcess, Spawn, spawn

spawn_by_default: Spawn = spawn
"""How gateways and name servers are started where nothing else is said. A run of many tests may set it to something
quicker."""


class GatewayProcess(ServerProcess):
    """A gateway on a free port of 127.0.0.1. `log` is what it has written to stderr."""

    def __init__(
        self,
        data_dir: Path,
        options: dict[str, object],
        clock_offset_ms: int | Path = 0,
        module: str | None = None,
        spawn_by: Spawn | None = None,
    ) -> None:
        environment = environment_of(gateway__port=0, storage__data_dir=data_dir) | environment_of(**options)
        command = [sys.executable, "-m", "lakemq.gateway"]
        if clock_offset_ms:
            command = [sys.executable, "-m", "lakemq.testing", str(clock_offset_ms)]
        if module is not None:
            command = [sys.executable, "-m", module, str(clock_offset_ms)]
        super().__init__("gateway", command, environment, spawn_by or (spawn_by_default if module is None else spawn))


def environment_of(**options: object) -> dict[str, str]:
    """This process's environment, with these settings of lakemq's and no others; named `section__key`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
    return environment | {f"LAKEMQ_{name.upper()}": str(value) for name, value in options.items()}


def start_gateway(
    data_dir: Path, clock_offset_ms: Any = 0, module: Any = None, spawn: Any = None, **options: Any
) -> GatewayProcess:
    """Start a gateway and wait until it is ready; raises `RuntimeError` with its log if it isn't.

    Options are settings as `section__key=value`; all others have their defaults. To go on at the
    same address after a restart, give `gateway__port`. `clock_offset_ms`: its clock is so much ahead
    of the system's: an hour passes without a wait; a path: of a file in which that stands, so that it can
    jump. `module`: run this instead of the gateway, with that as its argument: a gateway with a bug in it.
    `spawn` starts the process, in place of `subprocess.Popen`; so does `spawn_by_default`, but for a `module`.
    """
    return GatewayProcess(data_dir, options, clock_offset_ms, module, spawn)
