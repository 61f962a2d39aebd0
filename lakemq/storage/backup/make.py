"""Making a backup while a broker and its jobs run.

The lake is copied first and the log then, so the log's copy ends behind what the lake's holds; between them
they have every message: the log's begin must still be one that the lake's copy reaches, or all is tried again.
Without a lake, or with one that has nothing of this broker, the log must have every message by itself. The parts
of sinks are copied before and after the log, and must be all that its end asks for. Where several brokers write one
lake it is copied once, with one of them, and the logs of the others then.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lakemq.model.errors import LakemqError
from lakemq.storage.backup.copying import Copier
from lakemq.storage.backup.lake_part import copy_lake
from lakemq.storage.backup.log_part import ChangedMeanwhile, LogCopy, copy_log, copy_parts, missing_parts
from lakemq.storage.backup.manifest import BROKER, LAKE, LOG, NAME, PARTS, BadBackup, Manifest, Table, read_manifest
from lakemq.storage.backup.same_log import check_same_log
from lakemq.storage.disk.clock import Clock, SystemClock
from lakemq.storage.disk.files import Files
from lakemq.storage.log.dropped import Range, covers, read_dropped
from lakemq.storage.log.recovery import list_segments
from lakemq.storage.mend.verify import commit_log_dir

logger = logging.getLogger(__name__)

TRIES_MAX = 5


LAKE_OF_LOG = (
    "name the lake of this log (--lake), or let that one continue with it first (lakemq lake adopt); --without-lake "
    "copies the log alone"
)
"""What to do about a lake of another log."""


class Made(NamedTuple):
    """A backup that was made. `missing_below`: what is below that position, and was not dropped, is not in it; 0:
    nothing is missing."""

    manifest: Manifest
    bytes: int
    missing_below: int


def back_up(
    data_dir: Path,
    lake: Path | None,
    folder: Path,
    broker: str,
    files: Files | None = None,
    lake_in: Path | None = None,
) -> Made:
    """Copy the log, the parts of sinks and the lake to `folder`, which must be new or empty, and on disk.
    A lake that was copied to the backup in `lake_in` before is left out: with that one this log belongs together
    then. `lake` None: the log alone, whatever it lacks. A lake that is not there is left out where the log lacks
    nothing, and otherwise it is `BadBackup`. Raises `LakemqError`, `OSError`; what was copied then is no backup.
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
    source = _Source(files, data_dir, lake, broker, copied_before, lake_in)
    tables, log = _copy_consistent(source, copier)
    copier.sync_folders()
    copied = list(copier.copied.values())
    log_id = log.state.identity.log_id
    numbers = log_id, log.first_position, log.next_position, begun_ms
    if copied_before is None:
        manifest = Manifest(*numbers, tables, copied, broker=broker)
    else:
        holding = [table.name for table in tables if table.held.get(broker)]
        manifest = Manifest(*numbers, [], copied, holding, broker)
    files.replace(copier.root / BROKER, [f"{broker}\n".encode()])
    files.replace(copier.root / NAME, [manifest.encode()])
    is_whole = bool(source.held_of(tables)) or covers(log.dropped, 0, log.first_position)
    return Made(manifest, sum(each.bytes for each in copied), 0 if is_whole else log.first_position)


@dataclass(frozen=True)
class _Source:
    """What is copied. `before`: the tables that an earlier backup, in `lake_in`, has in place of the lake's."""

    files: Files
    data_dir: Path
    lake: Path | None
    broker: str
    before: list[Table] | None
    lake_in: Path | None

    @property
    def log(self) -> Path:
        return commit_log_dir(self.data_dir)

    def held_of(self, tables: Sequence[Table]) -> list[int]:
        """How far each table that has anything of the broker's log holds it."""
        return [table.held[self.broker] for table in tables if self.broker in table.held]

    def reaches(self, tables: Sequence[Table], dropped: Sequence[Range], first: int) -> bool:
        """Whether the tables have what left the log before its first position."""
        log_alone = self.lake is None and self.before is None
        return log_alone or covers(dropped, min(self.held_of(tables), default=0), first)


def _copy_consistent(source: _Source, copier: Copier) -> tuple[list[Table], LogCopy]:
    tries = 1
    while True:
        try:
            return _copy_all(source, copier)
        except ChangedMeanwhile as error:
            if tries == TRIES_MAX:
                raise LakemqError(f"no consistent backup in {TRIES_MAX} tries: {error}") from None
            logger.info("retrying: %s", error)
        tries += 1
        for part in (LAKE, LOG, PARTS):
            copier.forget(part + "/")


def _copy_all(source: _Source, copier: Copier) -> tuple[list[Table], LogCopy]:
    files, parts = source.files, source.data_dir / PARTS
    copied = copy_lake(source.lake, copier) if source.lake is not None and source.before is None else []
    tables = source.before or copied
    held = source.held_of(tables)
    if not held:
        _check_begin(source, tables)
    copy_parts(parts, copier)
    log = copy_log(files, source.log, copier)
    copy_parts(parts, copier)
    copies = (source.lake_in or copier.root) / LAKE
    check_same_log((copies / each.name for each in tables), source.broker, log.state.identity.log_id, LAKE_OF_LOG)
    if not source.reaches(tables, log.dropped, log.first_position):
        raise ChangedMeanwhile(f"the log begins with position {log.first_position}, the lake's copy ends before")
    if held and max(held) > log.next_position:
        raise ChangedMeanwhile(f"the lake holds the log up to {max(held)}, and that was on disk to {log.next_position}")
    missing = missing_parts(log.state, copier.root / PARTS)
    if missing:
        raise ChangedMeanwhile(f"part {missing[0]} of a sink was stored")
    return tables, log


def _check_begin(source: _Source, tables: Sequence[Table]) -> None:
    """Raise `BadBackup` where the log needs a lake, and there is none that has anything of the broker: another try
    would find the same."""
    segments = list_segments(source.files, source.log)
    first = segments[0].base_position if segments else 0
    if source.reaches(tables, read_dropped(source.files, source.log), first):
        return
    where = "the backup that --lake-in names" if source.before is not None else f"a lake in {source.lake}"
    others = sorted({broker for table in tables for broker in table.held})
    found = f"only has {', '.join(others)} (--broker-name)" if others else "has none of it"
    raise BadBackup(
        f"the log begins with position {first}: what is older is only in the lake, and {where} {found}. Name the "
        f"folder of the lake of {source.broker} (--lake), see that it is mounted, or back up what the log has without "
        "it (--without-lake)"
    )
