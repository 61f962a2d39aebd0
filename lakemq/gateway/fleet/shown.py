"""What a start may show before it has heard of any other replica."""

from __future__ import annotations

from lakemq.gateway.fleet.confirmed_mark import ConfirmedMark
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.hiding import hide_from
from lakemq.storage.read.reader import Reader


def show_only_known(log: CommitLog, reader: Reader, mark: ConfirmedMark, sync: bool | None = None) -> int:
    """Of a log that was opened just now take for confirmed only what is known to be; consumers see no more where
    `sync` says so: None: as it was when the mark was left. Returns how far the mark says it is. Raises `OSError`."""
    known = mark.read(log.identity.log_id)
    log.confirmed.begin(min(max(known.position, log.min_position), log.next_position))
    log.sync_always = known.sync if sync is None else sync
    if log.sync_always:
        hide_from(log, reader, log.confirmed_position)
    return known.position
