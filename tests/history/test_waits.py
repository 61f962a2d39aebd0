"""Delays, transactions and receipts over power cuts: what a cut may take is excused, and nothing else; each bug is
planted in a history, and is reported with the operations that prove it."""

from __future__ import annotations

from typing import Any

import pytest

from lakemq.testing.history import Kind
from tests.history.written import Run, at

DUE_MS = 1_790_000_000_000
SETTLED: dict[str, Any] = {"settled_ms": DUE_MS + 1}
RETRY, DEAD = "%RETRY%g", "%DLQ%g"
ACKS = pytest.mark.parametrize("ack", ["async", "sync"])


def half(run: Run, payload: str = "h", ack: str = "sync", number: str = "x") -> int:
    return run.do("half", topic="t", ack=ack, payloads=[payload], r_transaction_ids=[number])


def resolve(run: Run, resolution: str, ack: str = "sync", **fields: Any) -> int:
    return run.do("resolve", topic="t", ack=ack, payload="h", resolution=resolution, **fields)


def ack_by(run: Run, receipt: str, payload: str = "a", **fields: Any) -> int:
    return run.do("ack", group="g", payloads=[payload], receipts=[receipt], **fields)


# Delays and transactions -------------------------------------------------------------------------


@ACKS
def test_a_delay_that_a_cut_took_is_lost_only_if_it_was_synced(run: Run, ack: str) -> None:
    sent = run.produce(payloads=["d"], deliver_at_ms=DUE_MS, ack=ack)
    run.cut()
    scan = run.scan(**SETTLED)
    if ack == "sync":
        run.assert_found(Kind.DELAY_LOST, sent, scan)
    else:
        assert run.check() == []


def test_a_delay_before_another_that_was_synced_is_promised_too(run: Run) -> None:
    sent = run.produce(payloads=["d"], deliver_at_ms=DUE_MS, ack="async")
    half(run)
    run.cut()
    run.assert_found(Kind.DELAY_LOST, sent, run.scan(**SETTLED))


@ACKS
def test_a_commit_that_a_cut_took_is_lost_only_if_it_was_synced(run: Run, ack: str) -> None:
    half(run)
    commit = resolve(run, "commit", ack)
    run.cut()
    scan = run.scan(**SETTLED)
    if ack == "sync":
        run.assert_found(Kind.LOST, commit, scan)
    else:
        assert run.check() == []


@ACKS
def test_a_half_that_is_not_known_any_more_is_lost_if_it_was_synced(run: Run, ack: str) -> None:
    begun = half(run, ack=ack)
    run.cut()
    resolved = resolve(run, "commit", outcome="failed", r_code="transaction_not_found")
    run.scan(**SETTLED)
    if ack == "sync":
        run.assert_found(Kind.LOST, begun, resolved)
    else:
        assert run.check() == []


@ACKS
def test_a_half_may_be_committed_after_a_rollback_that_a_cut_took(run: Run, ack: str) -> None:
    begun = half(run)
    rollback = resolve(run, "rollback", ack)
    run.cut()
    resolve(run, "commit")
    scan = run.scan(at(0, "h"), **SETTLED)
    if ack == "sync":
        run.assert_found(Kind.SEEN_AFTER_ROLLBACK, begun, rollback, scan)
    else:
        assert run.check() == []


def test_a_half_that_a_start_shows_is_seen_before_its_commit(run: Run) -> None:
    begun = half(run)
    run.cut()
    run.assert_found(Kind.SEEN_BEFORE_COMMIT, begun, run.scan(at(0, "h"), **SETTLED))


@pytest.mark.parametrize("is_synced", [False, True])
def test_what_a_cut_took_may_come_again_at_another_place(run: Run, is_synced: bool) -> None:
    run.produce(payloads=["d"], deliver_at_ms=DUE_MS)
    seen = run.do("pull", at(3, "d", offset=0), topic="t", begin=0, r_end=1)
    if is_synced:
        run.produce(at(4, "a", offset=1))
    run.cut()
    rows = [at(4, "a", offset=1)] * is_synced + [at(9, "d", offset=2)]
    scan = run.scan(*rows, r_others=[[0, 9]], **SETTLED)
    if is_synced:
        run.assert_found(Kind.STORED_TWICE, seen, scan)
    else:
        assert run.check() == []


