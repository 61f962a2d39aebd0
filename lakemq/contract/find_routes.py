"""Routes for people who look for something: messages of a topic, what happened to one, who uses a topic."""

from __future__ import annotations

from lakemq.contract.limits import NUMBER_MAX, OFFSET_MAX, TIMES_MAX
from lakemq.contract.right import known, topic
from lakemq.contract.route import Answered, Field, Route
from lakemq.model.access import Action

PAGED = (
    Field("prefix", "string", "names that begin with it, in any case of letters", ""),
    Field("contains", "string", "names that contain it, in any case of letters", ""),
    Field("after", "string", "`next_after` of the page before", ""),
    Field("limit", "integer", "at most so many; all, without"),
)
"""Of routes that list names."""
TIMES = Field(
    "times",
    "integer",
    f"for so many queues, at most {TIMES_MAX}, also `oldest_ms` and `newest_ms`: when the oldest and the newest"
    " message that can be read were stored; null: there is none, or it isn't known",
    0,
)
"""Of a topic."""
TIMES_FROM = Field("times_from", "integer", "the first queue that `times` is about", 0)

SEARCH = Route(
    "GET",
    "/v1/topics/{topic}/search",
    "messages",
    "Search a topic's messages in the log, newest first",
    (
        Field("key", "string", "messages with this key"),
        Field("tag", "string", "messages with this tag"),
        Field("property", "string", "`name=value`, or `name` alone: any value"),
        Field("text", "string", "text that the body contains"),
        Field("where", "string", "a predicate over the columns of the table `messages`"),
        Field("begin_ms", "integer", "stored since then", 0),
        Field("end_ms", "integer", "stored until then", NUMBER_MAX),
        Field("before", "integer", "`next_before` of the page before", OFFSET_MAX),
        Field("max", "integer", "at most so many messages", 50),
    ),
    differs=Answered.AT_ONCE,
    rights=topic(Action.SUB, Action.GET),
)
HISTORY = Route(
    "GET",
    "/v1/messages/{message_id}/history",
    "messages",
    "What happened to a message, and where each group is with it",
    (Field("after", "string", "`next_after` of the page before", ""),),
    rights=known("`Sub` or `Get` on the message's topic; groups on which one has `Sub`, `Get` or `List`"),
)
TOPIC_CLIENTS = Route(
    "GET",
    "/v1/topics/{topic}/clients",
    "clients",
    "Producers of a topic, and the groups that consume it",
    rights=topic(Action.GET, Action.SUB, Action.PUB, by_handler="groups on which one has `Sub`, `Get` or `List`"),
)

ALL: tuple[Route, ...] = (SEARCH, HISTORY, TOPIC_CLIENTS)
