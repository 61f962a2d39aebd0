"""How long a half waits."""

from __future__ import annotations

from lakemq.model.transaction import TransactionState, wait_ms


def test_the_first_wait_is_another_than_those_after_checks() -> None:
    assert [wait_ms(times, 6_000, 60_000) for times in (0, 1, 15)] == [6_000, 60_000, 60_000]


def test_the_states_have_letters() -> None:
    assert "".join(TransactionState) == "HKCBX"