# Ids ---------------------------------------------------------------------------------------------


def test_ids_that_mean_something_else_after_a_cut_are_reported(run: Run) -> None:
    first = half(run, "h", ack="async")
    run.cut()
    second = half(run, "i")
    run.assert_found(Kind.TWO_MEANINGS, first, second)


def test_the_id_of_a_half_that_a_message_has_after_a_cut_is_reported(run: Run) -> None:
    first = run.do("half", topic="t", ack="async", payloads=["h"], r_message_ids=["b.7"], r_transaction_ids=["b.7-x"])
    run.cut()
    second = run.produce(at(7, "a", id="b.7"))
    # Rows come first, whenever they were told of.
    run.assert_found(Kind.TWO_MEANINGS, second, first)


def test_a_receipt_of_two_attempts_is_reported(run: Run) -> None:
    run.produce(at(0, "a"), at(1, "b"))
    first = run.receive(at(0, "a"), r_receipts=["r"])
    second = run.receive(at(1, "b"), r_receipts=["r"])
    run.assert_found(Kind.TWO_MEANINGS, first, second)


# Receipts ----------------------------------------------------------------------------------------


@ACKS
def test_attempts_and_acknowledgements_that_a_cut_took_come_again(run: Run, ack: str) -> None:
    run.produce(at(0, "a"))
    first = run.receive(at(0, "a"), ack=ack, r_receipts=["r"])
    acked = ack_by(run, "r", ack=ack)
    run.cut()
    again = run.receive(at(0, "a"), r_receipts=["s"])
    found = {(each.kind, each.operations) for each in run.check()}
    proven = {(Kind.WRONG_ATTEMPTS, (first, again)), (Kind.WRONG_ATTEMPTS, (acked, again))}
    assert found == (proven if ack == "sync" else set())


def test_a_receipt_of_a_life_that_was_lost_does_not_work(run: Run) -> None:
    run.produce(at(0, "a"))
    lost = run.receive(at(0, "a"), r_receipts=["r"])
    run.cut()
    anew = run.receive(at(0, "a"), r_receipts=["s"])
    ack_by(run, "r", outcome="failed", r_status="receipt_expired")
    assert run.check() == []
    used = ack_by(run, "r")
    run.assert_found(Kind.WRONG_RECEIPT, lost, anew, used)


def test_a_receipt_works_again_when_a_cut_took_what_had_ended_it(run: Run) -> None:
    run.produce(at(0, "a"))
    run.receive(at(0, "a"), ack="sync", r_receipts=["r"])
    run.receive(at(5, "a", topic=RETRY, times=1), r_receipts=["s"])
    run.cut()
    ack_by(run, "r")
    assert run.check() == []


@pytest.mark.parametrize("fields", [{}, {"ack": "sync"}, {"invisible_ms": 1}])
def test_a_receipt_that_nothing_had_ended_works(run: Run, fields: dict[str, Any]) -> None:
    run.produce(at(0, "a"))
    out = run.receive(at(0, "a"), r_receipts=["r"], **{"invisible_ms": 600_000, **fields})
    run.cut()
    while run.recorder.history().operations[-1].begun_ms < run.recorder.history().operations[1].begun_ms + 2:
        run.do("broker")
    failed = ack_by(run, "r", outcome="failed", r_status="receipt_expired")
    if fields == {"ack": "sync"}:
        run.assert_found(Kind.RECEIPT_LOST, out, failed)
    else:
        assert run.check() == []


def test_a_receipt_that_was_nacked_is_over(run: Run) -> None:
    run.produce(at(0, "a"))
    run.receive(at(0, "a"), r_receipts=["r"], invisible_ms=600_000)
    run.do("nack", group="g", payloads=["a"], receipts=["r"], outcome="unknown")
    ack_by(run, "r", outcome="failed", r_status="receipt_expired")
    assert run.check() == []


# Retries and dead letters ------------------------------------------------------------------------


