"""The holes of a log: positions whose messages are gone for good, as its own frames say."""

from __future__ import annotations

from pathlib import Path

from lakemq.storage.files import Files
from lakemq.storage.frame import KIND_HOLE
from lakemq.storage.recovery import list_segments
from lakemq.storage.verify import commit_log_dir, stretches


def holes_of(data_dir: Path) -> list[list[int]]:
    """Ranges `[begin, end)` of positions; the log may be in use."""
    files = Files()
    found: list[list[int]] = []
    for segment in list_segments(files, commit_log_dir(data_dir)):
        for stretch in stretches(segment, segment.path.stat().st_size):
            meta = stretch.meta
            if meta is not None and meta.kind == KIND_HOLE:
                found.append([meta.first_position, meta.first_position + meta.count])
        segment.close()
    return found
