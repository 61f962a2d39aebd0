"""What tells that a file was changed."""

from __future__ import annotations

from pathlib import Path

FileFacts = tuple[int, ...]


def facts_of(path: Path | str) -> FileFacts | None:
    """What differs once somebody has changed the file, put another in its place, or changed who may read it. None:
    there is none, or nobody may look."""
    if not str(path):
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return None
    times = found.st_mtime_ns, found.st_ctime_ns
    return *times, found.st_ino, found.st_size, found.st_mode, found.st_uid
