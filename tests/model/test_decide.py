"""What becomes of what waits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.decide import TRANSITIONS, Action, Event, Kind, of_half, of_nack, of_receipt
from lakemq.model.delay import DelayState, parse_levels
from lakemq.model.retry import ReceiptState, RetryState
from lakemq.model.transaction import Resolution, TransactionState

LEVELS = parse_levels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
PAGE = Path(__file__).parents[2] / "docs" / "routing.md"
STATES = {
    Kind.DELAY: DelayState,
    Kind.TRANSACTION: TransactionState,
    Kind.NACK: RetryState,
    Kind.RECEIPT: ReceiptState,
}


def test_the_page_draws_the_table() -> None:
    pictures = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    drawn = [set(re.findall(r"^ +([A-Z]) --> ([A-Z]):", picture, re.MULTILINE)) for picture in pictures]
    table = [
        {(str(state), str(effect.state)) for (state, _), effect in transitions.items()}
        for transitions in TRANSITIONS.values()
    ]
    assert drawn == table


def _cell(kind: Kind, event: Event) -> str:
    steps = [(state, effect) for (state, other), effect in TRANSITIONS[kind].items() if other is event]
    return "; ".join(f"{state} → {effect.state}: {effect.action}" for state, effect in steps)


def test_the_page_has_the_table_itself() -> None:
    rows = [["event", *(kind.value for kind in Kind)], ["---"] * (1 + len(Kind))]
    rows += [[event.value, *(_cell(kind, event) for kind in Kind)] for event in Event]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in rows)
    assert table in PAGE.read_text(encoding="utf-8"), f"docs/routing.md is to have this:\n{table}"


def test_one_picture_shows_all_that_waits_and_what_its_time_leads_to() -> None:
    lines = ["flowchart LR"]
    by_time = {Event.DECIDED, Event.DUE, Event.LAST_DUE, Event.TARGET_GONE}
    for kind in Kind:
        waiting = sorted({str(state) for state, event in TRANSITIONS[kind] if event in by_time})
        lines.append(f'    {kind.value}["{kind.value}: {", ".join(waiting)}"]')
        for name, events in (("due", by_time), ("ended", set(Event) - by_time)):
            found = [
                effect for (state, event), effect in TRANSITIONS[kind].items() if event in events and state in waiting
            ]
            ends = list(dict.fromkeys(f"{effect.state} {effect.action}" for effect in found))
            if ends:
                lines.append(f'    {kind.value} -- {name} --> {kind.value}_{name}["{"<br>".join(ends)}"]')
    picture = "```mermaid\n" + "\n".join(lines) + "\n```"
    assert picture in PAGE.read_text(encoding="utf-8"), f"docs/routing.md is to have this:\n{picture}"


@pytest.mark.parametrize("kind", Kind)
def test_a_state_that_nothing_leads_out_of_is_the_end_whatever_comes(kind: Kind) -> None:
    leaving = {state for state, _ in TRANSITIONS[kind]}
    assert {effect.state for effect in TRANSITIONS[kind].values()} <= set(STATES[kind])
    ends = set(STATES[kind]) - leaving
    assert ends == set({Kind.DELAY: "VRL", Kind.TRANSACTION: "CBX", Kind.NACK: "X", Kind.RECEIPT: "ANQF"}[kind])


def test_the_states_have_letters() -> None:
    assert "".join(RetryState) == "NWTQZX"
    assert "".join(ReceiptState) == "OACNTQF"


@pytest.mark.parametrize(
    ("check_times", "resolution", "action"),
    [
        (0, None, "check"),
        (14, None, "check"),
        (15, None, "give_up"),
        (0, "commit", "commit"),
        (0, "rollback", "rollback"),
        (15, "commit", "commit"),
        (15, "rollback", "rollback"),
    ],
)
def test_an_operation_counts_whenever_it_comes_and_else_a_check(
    check_times: int, resolution: Resolution | None, action: Action
) -> None:
    assert of_half(check_times, 15, resolution).action == action


def test_the_broker_chooses_level_3_and_one_more_each_time() -> None:
    assert [of_nack(times, 0, 16, LEVELS, 0).due_ms for times in range(4)] == [10_000, 30_000, 60_000, 120_000]
    assert of_nack(15, 0, 16, LEVELS, 0).due_ms == LEVELS[-1]


def test_the_consumer_may_choose_a_level() -> None:
    assert of_nack(7, 1, 16, LEVELS, 500) == ("retry", 1_500)


def test_below_zero_is_the_dead_letters() -> None:
    assert of_nack(0, -1, 16, LEVELS, 0) == ("dead_letter", None)


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 30))
def test_after_the_last_attempt_come_the_dead_letters(times: int, most: int, level: int) -> None:
    assert (of_nack(times, level, most, LEVELS, 0).action == "dead_letter") == (times >= most)


@given(st.integers(0, 100), st.integers(0, 100))
def test_what_runs_out_is_retried_as_often_as_what_is_nacked(times: int, most: int) -> None:
    assert of_receipt(times, most).action == of_nack(times, 0, most, LEVELS, 0).action
