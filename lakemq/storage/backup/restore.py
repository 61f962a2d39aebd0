"""Restoring a backup as a new log that has all the old one's messages at their positions.

Whoever was told of a position after the backup was made must never find another message under it: so the
restored log has an id of its own, which stands in each of its frames, and goes on far beyond its end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from lakemq.model.errors import LogDamaged
from lakemq.storage.backup.copying import Copier, check_copy
from lakemq.storage.backup.manifest import LAKE, LOG, PARTS, RESTORING, BadBackup, Copied, Manifest, read_manifest
from lakemq.storage.backup.same_log import check_same_log
from lakemq.storage.disk.files import Files
from lakemq.storage.lake.delta_log import is_table, tables_of
from lakemq.storage.lake.log_marks import append_identifiers, replaced
from lakemq.storage.lake.progress import read_progress
from lakemq.storage.log.dropped import DROPPED, covers, read_dropped
from lakemq.storage.log.positions import UNKNOWN_BLOCK, write_reserved
from lakemq.storage.segment.frame import KIND_HOLE, KIND_STATE, LogEpoch, encode, encode_queue
from lakemq.storage.segment.scan import Broken, Scanned, scan
from lakemq.storage.segment.segment import Segment
from lakemq.storage.state.log_identity import new_log_id
from lakemq.storage.state.replay import encode_state

MADE_OF_TWO = "the backup was made of one log and the lake of another, which do not belong together: use another backup"
BESIDE_ANOTHER = "restore this one with a new folder as its lake (--lake)"


class Restored(NamedTuple):
    """What is there now. `missing_below`: what is below that position, and was not dropped, is neither in the log nor
    in the lake; 0: nothing is missing."""

    manifest: Manifest
    log_id: str
    messages: int
    missing_below: int


def restore(folder: Path, data_dir: Path, lake: Path, files: Files | None = None) -> Restored:
    """Put the backup in `folder` into these folders, which must be new or empty. Every file is compared with
    its checksum before anything is written, every frame with its own. Raises `LakemqError`, `OSError`; then
    there is no log, and the folders are to be emptied."""
    files = files or Files()
    manifest = read_manifest(folder)
    has_lake = any(each.path.startswith(LAKE + "/") for each in manifest.files)
    for target in [data_dir, *([lake] if has_lake else [])]:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise BadBackup(f"{target} is not empty: a backup is restored to new folders")
    missing_below = 0 if has_lake else _check_lake(lake, manifest, files, folder)
    for each in manifest.files:
        check_copy(files, folder, each)
    if has_lake:
        check_same_log(tables_of(folder / LAKE), manifest.broker, manifest.log_id, MADE_OF_TWO)
    log_id = new_log_id()
    log = Copier(files, data_dir.resolve() / RESTORING)
    log.make_folder(log.root)  # first: whatever ends this, nobody takes the folders for those of a new broker
    _copy_folder(files, folder, manifest.files, LAKE, lake)
    _copy_folder(files, folder, manifest.files, PARTS, data_dir / PARTS)
    messages = 0
    position, epoch = manifest.first_position, 0
    for name in sorted(each.path for each in manifest.files if each.path.startswith(LOG + "/")):
        if Path(name).name == DROPPED:
            log.copy(folder / name, DROPPED)
            continue
        reader = _Reader(Segment(files, folder / name, position), log_id)
        log.write(Path(name).name, reader.frames())
        position, epoch, messages = reader.position, reader.epoch, messages + reader.messages
    if position != manifest.next_position:
        raise BadBackup(f"the backup's log ends with position {position}, not {manifest.next_position}")
    # Whoever keeps a bare position or offset of what came after the backup must not find another message there.
    write_reserved(files, log.root, LogEpoch(log_id, epoch), position + UNKNOWN_BLOCK)
    files.sync_dir(log.root)
    # Last, as the lake may be one that is there already: it is as it was where anything before this fails.
    _rename_log(lake, manifest.log_id, str(UUID(bytes=log_id)), files)
    files.rename(log.root, data_dir.resolve() / LOG)
    files.sync_dir(data_dir.resolve())
    return Restored(manifest, str(UUID(bytes=log_id)), messages, missing_below)


def _copy_folder(files: Files, folder: Path, wanted: Iterable[Copied], prefix: str, target: Path) -> None:
    copier = Copier(files, target.resolve())
    for each in wanted:
        if each.path.startswith(prefix + "/"):
            copier.copy(folder / each.path, each.path.removeprefix(prefix + "/"))
    if copier.copied:
        copier.sync_folders()


def _check_lake(lake: Path, manifest: Manifest, files: Files, folder: Path) -> int:
    """Raise `BadBackup` where the lake that is there, which came from another backup, and this log don't belong
    together: they lack a message between them, or the lake has what the log will give to others, or is none that has
    this log at all. As `Restored.missing_below`, for a log that nobody has said to belong to a lake."""
    dropped = read_dropped(files, folder / LOG)
    for name in manifest.elsewhere:
        marks = read_progress(lake / name).logs.values() if is_table(lake / name) else ()
        if all(mark.log_id != manifest.log_id for mark in marks):
            raise BadBackup(
                f"{lake / name} holds nothing of this log, which is no whole one without: restore the backup that has "
                "the lake first, to that folder. If it has been, this log was put beside it before, maybe not to the "
                "end: empty the folders, and restore both"
            )
    check_same_log(tables_of(lake), manifest.broker, manifest.log_id, BESIDE_ANOTHER)
    is_held = False
    for table in tables_of(lake):
        progress = read_progress(table)
        for broker, mark in progress.logs.items():
            if broker not in progress.held:
                continue  # a topic's own table, which is made of `messages`
            held = progress.held[broker]
            if mark.log_id != manifest.log_id:
                continue
            is_held = True
            if held > manifest.next_position:
                raise BadBackup(
                    f"{table} holds the log up to {held}, and the backup ends with {manifest.next_position}"
                )
            if not covers(dropped, held, manifest.first_position):
                raise BadBackup(
                    f"{table} holds the log up to {held}, and the backup begins with {manifest.first_position}"
                )
    return 0 if is_held or covers(dropped, 0, manifest.first_position) else manifest.first_position


def _rename_log(lake: Path, before: str, now: str, files: Files) -> None:
    """Let the lake's tables say that what they hold of the old log is of the new one: its positions are the same."""
    for table in tables_of(lake):
        for broker, mark in read_progress(table).logs.items():
            if mark.log_id == before:
                append_identifiers(table, replaced(broker, mark, now), files)


