"""Messages with a key that no group gets yet: scheduled ones, and halves of open transactions. The index of keys has
them only once they are delivered. Retries wait too, but their messages were delivered, so the index has these."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from lakemq.cli import shown

if TYPE_CHECKING:
    from lakemq.client.http import HttpClient

PAGE = 500
PAGES_MAX = 20
"""So many pages of each kind are read of one broker, half a second each at most."""


class Waiting(NamedTuple):
    """One of them. `waits_for`: time or commit. `due_ms`: when it is delivered; of a half, when its producer is asked
    next; None: not known. `group`: of a half its producer group."""

    message_id: str
    topic: str
    keys: list[str]
    waits_for: str
    due_ms: int | None
    group: str | None


class AllWaiting(NamedTuple):
    """`complete`: all was looked at."""

    found: list[Waiting]
    complete: bool


def find_waiting(client: HttpClient, topic: str | None, key: str) -> AllWaiting:
    """Those of a topic, or of all topics that the user may see."""
    later, all_later = _pages(lambda after: client.scheduled(topic, after, PAGE, key), "messages")
    halves, all_halves = _pages(lambda after: client.transactions(topic, after, PAGE, key), "transactions")
    found = [_scheduled(each) for each in later if each["retry_topic"] is None]
    found += [_half(each) for each in halves]
    return AllWaiting(found, all_later and all_halves)


def text_of(each: Waiting) -> str:
    """What it waits for, in a sentence."""
    due = "an unknown time" if each.due_ms is None else shown.time_of(each.due_ms)
    if each.waits_for == "time":
        return f"{each.message_id} of {each.topic} is delayed until {due}"
    group = f" (group {each.group})" if each.group else ""
    return f"{each.message_id} of {each.topic} is a half message: its producer{group} hasn't committed it"


def _pages(question: Callable[[Any], dict[str, Any]], name: str) -> tuple[list[dict[str, Any]], bool]:
    rows: list[dict[str, Any]] = []
    after: Any = None
    for _ in range(PAGES_MAX):
        page = question(after)
        rows += page[name]
        after = page["next_after"]
        if after is None:
            return rows, True
    return rows, False


def _scheduled(row: dict[str, Any]) -> Waiting:
    return Waiting(row["message_id"], row["topic"], row["keys"], "time", row["due_ms"], None)


def _half(row: dict[str, Any]) -> Waiting:
    return Waiting(row["half_id"], row["topic"], row["keys"], "commit", row["next_check_ms"], row["group"])
