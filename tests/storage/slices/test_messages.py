"""Many slices become messages together as each does alone: the same rows, columns and order."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakemq.model.columns import MESSAGE, READABLE
from lakemq.storage.lake.cold_rows import COLD, ColdSlice, as_slice, as_slices
from lakemq.storage.segment.content import Columns, Rows
from lakemq.storage.segment.frame import KIND_MESSAGES, LogEpoch, Meta, Run
from lakemq.storage.segment.rows import Row, make_row, rows_to_batch
from lakemq.storage.segment.segment import Frame
from lakemq.storage.segment.slice import Slice
from lakemq.storage.slices.messages import to_batch, to_batches, to_dicts
from lakemq.storage.state.log_identity import LogIdentity
from lakemq.storage.state.message_ids import MessageIds

LOG_ID = bytes(range(16))
SECOND_EPOCH = 400
READ = pa.schema(list(READABLE.values()))


@pytest.fixture(scope="module")
def ids() -> MessageIds:
    """Ids of a log with two epochs."""
    identity = LogIdentity()
    identity.begin(LogEpoch(LOG_ID, 1), 0)
    identity.begin(LogEpoch(LOG_ID, 2), SECOND_EPOCH)
    ids = MessageIds("broker-a")
    ids.open(identity)
    return ids


ROWS = st.builds(
    make_row,
    body=st.binary(max_size=8),
    tag=st.sampled_from([None, "T"]),
    keys=st.sampled_from([None, ["a", "b"]]),
    properties=st.sampled_from([None, {"a": "b"}, {"c": "", "d": "e"}]),
    born_time_ms=st.sampled_from([None, 5]),
    reconsume_times=st.sampled_from([None, 3]),
    ordering_key=st.sampled_from([None, "k"]),
)
FRAMES = st.lists(
    st.tuples(
        st.lists(ROWS, min_size=1, max_size=4),
        st.sampled_from([1, 2, 30, 300]),
        st.sampled_from(["t", "u"]),
        st.booleans(),
    ),
    max_size=12,
)


def slices_of(drawn: list[tuple[list[Row], int, str, bool]]) -> list[Slice | ColdSlice]:
    """A slice of each frame, whose rows are there several times, without its first row; or such a one of the lake."""
    slices: list[Slice | ColdSlice] = []
    position = 0
    for number, (rows, times, topic, from_lake) in enumerate(drawn):
        content = Rows(rows) if times == 1 else Columns(rows_to_batch(rows * times)[1])
        run = Run(topic, number % 3, 7 * position, content.count, 0)
        meta = Meta(KIND_MESSAGES, position, 1000 + number, content.count, content.mask, (run,), b"", 0, 0, 0)
        whole = Slice(Frame(meta, content), run, min(1, content.count - 1), max(content.count - 1, 1))
        slices += cold_of(whole) if from_lake else [whole]
        position += content.count
    return slices


def cold_of(part: Slice) -> list[Slice | ColdSlice]:
    """The same messages as they come from the lake: as such, and as frames that were made of them."""
    identity = LogIdentity()
    identity.begin(LogEpoch(LOG_ID, 1), 0)
    ids = MessageIds("broker-a")
    ids.open(identity)
    cold = as_slice(to_batch(part, ids, COLD))
    return [cold, *as_slices(cold)]


def rows_of(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches, schema)


@settings(deadline=None)
@given(FRAMES)
def test_together_they_are_what_each_is_alone(ids: MessageIds, drawn: list[tuple[list[Row], int, str, bool]]) -> None:
    slices = slices_of(drawn)
    alone = [to_batch(part, ids) for part in slices]
    together = to_batches(slices, ids, MESSAGE)
    assert rows_of(together, MESSAGE).equals(rows_of(alone, MESSAGE))
    assert all(batch.schema == MESSAGE for batch in together)
    for batch in together:
        batch.validate(full=True)


@settings(deadline=None)
@given(FRAMES)
def test_all_that_can_be_read_of_frames_is_the_same_too(
    ids: MessageIds, drawn: list[tuple[list[Row], int, str, bool]]
) -> None:
    slices = slices_of([(*frame[:3], False) for frame in drawn])
    alone = [to_batch(part, ids, READ) for part in slices]
    assert rows_of(to_batches(slices, ids, READ), READ).equals(rows_of(alone, READ))


@settings(deadline=None)
@given(FRAMES)
def test_rows_and_columns_of_the_same_messages_are_the_same_json(
    ids: MessageIds, drawn: list[tuple[list[Row], int, str, bool]]
) -> None:
    for part in slices_of([(rows, 1, topic, False) for rows, _, topic, _ in drawn]):
        assert isinstance(part, Slice)
        columns = part._replace(frame=part.frame._replace(content=Columns(part.frame.content.batch)))
        messages = to_dicts(part, ids)
        assert messages == to_dicts(columns, ids)
        assert [list(message) for message in messages] == [list(message) for message in to_dicts(columns, ids)]


def test_small_slices_are_put_together_and_large_ones_are_not_copied(ids: MessageIds) -> None:
    drawn = [([make_row(body=b"x")], times, "t", False) for times in (2, 3, 2, 5000, 2, 2)]
    slices = slices_of(drawn)
    together = to_batches(slices, ids, MESSAGE)
    assert [batch.num_rows for batch in together] == [4, 4999, 2]
    large = slices[3]
    assert isinstance(large, Slice)
    assert together[1].column("body").buffers()[2].address == large.frame.batch.column("body").buffers()[2].address
