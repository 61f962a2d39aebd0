"""Environments that have lakemq from its wheel, and nothing of this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lakemq.testing.gateway_process import environment_of
from lakemq.testing.server_process import ServerProcess, spawn

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Installed:
    """An environment, and an empty folder in which its commands run: there is no `lakemq/` and no `conf/` beside."""

    environment: Path
    folder: Path

    def run(self, *command: str | Path, **settings: object) -> subprocess.CompletedProcess[str]:
        """One of the environment's programs, with nothing in its environment but these settings."""
        program, *arguments = command
        return subprocess.run(
            [self.environment / "bin" / program, *arguments],
            cwd=self.folder,
            env=self.variables(**settings),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
        )

    def variables(self, **settings: object) -> dict[str, str]:
        """What the environment has. Python looks at PYTHONPATH, and may be told to write no bytecode."""
        given = environment_of(**settings)
        return {name: value for name, value in given.items() if not name.startswith("PYTHON")}

    def serve(self, name: str, *command: str, **settings: object) -> ServerProcess:
        """A server, once it listens."""
        program = [str(self.environment / "bin" / command[0]), *command[1:]]
        return ServerProcess(name, program, self.variables(**settings), spawn)


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout, made there."""
    _run([BIN / "python", "-m", "hatchling", "build", "-t", "wheel", "-d", folder])
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, extras: str, folder: Path) -> Installed:
    """An environment made in `folder` as images are: the wheel with these extras, each package with the version and the
    hash of the lock, and nothing beside."""
    environment, empty = folder / "venv", folder / "empty"
    empty.mkdir(parents=True)
    _run([ROOT / "deploy/install-wheel.sh", "wheel", environment, wheel, extras], UV=str(BIN / "uv"))
    return Installed(environment, empty)


def _run(command: Sequence[str | Path], **also: str) -> None:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"  # python3 is this one
    environment = {**os.environ, "PATH": path, **also}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
