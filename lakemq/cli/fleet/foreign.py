"""Programs of others, which end with the process that started them.

`python -m lakemq.cli.fleet.foreign PARENT_PID PROGRAM ARGUMENT…` becomes that program.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lakemq.cli.fleet.processes import Launch
from lakemq.cli.lifeline import end_with_parent


def foreign(*command: str, environment: Mapping[str, str] | None = None) -> Launch:
    """A program with its arguments. `environment`: what its environment has beside this process's."""

    def start(log: Path, detached: bool) -> subprocess.Popen[bytes]:
        parent = "0" if detached else str(os.getpid())
        with log.open("ab") as output:
            return subprocess.Popen(  # noqa: S603  (our own module)
                [sys.executable, "-m", "lakemq.cli.fleet.foreign", parent, *command],
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=detached,
                process_group=None if detached else 0,
            )

    return start


def main() -> int:
    """Become the program, which inherits the signal that comes when the parent ends."""
    parent_pid, program, *arguments = sys.argv[1:]
    if parent_pid != "0":
        end_with_parent(int(parent_pid), signal.SIGKILL)
    os.execv(program, [program, *arguments])  # noqa: S606  (no shell is wanted)


if __name__ == "__main__":
    sys.exit(main())
