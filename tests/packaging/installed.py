"""Environments that have lakemq from its wheel, and nothing of this checkout."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lakemq.testing.gateway_process import environment_of
from lakemq.testing.server_process import ServerProcess, spawn

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
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
    """An environment made in `folder`: the wheel with these extras, each package with the version and the hash of the
    lock, and nothing beside."""
    environment, empty = folder / "venv", folder / "empty"
    empty.mkdir(parents=True)
    _run([sys.executable, "-m", "venv", "--without-pip", environment])
    named = f"lakemq[{extras}]" if extras else "lakemq"
    uv = [BIN / "uv", "pip", "install", "--quiet", "--python", environment / "bin/python"]
    if "jobs" in extras or "all" in extras:  # pyspark comes as source: it is built by what is locked, too
        builds = folder / "builds.lock"
        builds.write_text(_entry("setuptools"), encoding="utf-8")
        _run([*uv, "--require-hashes", "--requirements", builds])
        uv.append("--no-build-isolation")
    _run([*uv, "--constraints", LOCK, f"{named} @ {wheel.as_uri()}"])
    return Installed(environment, empty)


def _entry(package: str) -> str:
    """What the lock says of one package."""
    lines: list[str] = []
    for line in LOCK.read_text(encoding="utf-8").splitlines(keepends=True):
        if line[0].isalpha() and lines:
            break
        if lines or line.startswith(f"{package}=="):
            lines.append(line)
    return "".join(lines)


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
