"""Each bug is planted in a sound history: the checker reports it, with the operations that prove it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakemq.testing.history import Kind, Recorder, make_payload, name_of_payload, read_history
from tests.history.written import Run, at

DUE_MS = 1_790_000_000_000


def test_a_sound_history_has_no_findings(run: Run) -> None:
    run.produce(at(0, "a"), at(1, "b"))
    run.produce(payloads=["maybe"], outcome="unknown")
    run.produce(payloads=["no"], outcome="failed")
    run.do("half", topic="t", payloads=["h"], r_transaction_ids=["x"])
    run.do("resolve", topic="t", payload="h", resolution="commit")
    run.produce(at(9, "d", topic="wait"), deliver_at_ms=DUE_MS)
    run.do("receive", at(0, "a"), group="g", max_reconsume_times=1)
    run.do("nack", group="g", payloads=["a"])
    run.do("receive", at(5, "a", topic="t", offset=0, times=1), group="g", max_reconsume_times=1, outcome="failed")
    run.do("commit_offset", group="g", topic="t", queue_id=0, offset=2)
    run.do("read_offset", group="g", topic="t", queue_id=0, r_offset=2)
    rows = [at(0, "a"), at(1, "b"), at(2, "maybe"), at(3, "h"), at(4, "d", ms=DUE_MS)]
    run.scan(*rows, settled_ms=DUE_MS + 1)
    run.do("lake", *rows, r_end=5)
    assert run.check() == []


@pytest.mark.parametrize(
    ("left", "where"),
    [([0, 1], "the log ends before it, with 1"), ([1, 2], "the log begins after it, with 1"), ([], "the log is empty")],
)
def test_a_lost_message_is_reported_with_where_it_stood(run: Run, left: list[int], where: str) -> None:
    numbers = [run.produce(at(position, f"m{position}")) for position in range(3)]
    run.scan(*[at(position, f"m{position}") for position in left], begin=min(left, default=0))
    lost = [position for position in range(3) if position not in left]
    findings = run.check()
    assert [(each.kind, each.operations[0]) for each in findings] == [(Kind.LOST, numbers[at]) for at in lost]
    assert where in findings[0].what


def test_a_message_lost_in_the_middle_is_lost_and_not_a_gap_that_was_told(run: Run) -> None:
    sent = [run.produce(at(position, f"m{position}")) for position in range(3)]
    scan = run.scan(at(0, "m0"), at(2, "m2"), r_holes=[[1, 2]])
    run.assert_found(Kind.LOST, sent[1], scan)


def test_a_power_cut_excuses_only_what_nobody_synced(run: Run) -> None:
    kept = run.produce(at(0, "a"), ack="async")
    run.produce(at(1, "b"), ack="sync")
    run.produce(at(2, "c"), ack="async")
    run.cut()
    scan = run.scan(at(1, "b"), r_holes=[[0, 1]])
    run.assert_found(Kind.LOST, kept, scan)


def test_a_kill_excuses_nothing_that_was_acknowledged(run: Run) -> None:
    sent = run.produce(at(0, "a"), ack="async")
    run.do("fault", fault="kill")
    run.assert_found(Kind.LOST, sent, run.scan())


def test_an_invented_message_is_reported(run: Run) -> None:
    run.assert_found(Kind.INVENTED, run.scan(at(0, "nobody's")))


def test_a_message_seen_before_it_was_sent_is_reported(run: Run) -> None:
    seen = run.scan(at(0, "a"))
    run.produce(at(0, "a"))
    run.assert_found(Kind.INVENTED, seen)


def test_corrupt_bytes_are_reported(run: Run) -> None:
    run.assert_found(Kind.CORRUPT, run.scan(at(0, None)))


def test_a_position_used_again_is_two_values(run: Run) -> None:
    first = run.produce(at(0, "a"), ack="async")
    run.cut()
    second = run.produce(at(0, "b", offset=1))
    run.scan(at(0, "b", offset=1))
    run.assert_found(Kind.TWO_VALUES, first, second)


def test_a_queue_offset_used_again_is_two_values(run: Run) -> None:
    first, second = run.produce(at(0, "a", offset=7)), run.produce(at(1, "b", offset=7))
    run.assert_found(Kind.TWO_VALUES, first, second)


def test_an_id_that_means_two_messages_is_reported(run: Run) -> None:
    first, second = run.produce(at(0, "a", id="x.0")), run.produce(at(1, "b", id="x.0"))
    run.assert_found(Kind.TWO_MEANINGS, first, second)


def test_a_transaction_id_given_twice_is_reported(run: Run) -> None:
    first = run.do("half", topic="t", payloads=["a"], r_transaction_ids=["x"])
    second = run.do("half", topic="t", payloads=["b"], r_transaction_ids=["x"])
    run.assert_found(Kind.TWO_MEANINGS, first, second)


def test_a_message_stored_twice_is_reported(run: Run) -> None:
    sent = run.produce(at(0, "a"))
    run.assert_found(Kind.STORED_TWICE, sent, run.scan(at(0, "a"), at(1, "a")))


def test_disorder_within_a_queue_is_reported(run: Run) -> None:
    first, second = run.produce(at(5, "a")), run.produce(at(4, "b"))
    run.assert_found(Kind.DISORDER, first, second)


def test_a_key_in_two_queues_is_reported(run: Run) -> None:
    first = run.produce(at(0, "a"), ordering_key="k")
    second = run.produce(["t", 1, 0, 1, "b"], ordering_key="k")
    run.assert_found(Kind.DISORDER, first, second)


def test_disorder_within_an_answer_is_reported(run: Run) -> None:
    run.produce(payloads=["a", "b"], outcome="unknown")
    seen = run.do("pull", at(1, "a"), at(0, "b"), begin=0, r_end=2)
    run.assert_found(Kind.DISORDER, seen)


def test_a_half_seen_before_its_commit_is_reported(run: Run) -> None:
    half = run.do("half", topic="t", payloads=["h"], r_transaction_ids=["x"])
    seen = run.do("pull", at(0, "h"), begin=0, r_end=1)
    run.do("resolve", topic="t", payload="h", resolution="commit")
    run.assert_found(Kind.SEEN_BEFORE_COMMIT, half, seen)


def test_a_half_seen_after_its_rollback_is_reported(run: Run) -> None:
    half = run.do("half", topic="t", payloads=["h"], r_transaction_ids=["x"])
    rollback = run.do("resolve", topic="t", payload="h", resolution="rollback")
    run.assert_found(Kind.SEEN_AFTER_ROLLBACK, half, rollback, run.scan(at(0, "h")))


def test_a_commit_that_was_lost_is_reported(run: Run) -> None:
    run.do("half", topic="t", payloads=["h"], r_transaction_ids=["x"])
    commit = run.do("resolve", topic="t", payload="h", resolution="commit")
    run.assert_found(Kind.LOST, commit, run.scan(settled_ms=DUE_MS))


def test_a_delivery_1_ms_early_is_reported(run: Run) -> None:
    sent = run.produce(at(9, "d", topic="wait"), deliver_at_ms=DUE_MS)
    run.assert_found(Kind.EARLY, sent, run.scan(at(0, "d", ms=DUE_MS - 1)))


def test_a_delay_that_never_came_is_reported(run: Run) -> None:
    sent = run.produce(at(9, "d", topic="wait"), deliver_at_ms=DUE_MS)
    run.assert_found(Kind.DELAY_LOST, sent, run.scan(settled_ms=DUE_MS + 1))


def test_attempts_that_repeat_or_skip_are_reported(run: Run) -> None:
    run.produce(at(0, "a"), at(1, "b"))
    first = run.do("receive", at(0, "a"), group="g", max_reconsume_times=3)
    again = run.do("receive", at(0, "a"), group="g", max_reconsume_times=3)
    skipped = run.do("receive", at(1, "b", times=2), group="g", max_reconsume_times=3)
    found = [(each.kind, each.operations) for each in run.check()]
    assert found == [(Kind.WRONG_ATTEMPTS, (first, again)), (Kind.WRONG_ATTEMPTS, (skipped,))]


def test_a_message_handed_out_after_its_acknowledgement_is_reported(run: Run) -> None:
    run.produce(at(0, "a"))
    run.do("receive", at(0, "a"), group="g", max_reconsume_times=3)
    ack = run.do("ack", group="g", payloads=["a"])
    late = run.do("receive", at(0, "a", times=1), group="g", max_reconsume_times=3)
    run.assert_found(Kind.WRONG_ATTEMPTS, ack, late)


def test_dead_letters_too_early_or_twice_are_reported(run: Run) -> None:
    run.produce(at(0, "a"))
    run.do("receive", at(0, "a"), group="g", max_reconsume_times=1)
    scan = run.scan(at(0, "a"), at(1, "a", topic="%DLQ%g", offset=0), at(2, "a", topic="%DLQ%g", offset=1))
    found = [(each.kind, each.operations) for each in run.check()]
    assert found == [(Kind.WRONG_DEAD_LETTERS, (scan, scan)), (Kind.WRONG_DEAD_LETTERS, (scan,))]


def test_an_offset_that_goes_back_is_reported(run: Run) -> None:
    committed = run.do("commit_offset", group="g", topic="t", queue_id=0, offset=7)
    read = run.do("read_offset", group="g", topic="t", queue_id=0, r_offset=None)
    run.assert_found(Kind.OFFSET_WENT_BACK, committed, read)


def test_a_power_cut_excuses_an_offset_that_nobody_synced_and_no_other(run: Run) -> None:
    committed = run.do("commit_offset", group="g", topic="t", queue_id=0, offset=7)
    run.produce(at(0, "a"), ack="sync")
    run.do("commit_offset", group="g", topic="t", queue_id=0, offset=9)
    run.cut()
    run.do("read_offset", group="g", topic="t", queue_id=0, r_offset=7)
    read = run.do("read_offset", group="g", topic="t", queue_id=0, r_offset=6)
    run.scan(at(0, "a"))
    run.assert_found(Kind.OFFSET_WENT_BACK, committed, read)


def test_a_reset_may_move_an_offset_back(run: Run) -> None:
    run.do("commit_offset", group="g", topic="t", queue_id=0, offset=7)
    run.do("reset_offset", group="g", topic="t", queue_id=0, outcome="unknown")
    run.do("read_offset", group="g", topic="t", queue_id=0, r_offset=0)
    assert run.check() == []


def test_a_queue_with_two_owners_is_reported(run: Run) -> None:
    queue: dict[str, Any] = {"group": "g", "topic": "t", "queue_id": 0}
    one = run.do("lock", client="one", **queue, hold_ms=60_000, r_locked=True)
    two = run.do("lock", client="two", **queue, hold_ms=60_000, r_locked=True)
    run.assert_found(Kind.TWO_OWNERS, one, two)


def test_a_queue_that_was_given_back_may_have_another_owner(run: Run) -> None:
    queue: dict[str, Any] = {"group": "g", "topic": "t", "queue_id": 0}
    run.do("lock", client="one", **queue, hold_ms=60_000, r_locked=True)
    run.do("unlock", client="one", **queue)
    run.do("lock", client="two", **queue, hold_ms=60_000, r_locked=True)
    assert run.check() == []


def test_rows_missing_double_or_other_in_the_lake_are_reported(run: Run) -> None:
    run.produce(at(0, "a"), at(1, "b"), at(2, "c"))
    scan = run.scan(at(0, "a"), at(1, "b"), at(2, "c"))
    lake = run.do("lake", at(0, "a"), at(0, "a"), at(2, "b"), r_end=3)
    found = [(each.kind, each.operations) for each in run.check()]
    assert found == [(kind, (scan, lake)) for kind in (Kind.LAKE_DOUBLE, Kind.LAKE_MISSING, Kind.LAKE_DIFFERS)]


def test_a_silent_gap_is_reported_and_a_told_one_is_not(run: Run) -> None:
    run.produce(at(0, "a"), at(9, "b"))
    run.do("pull", begin=3, r_end=6, filtered=True)
    run.do("pull", at(0, "a"), at(9, "b"), begin=0, r_end=10, r_holes=[[1, 9]])
    run.scan(at(0, "a"), at(9, "b"), r_others=[[1, 3]], r_holes=[[3, 9]])
    assert run.check() == []
    gap = run.do("pull", at(0, "a"), at(9, "b"), begin=0, r_end=10, r_holes=[[2, 9]])
    run.assert_found(Kind.SILENT_GAP, gap)


def test_positions_that_nothing_is_said_of_are_a_silent_gap(run: Run) -> None:
    run.produce(at(0, "a"), at(9, "b"))
    run.assert_found(Kind.SILENT_GAP, run.scan(at(0, "a"), at(9, "b"), r_others=[[1, 3]]))


def test_a_history_comes_back_from_its_file_and_a_torn_last_line_is_no_operation(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with Recorder(path) as recorder:
        number = recorder.invoke("c", "produce", topic="t", ack="sync", payloads=["a"])
        recorder.ok(number, rows=[at(0, "a")])
        recorder.note("c", "fault", fault="kill")
        recorder.invoke("c", "produce", topic="t", ack="sync", payloads=["b"])
        written = recorder.history()
    with path.open("a") as file:
        file.write('{"n": 3, "ev')
    assert read_history(path).operations == written.operations


def test_a_payload_tells_whether_it_is_whole() -> None:
    body = make_payload("p.1", 300)
    assert len(body) == 300
    assert name_of_payload(body) == name_of_payload(make_payload("p.1", 300))
    assert name_of_payload(make_payload("p.2", 300)) not in (None, name_of_payload(body))
    assert name_of_payload(body[:-1]) is None
    assert name_of_payload(body[:40] + b"?" + body[41:]) is None
