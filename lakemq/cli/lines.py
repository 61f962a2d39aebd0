"""Lines of a stream, in batches as they arrive."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from lakemq.model.errors import LakemqError

READ_BYTES = 256 * 1024
STDIN = "the standard input"


def stdin_descriptor() -> int:
    """Where a command reads that is given no file. Raises `LakemqError` where that is closed."""
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  (it is, where a shell was told `<&-`)
        raise LakemqError(f"{STDIN} is closed")
    return sys.stdin.fileno()


def stdin_text() -> str:
    """All that is there. Raises `LakemqError`."""
    stdin_descriptor()
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise LakemqError(f"{STDIN} is no text") from None
    except OSError as error:
        raise LakemqError(f"can't read {STDIN}: {error.strerror}") from None


def batches_of_lines(descriptor: int, lines_max: int) -> Iterator[list[bytes]]:
    """Lines without their ends, up to `lines_max` at a time; blank ones are left out.

    A batch is what one read gave, so that what a slow writer wrote is not held back. A last line
    without an end counts.
    """
    rest = b""
    while chunk := os.read(descriptor, READ_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from _batches(lines, lines_max)
    yield from _batches([rest], lines_max)


def _batches(lines: list[bytes], lines_max: int) -> Iterator[list[bytes]]:
    written = [line.removesuffix(b"\r") for line in lines if line.strip()]
    for start in range(0, len(written), lines_max):
        yield written[start : start + lines_max]
