"""Prometheus' own tool, as `make setup` brings it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def promtool(*arguments: str, text: str | None = None) -> None:
    """Run it, with `text` as what it reads. Raises `AssertionError` with what it says where it isn't content. Where
    Debian's packages can be had it has to be there."""
    own = ROOT / ".venv/promtool/usr/bin/promtool"
    program = shutil.which("promtool") or (str(own) if own.is_file() else None)
    if program is None:
        if shutil.which("apt-get") is None:
            pytest.skip("there is no promtool, and no apt-get to get it with")
        raise AssertionError("there is no promtool: make setup gets it, if it reaches Debian's packages")
    done = subprocess.run([program, *arguments], input=text, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, f"promtool {' '.join(arguments)}: {done.stdout}{done.stderr}"
