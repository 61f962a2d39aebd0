"""What a half leads to."""

from __future__ import annotations

import pytest

from lakemq.model.transaction import Action, Resolution, TransactionState, decide, wait_ms


@pytest.mark.parametrize(
    ("check_times", "resolution", "action"),
    [
        (0, None, "check"),
        (14, None, "check"),
        (15, None, "give_up"),
        (0, "commit", "commit"),
        (15, "rollback", "rollback"),
    ],
)
def test_an_operation_counts_whenever_it_comes_and_else_a_check(
    check_times: int, resolution: Resolution | None, action: Action
) -> None:
    assert decide(check_times, 15, resolution) == action


def test_the_first_wait_is_another_than_those_after_checks() -> None:
    assert [wait_ms(times, 6_000, 60_000) for times in (0, 1, 15)] == [6_000, 60_000, 60_000]


def test_the_states_have_letters() -> None:
    assert "".join(TransactionState) == "HKCBX"
