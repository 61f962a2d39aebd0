"""Commands of the tree that are no command of `lakemq`, taken apart by their own parsers and not run."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
from importlib.abc import SourceLoader
from typing import cast

import pytest

from benchmarks.__main__ import PEERS, parse
from tests.cli.examples import all_flags, call_of
from tests.docs.documents import ROOT


class Parsed(BaseException):
    """Where a program would begin."""


def check(command: str, patch: pytest.MonkeyPatch) -> None:
    """Fails unless there is such a command, with such options."""
    words = shlex.split(re.sub(r"^\.venv/bin/", "", command))
    if words[0] == "lakemq":
        assert call_of(command.partition("lakemq")[2].strip()).flags() <= all_flags()
    elif words[0] == "make":
        check_make(words[1:], patch)
    elif words[:2] == ["python", "-m"]:
        check_module(words[2], words[3:], patch)
    elif words[0] == "pytest":
        assert all((ROOT / word).exists() for word in words[1:] if "/" in word)
    elif words[0] == "python":
        assert (ROOT / words[1]).exists()
    else:
        raise AssertionError(f"{command!r} is no command that is known here")


def check_make(words: list[str], patch: pytest.MonkeyPatch) -> None:
    """The commands that make would give."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", "-n", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        if line.startswith((".venv/bin/lakemq", ".venv/bin/python -m", ".venv/bin/pytest")):
            check(line, patch)


def check_module(module: str, arguments: list[str], patch: pytest.MonkeyPatch) -> None:
    """`python -m module`, up to where it has read its arguments."""
    if module == "benchmarks":
        chosen, passed = parse(arguments)
        for name in chosen.names:
            if name not in PEERS:
                check_module(f"benchmarks.{name}", passed, patch)
        return
    spec = importlib.util.find_spec(module)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{module}.__main__")
    assert spec is not None, module
    code = cast("SourceLoader", spec.loader).get_code(spec.name)
    assert code is not None
    if module.startswith("tests.docs.") and "argparse" not in code.co_names:
        assert not arguments, f"{module} takes none"
        return  # it would write its page: other tests say whether that is what the code says
    before = signal.getsignal(signal.SIGTERM)
    with patch.context() as here:
        here.setattr(argparse.ArgumentParser, "parse_args", _parse_only)
        here.setattr(sys, "argv", [module, *arguments])
        try:
            exec(code, {"__name__": "__main__", "__file__": spec.origin})
        except Parsed:
            return
        finally:
            signal.signal(signal.SIGTERM, before)
    assert not arguments, f"{module} takes none"


def _parse_only(parser: argparse.ArgumentParser, *_: object) -> None:
    known, unknown = parser.parse_known_args()
    assert not unknown, (known, unknown)
    raise Parsed
