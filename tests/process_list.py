"""What `ps` shows every user of the machine, and which secrets must not be in it."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

_OTHERS = 0o077
_SECRET = re.compile(
    rb"[0-9a-f]{64}"  # of a token, and the log's key
    rb"|(?<![\w-])[\w-]{43}(?![\w-])"  # 32 bytes in base64, as that of Spark Connect
    rb"|(?m:^[0-9A-Za-z+/]{64}$)"  # a line of a private key
)


def processes_of(pid: int) -> list[int]:
    """The process and all below it."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # it ended meanwhile
                found += [int(child) for child in task.read_text().split()]
    return found


def command_lines(pid: int) -> list[bytes]:
    """Of all these; one that ended meanwhile has none."""
    lines: list[bytes] = []
    for each in processes_of(pid):
        with contextlib.suppress(OSError):
            lines.append(Path(f"/proc/{each}/cmdline").read_bytes())
    return [line for line in lines if line]


def secrets_below(folder: Path) -> set[bytes]:
    """What looks like a secret in the files there that only their owner reads."""
    found: set[bytes] = set()
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # it was only there for a moment
            if path.is_file() and not path.stat().st_mode & _OTHERS:
                found.update(_SECRET.findall(path.read_bytes()))
    return found


def shown_of(secrets: set[bytes], lines: list[bytes]) -> list[bytes]:
    """The command lines that have one of them."""
    assert secrets
    return [line for line in lines if any(secret in line for secret in secrets)]
