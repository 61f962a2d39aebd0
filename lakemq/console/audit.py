"""Who did what: records of the audit's topic, the newest first, a page at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from lakemq.console.asked import Broker
from lakemq.model.errors import LakemqError
from lakemq.model.names import AUDIT_TOPIC

PAGE_ROWS = 50
PULLED = 500
"""Records in one pull."""
SCANNED_MAX = 5_000
"""Records that one page looks at: with a filter that matches little it says how far it has come."""
OUTCOMES = ("allowed", "refused", "login")
_FIELDS = ("user", "source", "what", "why", "request_id")


class Filter(NamedTuple):
    """What is looked for. Parts of a user's name and of an action match in any case; times are ms, None: any."""

    user: str = ""
    what: str = ""
    outcome: str = ""
    since_ms: int | None = None
    until_ms: int | None = None

    def matches(self, row: Mapping[str, Any]) -> bool:
        """Whether a record is one of these."""
        return (
            self.user.lower() in str(row["user"]).lower()
            and self.what.lower() in str(row["what"]).lower()
            and self.outcome in ("", row["outcome"])
            and (self.since_ms is None or row["at_ms"] >= self.since_ms)
            and (self.until_ms is None or row["at_ms"] <= self.until_ms)
        )


class Found(NamedTuple):
    """`following`: the offset before which an older page goes on; None: there is nothing older. `seen_to_ms`: the time
    of the oldest record that was looked at."""

    rows: list[dict[str, Any]]
    following: int | None
    seen_to_ms: int | None
    off: bool = False
    """Nothing is audited."""


async def read_audit(broker: Broker, wanted: Filter, before: int | None) -> Found:
    """A page of them. Raises `LakemqError`."""
    try:
        queue = (await broker.topic(AUDIT_TOPIC))["queues"][0]
    except LakemqError as error:
        if error.code == "topic_not_found":
            return Found([], None, None, off=True)
        raise
    end, least = int(queue["max_offset"]), int(queue["min_offset"])
    if wanted.until_ms is not None:
        end = min(end, await broker.offset_at(AUDIT_TOPIC, queue["queue_id"], wanted.until_ms + 1))
    at = end if before is None else min(before, end)
    rows: list[dict[str, Any]] = []
    seen_to_ms: int | None = None
    stop_at = max(at - SCANNED_MAX, least)
    while at > stop_at:
        first = max(at - PULLED, stop_at)
        for row in reversed(await _records(broker, queue["queue_id"], first, at)):
            seen_to_ms, at = row["at_ms"], row["offset"]
            if wanted.since_ms is not None and row["at_ms"] < wanted.since_ms:
                return Found(rows, None, seen_to_ms)
            if wanted.matches(row):
                rows.append(row)
            if len(rows) == PAGE_ROWS:
                return Found(rows, at if at > least else None, seen_to_ms)
        at = first
    return Found(rows, at if at > least else None, seen_to_ms)


async def _records(broker: Broker, queue_id: int, first: int, end: int) -> list[dict[str, Any]]:
    """Those between, the oldest first."""
    found: list[dict[str, Any]] = []
    at = first
    while at < end:
        answer = await broker.pull(AUDIT_TOPIC, queue_id, at, end - at)
        found += [_row(each) for each in answer["messages"] if each["queue_offset"] < end]
        if answer["next_offset"] <= at:
            break
        at = answer["next_offset"]
    return found


def _row(message: Mapping[str, Any]) -> dict[str, Any]:
    try:
        said = json.loads(message.get("body", ""))
    except (ValueError, RecursionError):
        said = None
    said = said if isinstance(said, dict) else {"what": "a record that can't be read"}
    return {name: str(said.get(name) or "") for name in _FIELDS} | {
        "at_ms": message["store_time_ms"],
        "offset": message["queue_offset"],
        "outcome": str(message.get("tag") or ""),
        "times": said.get("times") or 1,
        "missed": said.get("missed") or 0,
    }
