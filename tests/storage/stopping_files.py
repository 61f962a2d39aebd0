"""Files that work until the machine stops: what a crash at each step leaves."""

from __future__ import annotations

from pathlib import Path

from lakemq.testing import FaultyFiles


class Stopped(Exception):
    """The machine stopped."""


class StoppingFiles(FaultyFiles):
    """They stop at the step of that number of those that change a file; -1: never. `error`: what that raises."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.steps_left = -1
        self._error = error or Stopped()

    def _step(self) -> None:
        if self.steps_left == 0:
            raise self._error
        self.steps_left -= 1

    def append(self, descriptor: int, parts: object) -> int:
        self._step()
        return super().append(descriptor, parts)  # pyright: ignore[reportArgumentType]

    def sync(self, descriptor: int) -> None:
        self._step()
        super().sync(descriptor)

    def sync_dir(self, path: Path) -> None:
        self._step()
        super().sync_dir(path)

    def rename(self, path: Path, other: Path) -> None:
        self._step()
        super().rename(path, other)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)
