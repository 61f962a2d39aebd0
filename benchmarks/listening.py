"""A server of these benchmarks in a process of its own, which says where it listens as soon as it does."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Generator

_LISTENING = re.compile(r"listening on (http://\S+)")


@contextlib.contextmanager
def listening(module: str, *arguments: str) -> Generator[tuple[str, int]]:
    """That module's: its URL and its pid. It is killed afterwards."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = _LISTENING.search(process.stdout.readline())
        if found is None:
            raise RuntimeError(f"the server of {module} did not start")
        yield found.group(1), process.pid
    finally:
        process.kill()
        process.communicate()
