"""What a start does where the log's tail may be lost: it goes on beyond all that may have been given."""

from __future__ import annotations

import logging

from lakemq.storage.files import Files
from lakemq.storage.frame import COUNT_MAX, LogEpoch
from lakemq.storage.log_state import LogState
from lakemq.storage.positions import may_have_given
from lakemq.storage.replay import replay
from lakemq.storage.segment_store import SegmentStore

logger = logging.getLogger(__name__)


def pass_over_lost_tail(files: Files, store: SegmentStore, state: LogState, memory_survives: bool, now_ms: int) -> None:
    """Where messages may be lost that somebody was told of, begin an epoch with a hole that stands for
    them: no position and no queue's offset is given twice. On disk on return; raises `OSError`.

    A crash meanwhile leaves the hole, or does it again.
    """
    index = store.active.index
    assert index is not None
    log_id, end = state.identity.now.log_id, index.end_position
    bound = may_have_given(files, store.active.path.parent, log_id, end, memory_survives)
    if bound == end:
        return
    while index.end_position < bound:
        log = LogEpoch(log_id, state.identity.now.epoch + 1)
        count = min(bound - index.end_position, COUNT_MAX)
        offset, meta = store.write_hole(log, index.end_position, now_ms, count)
        replay(state, meta, memoryview(b""))
        index.add(offset, meta)
    files.sync(store.active.open())
    epoch = state.identity.now.epoch
    logger.warning(
        "what was not on disk may be lost: positions %d to %d are given to no message, epoch %d begins",
        end, bound - 1, epoch,
    )  # fmt: skip
