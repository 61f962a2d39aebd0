"""Lines of a stream, in batches as they arrive."""

from __future__ import annotations

import os
from collections.abc import Iterator

READ_BYTES = 256 * 1024


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
