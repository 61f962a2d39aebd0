"""What a start does where the log's tail may be lost: it goes on beyond all that may have been given."""

from __future__ import annotations

import logging

from lakemq.storage.disk.files import Files
from lakemq.storage.log.positions import may_have_given
from lakemq.storage.log.segment_store import SegmentStore
from lakemq.storage.segment.frame import COUNT_MAX, LogEpoch, encode_queue
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.replay import replay
from lakemq.storage.state.topics import TOPICS_TOPIC

logger = logging.getLogger(__name__)


def pass_over_lost_tail(
    files: Files, store: SegmentStore, state: LogState, memory_survives: bool, now_ms: int, begins: int | None = None
) -> bool:
    """Where messages may be lost that somebody was told of, begin an epoch with a hole that stands for
    them: no position and no queue's offset is given twice. On disk on return; raises `OSError`. `begins`: the epoch
    that begins in any case, as this log's leader was elected. Where nothing may be lost its hole is one position, and
    has a run without rows: no queue moves, so no consumer is told of a gap.

    A crash meanwhile leaves the hole, or does it again. Returns whether that is far beyond all that is known to have
    been given: the one hole of an elected leader may not reach as far.
    """
    index = store.active.index
    assert index is not None
    now, end = state.identity.now, index.end_position
    is_elected = begins is not None
    epoch, given = may_have_given(files, store.active.path.parent, now, end, memory_survives, is_elected)
    if given == end and begins is None:
        return True
    bound = given
    runs: list[tuple[int, int, bytes]] = []
    if bound == end:
        runs = [(state.topics.ensure_queue(TOPICS_TOPIC, 0).next_offset, 0, encode_queue(TOPICS_TOPIC, 0))]
    if begins is not None:
        # One hole, as each begins an epoch: it passes over far more than can have been given.
        epoch, bound = begins - 1, min(max(bound, end + 1), end + COUNT_MAX)
    epoch = max(epoch, now.epoch)  # the last one's beginning may be lost too
    while index.end_position < bound:
        epoch += 1
        log = LogEpoch(now.log_id, epoch)
        count = min(bound - index.end_position, COUNT_MAX)
        offset, meta = store.write_hole(log, index.end_position, now_ms, count, runs)
        replay(state, meta, memoryview(b""))
        index.add(offset, meta)
    files.sync(store.active.open())
    if runs:
        logger.info("epoch %d begins with position %d: nothing is lost", epoch, end)
        return True
    logger.warning(
        "what was not on disk may be lost: positions %d to %d are given to no message, epoch %d begins",
        end, bound - 1, epoch,
    )  # fmt: skip
    return given - bound <= COUNT_MAX // 2
