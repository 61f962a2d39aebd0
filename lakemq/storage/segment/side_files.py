"""Files that are kept beside a segment: what was cut off it, or what it was before it was written again."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from lakemq.storage.disk.files import Files
from lakemq.storage.segment.segment import Segment

TORN = ".torn-"
"""A torn tail that held sound frames (`torn.py`)."""
QUARANTINE = ".quarantine-"
"""A damaged file that another one stands in for (`stand_in.py`)."""
DAMAGED = ".damaged"
"""A file as it was before `lakemq log repair`."""


def free_path(files: Files, segment: Segment, suffix: str) -> Path:
    """A name that no file has yet."""
    names = set(files.names(segment.path.parent))
    name = next(name for number in count(1) if (name := f"{segment.path.name}{suffix}{number}") not in names)
    return segment.path.with_name(name)


def side_files_of(files: Files, segment: Segment, *suffixes: str) -> list[Path]:
    """What is kept of the segment."""
    begins = tuple(segment.path.name + suffix for suffix in suffixes)
    return [segment.path.with_name(name) for name in files.names(segment.path.parent) if name.startswith(begins)]


def quarantined(files: Files, directory: Path) -> list[str]:
    """The names of all damaged files that others stand in for."""
    return [name for name in files.names(directory) if f".log{QUARANTINE}" in name]


def drop_side_files(files: Files, segment: Segment) -> bool:
    """Remove what is kept of the segment: it leaves the log, or something of it is erased. Whether there was any."""
    paths = side_files_of(files, segment, TORN, QUARANTINE, DAMAGED)
    for path in paths:
        files.remove(path)
    return bool(paths)
