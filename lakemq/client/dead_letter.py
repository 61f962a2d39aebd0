"""Dead letters as a broker lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, Self

from lakemq.model.causes import Causes

DeadLetterState = Literal["open", "redriven", "discarded", "gone"]
"""The model's `LetterState`, as type checkers need it written out; a test compares the two."""


class DeadLetter(NamedTuple):
    """A message that a group has given up on, at its offset in `%DLQ%{group}`. If it is no longer stored, everything
    except its offset and `state` is None. `message_id`: use it to get the body. `topic`, `origin_message_id`: those of
    the original message. `deliveries`: how often the broker handed it out. `failure_class`, `failure_text`: the last
    failure."""

    queue_offset: int
    state: DeadLetterState
    message_id: str | None
    failed_ms: int | None
    deliveries: int | None
    failure_class: str | None
    failure_text: str | None
    topic: str | None
    tag: str | None
    keys: tuple[str, ...]
    more_keys: int
    """How many keys are left out because they are too long."""
    born_time_ms: int | None
    origin_message_id: str | None

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Self:
        """From the JSON of an answer."""
        known = {name: entry[name] for name in cls._fields if name not in ("keys", "more_keys")}
        return cls(**known, keys=tuple(entry["keys"]), more_keys=entry.get("more_keys", 0))


class DeadLetterPage(NamedTuple):
    """Letters, newest first. `next_after`: what to ask for the next page with, also where this one is empty; None:
    nothing is left."""

    letters: list[DeadLetter]
    next_after: int | None

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """From the JSON of an answer."""
        return cls([DeadLetter.of(each) for each in answer["dead_letters"]], answer["next_after"])


def count_causes(letters: Iterable[DeadLetter], causes: Causes) -> None:
    """Count what these died of; of one that is gone nobody knows."""
    for each in letters:
        if each.failed_ms is not None:
            causes.count(each.failure_class, each.failure_text, each.failed_ms)


def asked(
    state: DeadLetterState | None,
    reason: str | None,
    cause: str | None,
    topic: str | None,
    begin_ms: int | None,
    end_ms: int | None,
    count_max: int,
) -> dict[str, str | int]:
    """The query of the first page; the later ones also have `after`."""
    said = {"state": state, "reason": reason, "cause": cause, "topic": topic, "begin_ms": begin_ms, "end_ms": end_ms}
    return {"max": count_max, **{name: value for name, value in said.items() if value is not None}}
