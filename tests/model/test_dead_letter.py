"""What becomes of a dead letter."""

from __future__ import annotations

import sqlite3
from itertools import chain, combinations

import pytest

from lakemq.model.dead_letter import Fact, LetterState, state_in_sql, state_of

COMBINATIONS = list(chain.from_iterable(combinations(Fact, count) for count in range(len(Fact) + 1)))


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ((), LetterState.OPEN),
        ((Fact.COPIED,), LetterState.REDRIVEN),
        ((Fact.UNREACHABLE,), LetterState.GONE),
        ((Fact.COPIED, Fact.UNREACHABLE), LetterState.REDRIVEN),
        ((Fact.GIVEN_UP,), LetterState.DISCARDED),
        ((Fact.GIVEN_UP, Fact.UNREACHABLE), LetterState.DISCARDED),
        ((Fact.UNSTORED, Fact.GIVEN_UP), LetterState.GONE),
        ((Fact.UNSTORED,), LetterState.GONE),
        ((Fact.UNSTORED, Fact.COPIED), LetterState.GONE),
    ],
)
def test_the_first_fact_decides(facts: tuple[Fact, ...], state: LetterState) -> None:
    assert state_of(facts) is state


@pytest.mark.parametrize("facts", COMBINATIONS)
def test_the_view_has_the_same_rule(facts: tuple[Fact, ...]) -> None:
    said = {fact: "1 = 1" if fact in facts else "1 = 0" for fact in Fact}
    (found,) = sqlite3.connect(":memory:").execute(f"SELECT {state_in_sql(said)}").fetchone()
    assert found == state_of(facts)


def test_what_a_view_does_not_know_never_holds() -> None:
    assert state_in_sql({Fact.COPIED: "copied"}) == "CASE WHEN copied THEN 'redriven' ELSE 'open' END"
