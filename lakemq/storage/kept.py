"""Files that are kept beside a segment: what was cut off it, or what it was before it was written again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from lakemq.storage.files import Files
from lakemq.storage.segment import Segment

TORN = ".torn-"
"""A torn tail that held sound frames (`torn.py`)."""
QUARANTINE = ".quarantine-"
"""A damaged file that another one stands in for (`stand_in.py`)."""
DAMAGED = ".damaged"
"""A file as it was before `lakemq log repair`."""


def free_path(segment: Segment, suffix: str) -> Path:
    """A name that no file has yet."""
    return next(path for number in count(1) if not (path := _beside(segment, f"{suffix}{number}")).exists())


def _beside(segment: Segment, suffix: str) -> Path:
    return segment.path.with_name(segment.path.name + suffix)


def kept_beside(segment: Segment, *suffixes: str) -> Iterator[Path]:
    """What is kept of the segment."""
    for suffix in suffixes:
        yield from segment.path.parent.glob(f"{segment.path.name}{suffix}*")


def quarantined(directory: Path) -> list[str]:
    """The names of all damaged files that others stand in for."""
    return sorted(path.name for path in directory.glob(f"*.log{QUARANTINE}*"))


def drop_kept(files: Files, segment: Segment) -> bool:
    """Remove what is kept of the segment: it leaves the log, or something of it is erased. Whether there was any."""
    paths = list(kept_beside(segment, TORN, QUARANTINE, DAMAGED))
    for path in paths:
        files.remove(path)
    return bool(paths)
