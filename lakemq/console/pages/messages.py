"""Messages: browsed by queue, and one of them with all that it has."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from typing import Any, NamedTuple

from starlette.responses import Response

from lakemq.console import curl, shown
from lakemq.console.asked import Broker
from lakemq.console.decoded import decoded_of
from lakemq.console.histories import FURTHER_MAX, FURTHER_STEP, history_of
from lakemq.console.lake_life import why_not, with_lake
from lakemq.console.schemas import KIND_NAMES
from lakemq.console.visit import Visit
from lakemq.contract import routes
from lakemq.model.access import Action
from lakemq.model.errors import InvalidRequest, LakemqError
from lakemq.model.life import life_of
from lakemq.model.names import HALF_TOPIC, RECEIVE_TOPIC, is_system

ROWS_MAX = 50
QUEUES_MAX = 16
"""Of all queues together so many are looked at; of others one at a time."""
BYTES_MAX = 16 * 1024 * 1024
"""Of bodies that one page reads."""
FROM = ("end", "offset", "time")


class Sought(NamedTuple):
    """`queue` None: all of them. `start`: from the end, an offset or a time."""

    queue: int | None
    start: str
    offset: int
    time: str


class Found(NamedTuple):
    """`following`: where one queue goes on. `said`: what is to be known of them."""

    rows: list[dict[str, Any]]
    following: int | None = None
    said: str = ""


async def browse(visit: Visit) -> Response:
    """A topic's messages."""
    name = visit.path("topic")
    who = await visit.who()
    topic = await visit.broker.topic(name)
    sought = _sought(visit, len(topic["queues"]))
    found = await _found(visit.broker, topic, sought)
    return visit.page(
        "messages.html",
        topic=name,
        queues=topic["queues"],
        sought=sought,
        found=found,
        live=sought.start == "end" and sought.queue is None,
        may_send=not is_system(name) and who.may_on_topic(Action.PUB, name),
    )


def _sought(visit: Visit, queues: int) -> Sought:
    queue = visit.field("queue")
    start = visit.field("from", "end")
    if start not in FROM:
        raise InvalidRequest(f"from is one of {', '.join(FROM)}")
    return Sought(
        visit.number("queue", 0, 0, queues - 1) if queue else None,
        start,
        visit.number("offset", 0),
        visit.field("time"),
    )


async def _found(broker: Broker, topic: dict[str, Any], sought: Sought) -> Found:
    queues = [each for each in topic["queues"] if sought.queue in (None, each["queue_id"])]
    looked_at, each_max = queues[:QUEUES_MAX], max(ROWS_MAX // max(len(queues[:QUEUES_MAX]), 1), 1)
    time_ms = _time_ms(sought)
    rows: list[dict[str, Any]] = []
    following, taken, said = None, 0, ""
    if len(queues) > len(looked_at):
        said = f"These are of the first {QUEUES_MAX} of {len(queues)} queues: choose one to see others."
    for queue in looked_at:
        if taken > BYTES_MAX:
            said = "The messages are so large that not all queues are shown: choose one."
            break
        begin = await _begin(broker, topic["topic"], queue, sought, time_ms, each_max)
        answer = await broker.pull(topic["topic"], queue["queue_id"], begin, each_max)
        rows += answer["messages"]
        taken += sum(len(each["body"]) for each in answer["messages"])
        following = answer["next_offset"]
    newest_first = sought.start == "end"
    rows.sort(key=lambda each: each["position"], reverse=newest_first)
    if sought.queue is None or newest_first or (following or 0) >= max(each["max_offset"] for each in queues):
        following = None
    return Found(rows, following, said)


def _time_ms(sought: Sought) -> int:
    if sought.start != "time":
        return 0
    found = shown.parse_moment(sought.time)
    if found is None:
        raise InvalidRequest(f"write a time as 2026-01-31T12:00:00, in UTC, not as {sought.time[:40]!r}")
    return found


async def _begin(broker: Broker, topic: str, queue: dict[str, Any], sought: Sought, time_ms: int, most: int) -> int:
    if sought.start == "offset":
        return max(sought.offset, queue["min_offset"])
    if sought.start == "time":
        return await broker.offset_at(topic, queue["queue_id"], time_ms)
    return max(queue["max_offset"] - most, queue["min_offset"])


async def show_message(visit: Visit) -> Response:
    """One message, and what happened to it."""
    who = await visit.who()
    name, further = visit.path("message_id"), visit.number("further", 1, 1, FURTHER_MAX)
    message, refused = await _or_refused(visit.broker.get(routes.MESSAGE.at(name)))
    history, why = await _or_refused(history_of(visit.broker, name, further))
    if message is None or history is None:
        if refused is not None and (history is None or not _is_half(history)):
            raise refused
        if why is not None and why.code == "unauthenticated":
            raise why
    lake_said, in_lake = "", visit.field("lake") == "1"
    if in_lake and history is not None and history["read_from_ms"] is not None:
        sees_all = who.user is not None and who.may_on_topic(Action.GET, RECEIVE_TOPIC)
        try:
            history = await with_lake(visit.broker, history, further, sees_all)
        except LakemqError as error:
            if error.code == "unauthenticated":
                raise
            lake_said = why_not(error)
    # The body of a half isn't shown to who only waits for it.
    shown_one = message or (history or {})["message"]
    topic = _sent_to(shown_one)
    return visit.page(
        "message.html",
        history=history,
        life=None if history is None else life_of(history),
        shown_further=further if further > 1 else "",
        in_lake=in_lake,
        lake_said=lake_said,
        no_life="" if why is None else why.detail,
        further=min(FURTHER_STEP * further, FURTHER_MAX) if further < FURTHER_MAX else None,
        message=shown_one,
        topic=topic,
        body=None if message is None else shown.body_of(message),
        decoded=None if message is None else await decoded_of(visit.broker, topic, message),
        kinds=KIND_NAMES,
        command="" if message is None else _command(visit, message, topic, history),
        may_send=message is not None and not is_system(topic) and who.may_on_topic(Action.PUB, topic),
    )


def _command(visit: Visit, message: dict[str, Any], topic: str, history: dict[str, Any] | None) -> str:
    """The command that sends it. What a retry leaves out, its first message has."""
    first, now_ms = (message, 0) if history is None else (history["message"], history["now_ms"])
    to = topic if history is None else str(history["topic"])
    delay = curl.delay_of(first, now_ms)
    return curl.command(visit.broker.address, to, message, visit.session is not None, delay)


def _is_half(history: dict[str, Any]) -> bool:
    return history["message"]["topic"] == HALF_TOPIC


async def _or_refused(asked: Awaitable[dict[str, Any]]) -> tuple[dict[str, Any] | None, LakemqError | None]:
    try:
        return await asked, None
    except LakemqError as error:
        return None, error


def _sent_to(message: dict[str, Any]) -> str:
    """The topic that it was sent to, also of one that waits, is retried or is dead."""
    return str(message.get("real_topic") or message["topic"])


async def show_body(visit: Visit) -> Response:
    """The body as it is, to be kept as a file: no browser shows it."""
    message = await visit.broker.get(routes.MESSAGE.at(visit.path("message_id")))
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{message['topic']}-{message['queue_id']}-{message['queue_offset']}")
    return Response(
        shown.body_bytes(message),
        media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{name}.bin"'},
    )


ROUTES = (
    ("GET", "/topics/{topic}/messages", browse),
    ("GET", "/messages/{message_id}", show_message),
    ("GET", "/messages/{message_id}/body", show_body),
)
