"""Routes of what waits: scheduled messages by when they are due, and open transactions, which people may end."""

from __future__ import annotations

from lakemq.contract.right import cluster, group, known
from lakemq.contract.route import Answered, Field, Reads, Route
from lakemq.model.access import Action

MAX = Field("max", "integer", "at most so many", 100)
_KEY = Field("key", "string", "messages with this key; with any, without")
_TOPIC = Field("topic", "string", "the topic that they go to; any, without")

SCHEDULED = Route(
    "GET",
    "/v1/scheduled",
    "routing",
    "Scheduled messages that wait, the soonest first",
    (
        _TOPIC,
        Field("after", "string", "`next_after` of the page before"),
        MAX,
        Field("where", "string", "a predicate in SQL over the columns of `messages`, as `search` takes it"),
        _KEY,
    ),
    rights=known(
        "of topics on which one has `Sub`, `Get` or `Pub`; with `where`, which reads bodies, `Sub`; retries by the "
        "group's right"
    ),
)
SCHEDULED_TIMES = Route(
    "GET",
    "/v1/scheduled/times",
    "routing",
    "How many scheduled messages are due when",
    (
        Field("begin_ms", "integer", "due from then on; now, without"),
        Field("within_ms", "integer", "due within so long from then; up to the last one, without"),
        Field("buckets", "integer", "the time is divided into so many", 60),
    ),
    rights=cluster(Action.LIST, Action.GET),
)
TRANSACTIONS = Route(
    "GET",
    "/v1/transactions",
    "transactions",
    "Open transactions, the oldest first",
    (
        _TOPIC,
        Field("group", "string", "of that producer group; of any, without"),
        Field("after", "integer", "`next_after` of the page before", -1),
        MAX,
        _KEY,
    ),
    rights=known("those of producer groups and topics on both of which one has `Pub`; all by `Get` on the cluster"),
)
RESOLVE_OPEN = Route(
    "POST",
    "/v1/producer-groups/{group}/transactions/{half_id}",
    "transactions",
    "Commit or roll back an open transaction on behalf of its producer",
    reads=Reads.JSON,
    differs=Answered.CONFIRMED,
    rights=group(Action.PUB, by_handler="`Pub` on the half message's topic"),
    audited=True,
)

ALL: tuple[Route, ...] = (SCHEDULED, SCHEDULED_TIMES, TRANSACTIONS, RESOLVE_OPEN)
