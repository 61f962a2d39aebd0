"""Receipts and acknowledgements say the same whether they are made row by row or column by column."""

from __future__ import annotations

from typing import Any

import pytest

from lakemq.gateway.filter.selector import Selector
from lakemq.gateway.receipts import records
from lakemq.gateway.receipts.receive_request import Chosen, ReceiveRequest
from lakemq.storage.segment.content import Columns, Content, Rows
from lakemq.storage.segment.frame import KIND_MESSAGES, LogEpoch, Meta, Run
from lakemq.storage.segment.rows import make_row
from lakemq.storage.segment.segment import Frame
from lakemq.storage.segment.slice import Slice
from lakemq.storage.state.log_identity import LogIdentity
from lakemq.storage.state.message_ids import MessageIds
from lakemq.storage.state.receipts import Cursor, Out, Subscription
from lakemq.storage.state.topics import Queue


@pytest.fixture
def ids() -> MessageIds:
    identity = LogIdentity()
    identity.begin(LogEpoch(bytes(16), 1), 0)
    ids = MessageIds("broker-a")
    ids.open(identity)
    return ids


def part_of(topic: str, position: int, **columns: Any) -> Slice:
    """A message of a frame of two."""
    content = Rows([make_row(body=b"x"), make_row(body=b"y", **columns)])
    run = Run(topic, 1, 5, 2, 0)
    return Slice(Frame(Meta(KIND_MESSAGES, position, 1_000, 2, 0, (run,), b"", 0, 0, 0), content), run, 1, 1)


def both_forms(monkeypatch: pytest.MonkeyPatch, make: Any) -> tuple[Content, Content]:
    few = make()
    monkeypatch.setattr(records, "ROWS_MAX", 0)
    return few, make()


def test_receipts_are_the_same_in_both_forms(ids: MessageIds, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ReceiveRequest("g", "t", 10, 1_000, 16, False, Selector.of(None), "")
    chosen = [
        Chosen(Queue("t", 1), [part_of("t", 8), part_of("t", 30, ordering_key="k")], 6, 0, []),
        Chosen(Queue("%RETRY%g", 0), [part_of("%RETRY%g", 50, reconsume_times=2)], 2, 1, []),
    ]
    few, many = both_forms(monkeypatch, lambda: records.receipts(wanted, chosen, 9_000, ids))
    assert isinstance(few, Rows)
    assert isinstance(many, Columns)
    assert few.count == 3
    assert few.batch.equals(many.batch)


def test_acknowledgements_are_the_same_in_both_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    subscription = Subscription("g", "t")
    outs = {at: Out(subscription, Cursor("t", 1), 3, 3, 2, 0, 16, 7_000 + at) for at in (4, 9)}
    few, many = both_forms(monkeypatch, lambda: records.acks("g", outs))
    assert isinstance(few, Rows)
    assert isinstance(many, Columns)
    assert few.batch.equals(many.batch)