class _Reader:
    """One segment's frames with another log's id; `position`, `epoch` and `messages` are of its end."""

    def __init__(self, segment: Segment, log_id: bytes) -> None:
        self._segment = segment
        self._log_id = log_id
        self.position = segment.base_position
        self.messages = 0
        self.epoch = 0

    def frames(self) -> Iterator[bytes | memoryview]:
        """All of them; raises `BadBackup`."""
        size = self._segment.path.stat().st_size
        try:
            for scanned in scan(self._segment, 0, size):
                yield from self._frame(scanned)
        except (Broken, LogDamaged) as error:
            raise BadBackup(f"segment {self._segment.path.name} of the backup is damaged: {error}") from None

    def _frame(self, scanned: Scanned) -> Iterator[bytes | memoryview]:
        _, meta, payload = scanned
        if meta.first_position != self.position:
            raise BadBackup(f"the backup's log has position {meta.first_position} where {self.position} is due")
        self.position += meta.count
        self.epoch = meta.log.epoch
        self.messages += meta.count if meta.kind != KIND_HOLE else 0
        log = LogEpoch(self._log_id, meta.log.epoch)
        if meta.kind == KIND_STATE:
            state = json.loads(bytes(payload))
            state["log"]["id"] = str(UUID(bytes=self._log_id))
            head, stored = encode_state(log, state, meta.first_position, meta.store_time_ms)
        else:
            runs = [(run.first_queue_offset, run.count, encode_queue(run.topic, run.queue_id)) for run in meta.runs]
            numbers = meta.first_position, meta.store_time_ms, meta.count, meta.columns
            head, stored = encode(log, meta.kind, *numbers, runs, meta.notes, payload, encoding=meta.encoding)
        yield head
        yield memoryview(stored)
