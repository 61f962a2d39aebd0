"""All HTTP headers that lakemq defines or gives a meaning, each once; a test holds that no other `Lakemq-…` is used."""

from __future__ import annotations

from typing import NamedTuple

from lakemq.model.message_columns import GIVEN, Kind

_MESSAGE = {
    "tag": "the message's tag",
    "ordering_key": "messages with the same ordering key share a queue and stay in order",
    "born_time_ms": "when the producer created the message, in ms since the epoch",
    "deliver_at_ms": "when to deliver the message, in ms since the epoch",
    "ttl_ms": "the message's time to live, in ms",
    "priority": "the priority, on a topic of type `priority`",
    "queue_id": "the queue to store the message in",
}

SEND_IDS = "Lakemq-Send-Ids"
"""The names of a request's messages, where more than one broker may store them."""
MISSING_REPLICAS = "Lakemq-Missing-Replicas"
"""Of an answer to a send: the replicas that no promise rests on."""


READ_AT = "Lakemq-Read-At"
"""The address at which a consumer that is far behind reads on."""


class Header(NamedTuple):
    """One header: where it belongs (which requests or answers), and what it means."""

    name: str
    where: str
    meaning: str


def _title(column: str) -> str:
    return "Lakemq-" + "-".join(part.capitalize() for part in column.split("_"))


OF_MESSAGES: tuple[Header, ...] = (
    *(
        Header(_title(column.name), "a raw message", _MESSAGE[column.name])
        for column in GIVEN
        if column.kind in (Kind.TEXT, Kind.INT, Kind.LONG) or column.name == "deliver_at_ms"
    ),
    Header("Lakemq-Keys", "a raw message", "keys to find the message by, separated by commas"),
    Header("Lakemq-Delay-Level", "a raw message", "the delay as a RocketMQ level, from 1"),
    Header("Lakemq-Delay-Ms", "a raw message", "the delay in ms"),
    Header("Lakemq-Property-…", "a raw message", "a property; its name follows the prefix, in lower case"),
)
"""Fields of the message in a request whose body is the message itself."""

REQUESTS: tuple[Header, ...] = (
    *OF_MESSAGES,
    Header(
        SEND_IDS,
        "messages as Arrow, without properties",
        "`sender.17`: the first message gets this as its property `send_id`, the next one `sender.18`, and so on",
    ),
    Header("Authorization", "any", "`Bearer lmq_<id>_<secret>`: the caller's token"),
    Header("Content-Type", "with a body", "the form of the body; `application/json` where a route takes JSON"),
    Header("Content-Encoding", "with messages", "how the body is compressed"),
    Header("Accept", "pull", "the form of the answer: JSON, NDJSON or Arrow"),
    Header(
        "Idempotency-Key",
        "produce, begin a transaction",
        "1 to 256 characters: a request that the same user repeats with the same key is stored once",
    ),
    Header("X-Request-Id", "any", "names the request in errors, logs and the audit"),
    Header("traceparent", "any", "the W3C trace that the request belongs to, with `tracestate`"),
)

ANSWERS: tuple[Header, ...] = (
    Header("X-Request-Id", "errors", "the id of the request, also `request_id` in the body"),
    Header("Retry-After", "some errors", "how many seconds to wait before the next try"),
    Header("WWW-Authenticate", "401", "`Bearer`: a valid token is needed"),
    Header("Allow", "405", "the methods that the path has"),
    Header("Lakemq-Status", "pull, but for JSON", "`status` of the JSON answer"),
    Header("Lakemq-Next-Offset", "pull, but for JSON", "the offset to continue with"),
    Header("Lakemq-Min-Offset", "pull, but for JSON", "the first offset of the queue"),
    Header("Lakemq-Max-Offset", "pull, but for JSON", "the offset that the queue's next message gets"),
    Header(
        "Lakemq-Holes",
        "pull, but for JSON; reads of the log",
        "`first-last,…`: offsets (of the log: positions) that are gone for good",
    ),
    Header(
        READ_AT,
        "pull",
        "you are far behind: the address of a replica in sync to pull from, until its answers lack this. Ask the leader"
        " instead where that one answers an error, a status other than `found` and `no_matched_message`, or holes: it"
        " may lack what the leader has. See `replication.far_behind_bytes`",
    ),
    Header("Lakemq-Expired", "pull, but for JSON", "how many expired messages were skipped; left out if none"),
    Header(
        MISSING_REPLICAS,
        "sends",
        "`0,2`: replicas that are no longer in sync, and may lack what was stored; left out if none is",
    ),
    Header("Lakemq-Truncated", "SQL as CSV or Arrow", "whether there are more rows"),
    Header("Lakemq-Log-Id", "reads of the log", "which log was read"),
    Header("Lakemq-Epoch", "reads of the log", "the epoch in which the log is written now"),
    Header("Lakemq-Next-Position", "reads of the log", "the position to continue with"),
    Header("Lakemq-Confirmed-Position", "frames", "how far the log is on the disks of all replicas in sync"),
    Header("Lakemq-End-Position", "frames", "how far the log is on disk here"),
    Header("Lakemq-Min-Position", "frames", "where the log begins"),
    Header("Lakemq-Ack", "frames", "`sync`: consumers see only what is confirmed; else `async`"),
    Header("Lakemq-In-Sync", "frames", "the numbers of the replicas in sync"),
    Header("Lakemq-Leader-Epoch", "frames", "the epoch in which the leader leads"),
    Header("Lakemq-Erased", "frames", "how many erasures the follower has to carry out"),
    Header("Lakemq-Parts", "frames", "parts of sinks that the follower is to fetch"),
    Header("Lakemq-Awaited-Position", "frames", "the position that the leader waits for a follower to store"),
    Header("Lakemq-Part-Bytes", "a part of a sink", "the size of the whole part"),
    Header("Lakemq-Next-Cause", "pending causes", "`after` of the next page"),
)
