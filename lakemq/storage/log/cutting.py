"""Cutting a log that nobody has open back to one of its frames' ends: the second half, which any start may have to end.

    A  the log as it was. What is to be cut is kept in a file beside it, where that is wanted (`mend/truncate.py`)
    B  the file `CUTTING` says up to where the log stays: on disk, and from here on the cut is made
    C  FLUSHED, RESERVED and WRITTEN speak of no more than stays; the segments behind the last one that stays are gone,
       with all that was beside them; that one's index too if it covers more, and its file has its new length: all on
       disk
    D  CUTTING is gone, and on disk so before anything is written to the log: whoever opens it syncs its folder first.
       A start that found it once more would cut what was written since

A crash in A leaves the log as it was, one in B or C is made good by the next start, before it reads anything.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from lakemq.model.errors import LogDamaged
from lakemq.storage.disk.files import Files
from lakemq.storage.disk.sealed import read_sealed, write_sealed
from lakemq.storage.log.flush_mark import lower_flush_mark
from lakemq.storage.log.positions import RESERVED, WRITTEN
from lakemq.storage.segment.segment import Segment, segment_path
from lakemq.storage.segment.segment_index import PREAMBLE_BYTES, BadIndex, load_extent
from lakemq.storage.segment.side_files import drop_side_files

logger = logging.getLogger(__name__)
CUTTING = "CUTTING"
"""A file in the log's directory while the log is being cut."""


class Cut(NamedTuple):
    """Of the segment that begins with `base_position` `size` bytes stay, and of all later ones nothing.

    The log ends with `position` then. So many positions are cut, of which the first one was given in `epoch`; so many
    are messages, of the clients' topics and of those that hold delayed ones, halves and retries. `kept`: the file in
    the log's folder that holds them, or the first `kept_positions` of them; empty: there is none.
    """

    base_position: int
    size: int
    position: int
    epoch: int
    positions: int
    messages: int
    kept: str
    kept_positions: int


def begin_cut(files: Files, directory: Path, cut: Cut) -> None:
    """From here on it is made, by whomever: `finish_cut`. On disk on return; raises `OSError`, and then it isn't."""
    write_sealed(files, directory / CUTTING, cut._asdict())


def read_cut(files: Files, directory: Path) -> Cut | None:
    """The cut that has begun and isn't finished, or None. Raises `LogDamaged`, `OSError`."""
    try:
        held = read_sealed(files, directory / CUTTING)
        return None if held is None else Cut(**held)
    except (ValueError, TypeError) as error:
        raise LogDamaged(f"the file {CUTTING} can't be read, so it isn't known how the log was cut: {error}") from None


def finish_cut(files: Files, directory: Path) -> Cut | None:
    """Make the cut that has begun, if one has; on disk on return, but for its state D. Nobody may have the log open.
    Raises `LogDamaged`, `OSError`; then the next start has to do it."""
    cut = read_cut(files, directory)
    if cut is None:
        return None
    _make(files, directory, cut)
    files.remove(directory / CUTTING)
    logger.warning(
        "cut %d positions with %d messages off the log, which now ends with position %d; %s",
        cut.positions, cut.messages, cut.position, f"they are kept as {cut.kept}" if cut.kept else "they are not kept",
    )  # fmt: skip
    return cut


def _make(files: Files, directory: Path, cut: Cut) -> None:
    lower_flush_mark(files, directory, cut.base_position, cut.size)
    for name in (RESERVED, WRITTEN):  # what they say is in GIVEN
        files.remove(directory / name)
    for base in sorted(_bases_beyond(files, directory, cut.base_position), reverse=True):
        _remove(files, Segment(files, segment_path(directory, base), base))
    _shorten(files, Segment(files, segment_path(directory, cut.base_position), cut.base_position), cut.size)
    files.sync_dir(directory)


def _bases_beyond(files: Files, directory: Path, base_position: int) -> set[int]:
    """Of all segments after that one of which anything is left, be it an index."""
    stems = (name.partition(".")[0] for name in files.names(directory))
    return {int(stem) for stem in stems if stem.isdigit() and int(stem) > base_position}


def _remove(files: Files, segment: Segment) -> None:
    drop_side_files(files, segment)
    files.remove(segment.index_path)
    files.remove(segment.path)


def _shorten(files: Files, segment: Segment, size: int) -> None:
    try:
        covered = load_extent(files.read_whole(segment.index_path, PREAMBLE_BYTES)).covered_bytes
    except (BadIndex, FileNotFoundError):
        covered = size + 1
    if covered > size:
        files.remove(segment.index_path)
    if not files.exists(segment.path):
        raise segment.damaged(0, "it is missing, and the log was to be cut within it")
    descriptor = segment.open()
    try:
        if files.size(descriptor) > size:
            files.truncate(descriptor, size)
        files.sync(descriptor)
    finally:
        segment.close()
