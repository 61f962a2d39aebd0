"""A scheduled message becomes the same one, whether it is copied alone or with many, column by column."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemq.gateway.effects.copies import as_delivered, gather, row_delivered, to_batch
from lakemq.storage.segment.content import Columns, Rows
from lakemq.storage.segment.frame import KIND_MESSAGES, LogEpoch, Meta
from lakemq.storage.segment.frame_rows import FrameRows
from lakemq.storage.segment.rows import make_row, rows_to_batch
from lakemq.storage.segment.segment import Frame
from lakemq.storage.state.log_identity import LogIdentity
from lakemq.storage.state.message_ids import MessageIds

SCHEDULED = st.builds(
    make_row,
    body=st.binary(max_size=5),
    tag=st.sampled_from([None, "T"]),
    properties=st.sampled_from([None, {"a": "b"}]),
    born_time_ms=st.sampled_from([None, 7]),
    deliver_at_ms=st.integers(0, 100),
    real_topic=st.sampled_from(["t", "%RETRY%g"]),
    real_queue_id=st.integers(0, 3),
    origin_message_id=st.sampled_from([None, "broker-a.x.1"]),
    group=st.sampled_from([None, "g"]),
    retry_topic=st.sampled_from([None, "t"]),
    reconsume_times=st.sampled_from([None, 2]),
)


@given(st.lists(SCHEDULED, min_size=1, max_size=6))
def test_one_by_one_is_as_column_by_column(rows: list[tuple[object, ...]]) -> None:
    identity = LogIdentity()
    identity.begin(LogEpoch(bytes(16), 1), 0)
    ids = MessageIds("broker-a")
    ids.open(identity)
    meta = Meta(KIND_MESSAGES, 30, 1_000, len(rows), 0, (), b"", 0, 0, 0)
    numbers = list(range(len(rows)))
    few = FrameRows(Frame(meta, Rows(rows)), numbers)
    many = FrameRows(Frame(meta, Columns(rows_to_batch(rows)[1])), numbers)
    one_by_one = [row_delivered(row, position, ids) for position, row in few.rows().items()]
    assert rows_to_batch(one_by_one)[1].equals(to_batch(as_delivered(gather([many]), ids)))
