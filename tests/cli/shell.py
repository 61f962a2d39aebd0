"""Commands as tests run them: what a user types, and what a user sees."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakemq.cli import main


@dataclass(frozen=True)
class Done:
    """What a command has left behind."""

    code: int
    stdout: str
    stderr: str


class Run:
    """Runs commands in this process: the same entry as the script's, a real stdin."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self._stdin = folder / "stdin"
        self._capture, self._patch = capture, patch
        for name in [name for name in os.environ if name.startswith("LAKEMQ_")]:
            patch.delenv(name)

    def __call__(self, *arguments: str, stdin: str = "") -> Done:
        self._stdin.write_text(stdin)
        self._capture.readouterr()
        self._patch.setattr(sys, "argv", ["lakemq", *arguments])
        with self._stdin.open() as opened:
            self._patch.setattr(sys, "stdin", opened)
            with _logging_as_it_was(), pytest.raises(SystemExit) as ended:
                main()
        captured = self._capture.readouterr()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, captured.out, captured.err)


@contextmanager
def _logging_as_it_was() -> Generator[None]:
    """A command sets up its process's log, which is this one's."""
    loggers = [logging.getLogger(), logging.getLogger("lakemq")]
    before = [([*each.handlers], each.level) for each in loggers]
    try:
        yield
    finally:
        for each, (handlers, level) in zip(loggers, before, strict=True):
            each.handlers[:] = handlers
            each.setLevel(level)


class Shell:
    """Commands to one gateway that are expected to succeed."""

    def __init__(self, run: Run, url: str) -> None:
        self._run = run
        self.url = url

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        done = self._run(*arguments, "--broker", self.url, stdin=stdin)
        assert done.code == 0, done.stderr
        return done.stdout

    def pulled(self, topic: str, *options: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in self("pull", topic, "--json", *options).splitlines()]
