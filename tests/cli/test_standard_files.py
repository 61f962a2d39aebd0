"""What a shell has left a command of its terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.shell import Run, Shell


def shown(command: str, url: str) -> tuple[int, str]:
    """Exit code of a shell's command, and what it writes to stderr."""
    environment = {name: each for name, each in os.environ.items() if not name.startswith("LAKEMQ_")}
    environment["LAKEMQ_BROKER"] = url
    lakemq = f"{sys.executable} -m lakemq"
    done = subprocess.run(["sh", "-c", f"{lakemq} {command}"], env=environment, capture_output=True, check=False)
    return done.returncode, done.stderr.decode()


def test_a_command_needs_no_terminal(shell: Shell) -> None:
    """Regression: it ended with a traceback; and what it opened next had the terminal's number."""
    assert shown("produce cli_closed body <&- >&-", shell.url) == (0, "")
    assert [message["body"] for message in shell.pulled("cli_closed")] == ["body"]
    assert shown("produce cli_closed <&-", shell.url) == (1, "lakemq: the standard input is closed\n")


def test_what_is_no_text_is_no_statement() -> None:
    done = shown("sql - < /proc/self/exe", "http://127.0.0.1:1")
    assert done == (1, "lakemq: the standard input is no text\n")


class Interrupted(MetaPathFinder):
    """Ctrl-C while the commands are imported."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == "lakemq.cli.app":
            raise KeyboardInterrupt


def test_ctrl_c_before_a_command_is_there_ends_it_without_a_word(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lakemq.cli.app")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    done = run("topic", "list")
    assert (done.code, done.stderr) == (130, "")


class TidiedUpBadly(MetaPathFinder):
    """Ctrl-C while a command asks Java, say, of which what is raised in the end is another error."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == "lakemq.jobs.session.starting":
            try:
                raise KeyboardInterrupt
            finally:
                raise AttributeError("'NoneType' object has no attribute 'sendall'")


def test_ctrl_c_ends_a_command_without_a_word_whatever_it_breaks(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "lakemq.jobs.session.starting", raising=False)
    monkeypatch.setattr(sys, "meta_path", [TidiedUpBadly(), *sys.meta_path])
    done = run("sql", "SELECT 1", "--lake", str(tmp_path))
    assert (done.code, done.stderr) == (130, "")
