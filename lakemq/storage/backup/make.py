"""Making a backup while a broker and its jobs run.

The lake is copied first and the log then, so the log's copy ends behind what the lake's holds; between them
they have every message: the log's begin must still be one that the lake's copy reaches, or all is tried
again. The parts of sinks are copied before and after the log, and must be all that its end asks for. Where
several brokers write one lake it is copied once, with one of them, and the logs of the others then.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from lakemq.model.errors import LakemqError
from lakemq.storage.backup.copying import Copier
from lakemq.storage.backup.lake_part import copy_lake
from lakemq.storage.backup.log_part import ChangedMeanwhile, LogCopy, copy_log, copy_parts, missing_parts
from lakemq.storage.backup.manifest import LAKE, LOG, NAME, PARTS, BadBackup, Manifest, Table, read_manifest
from lakemq.storage.disk.clock import Clock, SystemClock
from lakemq.storage.disk.files import Files
from lakemq.storage.log.dropped import covers
from lakemq.storage.mend.verify import commit_log_dir

logger = logging.getLogger(__name__)

TRIES_MAX = 5


class Made(NamedTuple):
    """A backup that was made."""

    manifest: Manifest
    bytes: int


def back_up(
    data_dir: Path, lake: Path, folder: Path, broker: str, files: Files | None = None, lake_in: Path | None = None
) -> Made:
    """Copy the log, the parts of sinks and the lake to `folder`, which must be new or empty, and on disk.
    A lake that is not there is left out, and so is one that was copied to the backup in `lake_in` before: with that
    one this log belongs together then. Raises `LakemqError`, `OSError`; what was copied then is no backup.
    """
    files = files or Files()
    clock: Clock = SystemClock()
    commit_log_dir(data_dir)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadBackup(f"{folder} is not empty: a backup begins in a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    copied_before = None if lake_in is None else read_manifest(lake_in).tables
    begun_ms = clock.now_ms()
    copier = Copier(files, folder.resolve())
    tables, log = _copy_consistent(files, data_dir, lake, broker, copier, copied_before)
    copier.sync_folders()
    copied = list(copier.copied.values())
    log_id = log.state.identity.log_id
    numbers = log_id, log.first_position, log.next_position, begun_ms
    if copied_before is None:
        manifest = Manifest(*numbers, tables, copied)
    else:
        holding = [table.name for table in tables if table.held.get(broker)]
        manifest = Manifest(*numbers, [], copied, holding)
    files.replace(copier.root / NAME, [manifest.encode()])
    return Made(manifest, sum(each.bytes for each in copied))


def _copy_consistent(
    files: Files, data_dir: Path, lake: Path, broker: str, copier: Copier, before: list[Table] | None
) -> tuple[list[Table], LogCopy]:
    tries = 1
    while True:
        try:
            return _copy_all(files, commit_log_dir(data_dir), data_dir / PARTS, lake, broker, copier, before)
        except ChangedMeanwhile as error:
            if tries == TRIES_MAX:
                raise LakemqError(f"no consistent backup in {TRIES_MAX} tries: {error}") from None
            logger.info("retrying: %s", error)
        tries += 1
        for part in (LAKE, LOG, PARTS):
            copier.forget(part + "/")


def _copy_all(
    files: Files, directory: Path, parts: Path, lake: Path, broker: str, copier: Copier, before: list[Table] | None
) -> tuple[list[Table], LogCopy]:
    tables = copy_lake(lake, copier) if before is None else before
    copy_parts(parts, copier)
    log = copy_log(files, directory, copier)
    copy_parts(parts, copier)
    held = [table.held[broker] for table in tables if broker in table.held]
    if held and not covers(log.dropped, min(held), log.first_position):
        raise ChangedMeanwhile(f"the log begins with position {log.first_position}, the lake's copy ends before")
    if held and max(held) > log.next_position:
        raise ChangedMeanwhile(f"the lake holds the log up to {max(held)}, and that was on disk to {log.next_position}")
    missing = missing_parts(log.state, copier.root / PARTS)
    if missing:
        raise ChangedMeanwhile(f"part {missing[0]} of a sink was stored")
    return tables, log
