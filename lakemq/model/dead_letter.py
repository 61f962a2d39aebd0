"""What becomes of a dead letter: it is still open, was redriven or discarded, or is gone. One rule, for whoever lists
them: the gateway decides by it letter by letter, and the view `dead_letters` has it as SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum


class LetterState(StrEnum):
    """Where a dead letter is."""

    OPEN = "open"
    """It waits: a redrive would send it to its group."""
    REDRIVEN = "redriven"
    """A redrive has sent it to its group again."""
    DISCARDED = "discarded"
    """Somebody has given it up for good: it stays readable, and no redrive sends it."""
    GONE = "gone"
    """Nobody can send it to its group any more."""


class Fact(StrEnum):
    """What may be known of a letter."""

    UNSTORED = "unstored"
    """Neither log nor lake have it: retention took it, it was erased, or it was lost with damage. All that is known of
    it is its place."""
    COPIED = "copied"
    """A redrive's copy of it was made."""
    GIVEN_UP = "given up"
    """A discard has named it while it was open."""
    UNREACHABLE = "unreachable"
    """No redrive finds it: its group was deleted since, or it is so old that nobody knows what became of it."""


RULE: tuple[tuple[Fact, LetterState], ...] = (
    (Fact.UNSTORED, LetterState.GONE),
    (Fact.COPIED, LetterState.REDRIVEN),
    (Fact.GIVEN_UP, LetterState.DISCARDED),
    (Fact.UNREACHABLE, LetterState.GONE),
)
"""The first fact that holds decides. Without one it is open."""


def state_of(facts: Collection[Fact]) -> LetterState:
    """The state of a letter of which these facts hold."""
    return next((state for fact, state in RULE if fact in facts), LetterState.OPEN)


def state_in_sql(facts: Mapping[Fact, str]) -> str:
    """The same as an expression of SQL: `facts` are the conditions by which each is seen. What isn't among them never
    holds."""
    cases = [f"WHEN {facts[fact]} THEN '{state}'" for fact, state in RULE if fact in facts]
    return " ".join(("CASE", *cases, f"ELSE '{LetterState.OPEN}' END"))
