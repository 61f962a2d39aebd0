"""What is told of a process's queries."""

from __future__ import annotations

from itertools import count

import pytest

from lakemq.jobs.process.board import BATCHES_KEPT, ERROR_CHARACTERS_MAX, FAILED, RUNNING, STARTING, WAITING, Board
from lakemq.model.errors import Busy
from lakemq.traces.batches import BatchDone, BatchSpans


def test_a_query_is_told_with_its_state_its_starts_and_why_it_failed() -> None:
    clock = count(1_000)
    board = Board(lambda: next(clock))
    board.waits("wheel", ["delay", "retry"])
    (told,) = board.describe()
    assert (told["jobs"], told["state"], told["starts"], told["error"]) == (["delay", "retry"], WAITING, 0, None)
    board.starts("wheel")
    board.runs("wheel")
    assert [board.describe()[0][name] for name in ("state", "since_ms", "starts")] == [RUNNING, 1_002, 1]
    board.failed("wheel", "x" * 10_000)
    (told,) = board.describe()
    assert (told["state"], told["error"]) == (FAILED, {"at_ms": 1_003, "text": "x" * ERROR_CHARACTERS_MAX})
    board.starts("wheel")
    (told,) = board.describe()
    assert (told["state"], told["starts"], told["error"]["at_ms"]) == (STARTING, 2, 1_003)


def test_the_last_batches_are_kept_and_empty_ones_on_end_are_one() -> None:
    board = Board(lambda: 5)
    for number in range(100):
        board.observe(BatchDone("lake", number, number, 1, ""))
    for number in range(100, 105):
        board.observe(BatchDone("lake", 0, number, 1, ""))
    (told,) = board.describe()
    assert told["batches"] == 105
    assert len(told["recent"]) == BATCHES_KEPT
    assert [each["ended_ms"] for each in told["recent"][:3]] == [104, 99, 98]


def test_batches_are_observed_with_their_rows_and_what_they_fail_with() -> None:
    done: list[BatchDone] = []
    spans = BatchSpans(None, lambda: 7, done.append)
    with spans.batch("lake") as batch:
        batch.rows = 3
        assert batch.own is None
    with pytest.raises(Busy), spans.batch("wheel"):
        raise Busy("later")
    assert [(each.job, each.rows, each.ended_ms, each.error) for each in done] == [
        ("lake", 3, 7, ""),
        ("wheel", 0, 7, "busy"),
    ]
