"""Steps of a message's life that have left the log: rows of the lake's table `messages`, asked for in SQL."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakemq.console.asked import Broker
from lakemq.console.histories import history_of
from lakemq.console.sql_rows import rows_by_name
from lakemq.contract import dead_letter_routes
from lakemq.model.dead_letter import LetterState
from lakemq.model.errors import LakemqError
from lakemq.model.failure import FAILURE_CLASS, FAILURE_TEXT
from lakemq.model.life_event import what_of
from lakemq.model.names import HALF_TOPIC, SCHEDULE_TOPIC
from lakemq.model.spark_sql import literal

LOOK_MS_MAX = 20_000
"""So long the lake is read for one message, in all."""
ROUNDS_MAX = 6
"""Each finds what the rows of the one before led to: a retry takes two."""
ROWS_MAX = 200
ANSWER_S = 10.0
_WAITED_IN = (SCHEDULE_TOPIC, HALF_TOPIC)
_COLUMNS = (
    *("position", "cause", "topic", "queue_id", "queue_offset", "message_id", "`group`", "tag", "reconsume_times"),
    "unix_millis(store_time) AS time_ms",
    "unix_millis(deliver_at) AS due_ms",
    f"element_at(properties, '{FAILURE_CLASS}') AS failure_class",
    f"element_at(properties, '{FAILURE_TEXT}') AS failure_text",
)
_WHY_NOT = {
    "unreachable": "No jobs answer SQL, so the lake wasn't read.",
    "forbidden": "You may not use SQL, so the lake wasn't read.",
    "request_timeout": f"The lake took longer than {LOOK_MS_MAX // 1000} s.",
}


def why_not(error: LakemqError) -> str:
    """What a page says where the lake can't be read."""
    return _WHY_NOT.get(error.code, f"The lake wasn't read: {error.detail}")


def statement(broker: str, sent: Mapping[str, Any], causes: Iterable[int], names: Iterable[str], until_ms: int) -> str:
    """Of rows that have one of the causes, or are copies of one of the messages. `sent`: the first of them."""
    of_causes = f"cause IN ({', '.join(f'{each:d}' for each in causes)})"
    of_names = f"origin_message_id IN ({', '.join(map(literal, names))})"
    terms = [
        f"broker = {literal(broker)}",
        f"position > {sent['position']:d}",
        f"store_time >= timestamp_millis({sent['store_time_ms']:d})",
        f"store_time <= timestamp_millis({until_ms:d})",
        f"({of_causes} OR {of_names})",
    ]
    return (
        f"SELECT {', '.join(_COLUMNS)}\nFROM messages\nWHERE {' AND '.join(terms)}\n"
        f"ORDER BY position LIMIT {ROWS_MAX + 1:d}"
    )


def events_of(answer: Mapping[str, Any], sent: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows as events of a history. Raises `InvalidRequest` where that is no answer."""
    found = rows_by_name(answer, _event, "rows of messages")
    to = sent["real_topic"] if sent["topic"] in _WAITED_IN else None
    # A copy in another topic, such as a replay's, is a message of its own.
    return [each for each in found if each["what"] != "stored" or each["topic"] == to]


def _event(row: dict[str, Any]) -> dict[str, Any]:
    what, named = what_of(row["topic"])
    numbers = {name: int(row[name]) for name in ("position", "queue_id", "queue_offset", "time_ms")}
    optional = {name: None if row[name] is None else int(row[name]) for name in ("cause", "due_ms")}
    times = int(row["reconsume_times"] or 0)
    mine = {"what": what, "reconsume_times": times, "pending": False}
    return row | numbers | optional | mine | {"group": row["group"] if named is None else named}


async def lake_events(broker: Broker, sent: Mapping[str, Any], until_ms: int) -> tuple[list[dict[str, Any]], bool]:
    """What the lake has of the message up to that time, and whether that is all of it. Raises `LakemqError`."""
    name = str((await broker.describe())["name"])
    found: dict[int, dict[str, Any]] = {}
    causes, names = [int(sent["position"])], [str(sent["message_id"])]
    until_s = time.monotonic() + LOOK_MS_MAX / 1000
    for _ in range(ROUNDS_MAX):
        left_ms = int((until_s - time.monotonic()) * 1000)
        if left_ms <= 0:
            return list(found.values()), False
        asked = {
            "statement": statement(name, sent, causes, names, until_ms),
            "format": "json",
            "rows_max": ROWS_MAX + 1,
            "timeout_ms": left_ms,
        }
        answer = (await broker.sql_of_page(json.dumps(asked).encode(), left_ms / 1000 + ANSWER_S)).json()
        new = [each for each in events_of(answer, sent) if each["position"] not in found]
        found |= {each["position"]: each for each in new[: ROWS_MAX - len(found)]}
        if len(answer["rows"]) > ROWS_MAX or len(found) >= ROWS_MAX:
            return list(found.values()), False
        if not new:
            return list(found.values()), True
        causes, names = [each["position"] for each in new], [each["message_id"] for each in new]
    return list(found.values()), False


async def with_lake(broker: Broker, history: dict[str, Any], further: int, sees_all: bool) -> dict[str, Any]:
    """The history with what the lake has of it. `sees_all`: this user sees rows of the system's topics there, so that
    what isn't found did not happen. Raises `LakemqError`."""
    sent, until_ms = history["message"], history["read_from_ms"]
    events, complete = await lake_events(broker, sent, until_ms)
    merged = _merged(events, history["events"])
    copy = next((each for each in merged if each["what"] == "stored" and each["cause"] == sent["position"]), None)
    whole = dict(history)
    if history["target"] is None and copy is not None:
        again = await history_of(broker, copy["message_id"], further)
        whole |= {name: again.get(name) for name in ("target", "expires_ms", "groups", "more_groups")}
    for each in merged:
        if each["what"] == "dead" and each["pending"] is False and not _has_effect(each, merged):
            state = await _letter_state(broker, each)
            each |= {"pending": state == LetterState.OPEN, "discarded": state == LetterState.DISCARDED}
    return whole | {"events": merged, "read_from_ms": None if complete and sees_all else until_ms}


def _merged(lake: Sequence[dict[str, Any]], log: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each row once: as the log has it, which knows what is pending."""
    by_position = {each["position"]: each for each in (*lake, *log)}
    return [by_position[at] for at in sorted(by_position)]


def _has_effect(event: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> bool:
    return any(each["cause"] == event["position"] for each in events)


async def _letter_state(broker: Broker, dead: Mapping[str, Any]) -> str | None:
    """Where a dead letter is, as its broker says; None: it doesn't."""
    params = {"after": dead["queue_offset"] + 1, "max": 1}
    try:
        answer = await broker.get(dead_letter_routes.DEAD_LETTERS.at(dead["group"]), params)
    except LakemqError as error:
        if error.code == "unauthenticated":
            raise
        return None
    (letter,) = answer["dead_letters"][:1] or ({},)
    return letter.get("state") if letter.get("queue_offset") == dead["queue_offset"] else None
