"""What is kept of the messages that are out, for the spans of their acknowledgements, is bounded."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
import pytest

from lakemq.gateway.effects.executor import Executor
from lakemq.gateway.effects.parents import recorded_in
from lakemq.gateway.receipts.receive_request import Chosen
from lakemq.gateway.receipts.traced import AckSpans
from lakemq.model.names import DEAD_LETTER_PREFIX, RECEIVE_TOPIC
from lakemq.storage.segment.content import Columns, Rows
from lakemq.storage.segment.frame import KIND_MESSAGES, Meta, Run
from lakemq.storage.segment.rows import make_row
from lakemq.storage.state.topics import Queue
from lakemq.traces.spans import Spans
from tests.gateway.receive.test_records import part_of
from tests.traces.kept import Kept

SAMPLED = f"00-{'a' * 32}-{'b' * 16}-01"
NONE = (f"00-{'a' * 32}-{'b' * 16}-00", "no trace", f"00-{'0' * 32}-{'b' * 16}-01")


@pytest.mark.parametrize("count", [3, 30])
def test_only_recorded_traces_are_found_in_both_forms(count: int) -> None:
    said = [*NONE, SAMPLED, "", SAMPLED, *[""] * 30]
    rows = [make_row(body=b"x", properties={"traceparent": each} if each else None) for each in said]
    pairs = [[("traceparent", each)] if each else None for each in said]
    column = pa.array(pairs, pa.map_(pa.string(), pa.string()))
    batch = pa.RecordBatch.from_arrays([column], ["properties"])
    found = [number for number, _ in recorded_in(Rows(rows), 2, count)]
    assert found == [number for number, _ in recorded_in(Columns(batch), 2, count)] == [1, 3][: 1 if count == 3 else 2]
    assert recorded_in(Columns(batch.rename_columns(["keys"])), 2, count) == []


def test_the_oldest_traces_give_way_and_count_as_dropped() -> None:
    spans = Spans(Kept(), queue_max=10)
    acks = AckSpans(spans, cast("Executor", None), out_max=2)
    recorded = part_of("t", 8, properties={"traceparent": SAMPLED})
    chosen = [Chosen(Queue("t", 1), [part_of("t", 8), recorded, recorded, part_of("t", 8), recorded], 6, 0, [])]
    acks.hand_out(chosen, 100)
    assert (len(acks), spans.dropped) == (2, 1)
    settle(acks, 101, f"{DEAD_LETTER_PREFIX}g")
    assert len(acks) == 2, "it was the oldest"
    settle(acks, 102, f"{DEAD_LETTER_PREFIX}g")
    assert len(acks) == 1
    settle(acks, 104, RECEIVE_TOPIC)
    assert len(acks) == 1, "another receipt takes its place"
    settle(acks, 104, f"{DEAD_LETTER_PREFIX}g")
    assert len(acks) == 1
    settle(acks, 500, f"{DEAD_LETTER_PREFIX}g")
    assert (len(acks), spans.dropped) == (0, 1)
    spans.close()


def settle(acks: AckSpans, receipt: int, topic: str) -> None:
    """A row at position 500 is the receipt's effect."""
    run = Run(topic, 0, 0, 1, 0)
    meta = Meta(KIND_MESSAGES, 500, 1_000, 1, 0, (run,), b"", 0, 0, 0)
    acks.note(meta, Rows([make_row(body=b"", cause=receipt)]), run)