def test_what_is_given_back_or_runs_out_comes_again(run: Run) -> None:
    run.produce(at(0, "a"), at(1, "b"), at(2, "c"), at(5, "d"))
    run.receive(at(0, "a"), r_receipts=["r"], r_until_ms=DUE_MS + 9)
    given = run.do("nack", group="g", payloads=["a"], reconsume_times=0, due_ms=DUE_MS)
    run.do("nack", group="g", payloads=["c"], reconsume_times=0, due_ms=DUE_MS + 1)
    out = run.receive(at(1, "b"), r_receipts=["s"], r_until_ms=DUE_MS)
    run.receive(at(5, "d", offset=5), r_receipts=["u"], r_until_ms=DUE_MS + 1)
    rows = [at(0, "a"), at(1, "b"), at(2, "c"), at(5, "d")]
    copies = [at(3, "a", RETRY, 0, times=1), at(4, "b", RETRY, 1, times=1)]
    run.scan(*rows[:3], *copies, rows[3], **SETTLED)
    assert run.check() == []
    scan = run.scan(*rows, r_others=[[3, 5]], **SETTLED)
    found = [(each.kind, each.operations) for each in run.check()]
    assert found == [(Kind.RETRY_LOST, (given, scan)), (Kind.RETRY_LOST, (out, scan))]


@ACKS
def test_what_was_given_back_before_a_cut_comes_again_if_that_was_synced(run: Run, ack: str) -> None:
    run.produce(at(0, "a"))
    run.receive(at(0, "a"), r_receipts=["r"])
    given = run.do("nack", group="g", ack=ack, payloads=["a"], reconsume_times=0, due_ms=DUE_MS)
    run.cut()
    scan = run.scan(at(0, "a"), **SETTLED)
    if ack == "sync":
        run.assert_found(Kind.RETRY_LOST, given, scan)
    else:
        assert run.check() == []


def test_an_unanswered_receive_excuses_one_attempt_of_its_life_and_no_more(run: Run) -> None:
    run.produce(at(0, "a"), at(1, "b"))
    run.receive(outcome="unknown")
    run.do("fault", fault="kill")
    run.do("fault", fault="start")
    run.receive(at(2, "a", RETRY, 0, times=1))
    skipped = run.receive(at(3, "b", RETRY, 1, times=2))
    run.assert_found(Kind.WRONG_ATTEMPTS, skipped)


def test_an_unanswered_receive_excuses_nothing_of_what_was_sent_in_later_lives(run: Run) -> None:
    run.receive(outcome="unknown")
    run.do("fault", fault="start")
    run.produce(at(0, "a"))
    skipped = run.receive(at(1, "a", RETRY, 0, times=1))
    run.assert_found(Kind.WRONG_ATTEMPTS, skipped)


def test_dead_letters_whose_last_attempt_may_not_have_been_answered_are_none_too_early(run: Run) -> None:
    run.produce(at(0, "a"), at(1, "b"))
    run.receive(at(0, "a"), at(1, "b"), max_reconsume_times=1)
    run.receive(outcome="unknown", max_reconsume_times=1)
    rows = [at(0, "a"), at(1, "b"), at(2, "a", DEAD, 0)]
    run.scan(*rows)
    assert run.check() == []
    run.do("fault", fault="start")
    run.produce(at(3, "c"))
    run.receive(at(3, "c"), max_reconsume_times=1)
    scan = run.scan(*rows, at(3, "c"), at(4, "c", DEAD, 1))
    run.assert_found(Kind.WRONG_DEAD_LETTERS, scan)


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_dead_letter_that_a_cut_took_may_come_again(run: Run, is_synced: bool) -> None:
    run.produce(at(0, "a"))
    run.receive(at(0, "a"), max_reconsume_times=0, ack="sync")
    scan = run.scan(at(0, "a"), at(1, "a", DEAD, 0))
    if is_synced:
        run.produce(at(2, "b", offset=1))
    run.cut()
    rows = [at(2, "b", offset=1)] * is_synced
    again = run.scan(at(0, "a"), *rows, at(9, "a", DEAD, 1), r_others=[[1, 9]])
    if is_synced:
        run.assert_found(Kind.WRONG_DEAD_LETTERS, scan, again)
    else:
        assert run.check() == []
