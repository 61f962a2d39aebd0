"""What pullers of a group see: order over answers, offsets that are nobody's, locks over power cuts."""

from __future__ import annotations

from typing import Any

import pytest

from lakemq.testing.history import Kind
from tests.history.written import Run, at

QUEUE: dict[str, Any] = {"group": "g", "topic": "t", "queue_id": 0}


def test_a_pull_that_is_answered_with_what_was_before_is_disorder(run: Run) -> None:
    run.produce(at(0, "a"), at(1, "b"))
    run.do("pull", at(0, "a"), begin=0, r_end=1)
    pulled = run.do("pull", at(0, "a"), at(1, "b"), begin=1, r_end=2)
    run.assert_found(Kind.DISORDER, pulled)


def test_disorder_over_two_answers_is_reported(run: Run) -> None:
    run.produce(payloads=["a", "b"], outcome="unknown")
    one = run.do("pull", at(8, "a", offset=0), begin=0, r_end=1)
    other = run.do("pull", at(5, "b", offset=1), begin=1, r_end=2)
    run.assert_found(Kind.DISORDER, one, other)


def test_an_offset_beyond_all_that_were_committed_is_reported(run: Run) -> None:
    committed = run.do("commit_offset", **QUEUE, offset=7)
    read = run.do("read_offset", **QUEUE, r_offset=8)
    run.assert_found(Kind.OFFSET_AHEAD, committed, read)


def test_an_offset_that_somebody_may_have_committed_or_reset_is_none_of_nobody(run: Run) -> None:
    run.do("commit_offset", **QUEUE, offset=7)
    run.do("commit_offset", **QUEUE, offset=9, outcome="unknown")
    run.do("read_offset", **QUEUE, r_offset=9)
    run.do("reset_offset", **QUEUE, outcome="unknown")
    run.do("read_offset", **QUEUE, r_offset=20)
    assert run.check() == []


@pytest.mark.parametrize("ack", ["async", "sync"])
def test_an_offset_that_a_cut_took_may_go_back_unless_it_was_synced(run: Run, ack: str) -> None:
    committed = run.do("commit_offset", **QUEUE, offset=7, ack=ack)
    run.cut()
    read = run.do("read_offset", **QUEUE, r_offset=None)
    if ack == "sync":
        run.assert_found(Kind.OFFSET_WENT_BACK, committed, read)
    else:
        assert run.check() == []


@pytest.mark.parametrize("ack", ["async", "sync"])
def test_a_lock_that_a_cut_took_may_have_another_owner(run: Run, ack: str) -> None:
    one = run.do("lock", client="one", **QUEUE, ack=ack, hold_ms=60_000, r_locked=True)
    run.cut()
    two = run.do("lock", client="two", **QUEUE, ack=ack, hold_ms=60_000, r_locked=True)
    if ack == "sync":
        run.assert_found(Kind.TWO_OWNERS, one, two)
    else:
        assert run.check() == []
