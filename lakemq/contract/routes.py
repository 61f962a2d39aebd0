"""All routes of a gateway, each once."""

from __future__ import annotations

from lakemq.contract import (
    client_routes,
    dead_letter_routes,
    find_routes,
    leader_routes,
    log_level_routes,
    schema_routes,
    sql_routes,
    user_routes,
    waiting_routes,
)
from lakemq.contract.find_routes import PAGED, TIMES, TIMES_FROM
from lakemq.contract.limits import NUMBER_MAX, OFFSET_MAX
from lakemq.contract.right import PUBLIC, Right, also, cluster, every, group, guarded, known, sink, sinks, topic
from lakemq.contract.route import Answered, Field, Reads, Route
from lakemq.model.access import Action, Kind

PUB, SUB, UPDATE, DELETE = Action.PUB, Action.SUB, Action.UPDATE, Action.DELETE
GET, LIST, ROUTE, COMPACT = Action.GET, Action.LIST, Action.ROUTE, Action.COMPACT
_TO_GROUP = Right((SUB, UPDATE), Kind.GROUP, "group", optional=True)
_NACKING = group(SUB, by_handler="`Sub` on the messages' topics")
_AS_GROUP = Right((SUB,), Kind.GROUP, "group", optional=True)
JSON, MESSAGES = Reads.JSON, Reads.MESSAGES
AT_ONCE, BY_HANDLER, CONFIRMED = Answered.AT_ONCE, Answered.BY_HANDLER, Answered.CONFIRMED
_ACK = Field("ack", "string", "`sync`: on disk before the answer", "async", choices=("async", "sync"))
_ACK_OR_NONE = _ACK._replace(
    choices=("async", "sync", "none"), description="`sync`: on disk before the answer; `none`: no answer"
)
_WAIT_MS = Field("wait_ms", "integer", "how long to wait", 0)
_TIMESTAMP_MS = Field("timestamp_ms", "integer", required=True)
_TOPICS = Field("topics", "string", "separated by commas; default: all")
_PATTERN = Field("pattern", "string", "a regular expression that matches whole topic names")

PULL_OFFSET = Field("offset", "integer", "the first offset", required=True, least=0)
PULL_MAX = Field("max", "integer", "the most messages", 32, least=1)
PULL_WAIT_MS = Field("wait_ms", "integer", "how long to wait for a matching message", 0, least=0)
REPLY_TIMEOUT_MS = Field("timeout_ms", "integer", "how long to wait for the reply", 3_000, least=1)

# Messages
PRODUCE = Route(
    "POST",
    "/v1/topics/{topic}/messages",
    "messages",
    "Produce",
    (_ACK_OR_NONE,),
    MESSAGES,
    differs=BY_HANDLER,
    rights=topic(PUB),
)
PULL = Route(
    "GET",
    "/v1/topics/{topic}/queues/{queue_id}/messages",
    "messages",
    "Pull",
    (
        PULL_OFFSET,
        PULL_MAX,
        PULL_WAIT_MS,
        Field("tags", "string", "`A||B`, or `*`", "*"),
        Field("sql", "string", "SQL92 over properties: `a > 5 AND b LIKE 'x%'`", ""),
        Field("group", "string", "the consumer group; what only passes messages is answered within a second", ""),
    ),
    differs=AT_ONCE,
    rights=also(topic(SUB), _AS_GROUP),
)
MESSAGES_BY_KEY = Route(
    "GET",
    "/v1/messages",
    "messages",
    "Messages by key, newest first",
    (
        Field("topic", "string", required=True),
        Field("key", "string", required=True),
        Field("begin_ms", "integer", default=0),
        Field("end_ms", "integer", default=NUMBER_MAX),
        Field("max", "integer", default=32),
    ),
    differs=AT_ONCE,
    rights=topic(SUB, GET),
)
MESSAGE = Route(
    "GET",
    "/v1/messages/{message_id}",
    "messages",
    "A message by its id",
    differs=AT_ONCE,
    rights=known("`Sub` or `Get` on the message's topic"),
)
RECALL = Route(
    "DELETE",
    "/v1/messages/{message_id}",
    "routing",
    "Recall a scheduled message",
    rights=known("`Pub` on the message's topic"),
)

# Transactions
BEGIN = Route(
    "POST",
    "/v1/topics/{topic}/transactions",
    "transactions",
    "Begin transactions: store half messages",
    (Field("producer_group", "string", required=True), _ACK),
    MESSAGES,
    differs=BY_HANDLER,
    rights=topic(PUB),
)
RESOLVE = Route(
    "POST",
    "/v1/transactions/{transaction_id}",
    "transactions",
    "Resolve a transaction",
    (_ACK,),
    JSON,
    rights=known("the transaction's id, which is secret, its group, and `Pub` on the half message's topic"),
)
RESOLVE_MANY = Route(
    "POST",
    "/v1/transactions",
    "transactions",
    "Resolve many transactions",
    reads=JSON,
    rights=known("the transactions' ids, which are secret, their group, and `Pub` on the half messages' topics"),
)
CHECKS = Route(
    "GET",
    "/v1/producer-groups/{group}/checks",
    "transactions",
    "Half messages whose outcome the broker asks for",
    (Field("client_id", "string", default=""), _WAIT_MS),
    hands_out=True,
    rights=group(PUB, by_handler="`Pub` on the half messages' topics; others are left out"),
)

# Requests and replies
REQUEST = Route(
    "POST",
    "/v1/topics/{topic}/requests",
    "requests",
    "Send a message and wait for the reply",
    (REPLY_TIMEOUT_MS,),
    MESSAGES,
    differs=BY_HANDLER,
    rights=topic(PUB),
)
REPLY = Route(
    "POST",
    "/v1/replies/{correlation_id}",
    "requests",
    "Reply to a request",
    reads=MESSAGES,
    rights=known("the request's correlation id, which is secret"),
)

# Simple consumption
RECEIVE = Route(
    "POST",
    "/v1/groups/{group}/receive",
    "receive",
    "Receive messages of any queue",
    reads=JSON,
    differs=BY_HANDLER,
    rights=group(SUB, by_handler="`Sub` on the topic"),
)
ACKS = Route(
    "POST", "/v1/groups/{group}/acks", "receive", "Acknowledge received messages", reads=JSON, rights=group(SUB)
)
INVISIBILITY = Route(
    "POST",
    "/v1/groups/{group}/invisibility",
    "receive",
    "Change how long a message is invisible",
    reads=JSON,
    rights=group(SUB),
)
NACKS = Route("POST", "/v1/groups/{group}/nacks", "routing", "Consume messages later", reads=JSON, rights=_NACKING)

# Consumer groups
_SHOWN = "shows topics on which the caller has `Sub`, `Get` or `List`"
_READING = "`Sub` or `Get` on the topics"
_SHOWING = group(GET, SUB, by_handler=_SHOWN)
_CONSUMING = group(SUB, by_handler="`Sub` on the topics")
GROUPS = Route(
    "GET", "/v1/groups", "groups", "Groups: all, or a page of those whose name matches", PAGED,
    rights=every(Kind.GROUP, LIST, by_handler=_SHOWN),
)  # fmt: skip
GROUP = Route("GET", "/v1/groups/{group}", "groups", "One group: members, subscriptions, lag by queue", rights=_SHOWING)
DELETE_GROUP = Route(
    "DELETE", "/v1/groups/{group}", "groups", "Delete a group with all its data", rights=group(DELETE), audited=True
)
HEARTBEAT = Route(
    "POST", "/v1/groups/{group}/members/{client_id}/heartbeat", "groups", "Join, or stay", reads=JSON, rights=_CONSUMING
)
LEAVE = Route("DELETE", "/v1/groups/{group}/members/{client_id}", "groups", "Leave the group", rights=group(SUB))
MEMBERS = Route(
    "GET",
    "/v1/groups/{group}/members",
    "groups",
    "The members; waits until the generation changes",
    (Field("generation", "integer"), _WAIT_MS),
    rights=_SHOWING,
)
OFFSETS = Route(
    "GET",
    "/v1/groups/{group}/offsets",
    "groups",
    "A group's committed offsets",
    (Field("topic", "string"),),
    rights=_SHOWING,
)
COMMIT_OFFSETS = Route(
    "PUT",
    "/v1/groups/{group}/offsets",
    "groups",
    "Commit offsets",
    reads=JSON,
    rights=group(SUB, UPDATE, by_handler=_READING),
)
RESET_OFFSETS = Route(
    "POST",
    "/v1/groups/{group}/offsets/reset",
    "groups",
    "Reset a group's offsets",
    reads=JSON,
    rights=group(UPDATE, by_handler=_READING),
    audited=True,
)
LOCK = Route("POST", "/v1/groups/{group}/locks", "groups", "Lock queues, or renew locks", reads=JSON, rights=_CONSUMING)
UNLOCK = Route("DELETE", "/v1/groups/{group}/locks", "groups", "Release locks", reads=JSON, rights=_CONSUMING)

# Topics
TOPICS = Route(
    "GET",
    "/v1/topics",
    "topics",
    "Topics: all, or a page of those whose name matches",
    (Field("system", "boolean", default=False), *PAGED),
    rights=every(Kind.TOPIC, LIST, by_handler="lists system topics that the caller may read"),
)
TOPIC = Route(
    "GET",
    "/v1/topics/{topic}",
    "topics",
    "One topic and its queues' offsets",
    (TIMES, TIMES_FROM),
    differs=Answered.TOPICS_SHOWN,
    rights=topic(GET, SUB, PUB),
)
PUT_TOPIC = Route(
    "PUT",
    "/v1/topics/{topic}",
    "topics",
    "Create or change a topic",
    (
        Field(
            "auto", "boolean", "create it as a first message would, if allowed; an existing topic stays as it is", False
        ),
    ),
    JSON,
    differs=CONFIRMED,
    rights=known("`Create` or `Update` on the topic; with `auto`, `Pub`"),
)
DELETE_TOPIC = Route(
    "DELETE", "/v1/topics/{topic}", "topics", "Delete a topic", differs=CONFIRMED, rights=topic(DELETE), audited=True
)
OFFSET_BY_TIME = Route(
    "GET",
    "/v1/topics/{topic}/queues/{queue_id}/offset",
    "topics",
    "The first offset stored at or after a time",
    (_TIMESTAMP_MS,),
    rights=topic(SUB, GET),
)

# Sinks
SINKS = Route("GET", "/v1/sinks", "sinks", "All sinks", rights=sinks(LIST))
SINK = Route("GET", "/v1/sinks/{sink}", "sinks", "A sink's last batch and progress", rights=sink(GET, PUB))
FORGET_SINK = Route(
    "DELETE", "/v1/sinks/{sink}", "sinks", "Forget a sink", differs=BY_HANDLER, rights=sink(DELETE), audited=True
)
STAGE_PART = Route(
    "PUT",
    "/v1/sinks/{sink}/batches/{batch}/parts/{part}",
    "sinks",
    "Stage a part",
    (Field("topic", "string", required=True), Field("group", "string", "deliver to this group only")),
    differs=BY_HANDLER,
    rights=also(sink(PUB), Right((PUB,), Kind.TOPIC, "topic"), _TO_GROUP),
)
COMMIT_BATCH = Route(
    "POST",
    "/v1/sinks/{sink}/batches/{batch}/commit",
    "sinks",
    "Make a batch's parts visible, all or none",
    reads=JSON,
    differs=BY_HANDLER,
    rights=sink(PUB),
)
ABORT_BATCH = Route(
    "POST",
    "/v1/sinks/{sink}/batches/{batch}/abort",
    "sinks",
    "Drop parts that are not committed",
    reads=JSON,
    rights=sink(PUB),
)

# The log
PART_FROM = Field("from", "integer", "the first byte", 0, least=0)
PART_BYTES_MAX = Field("bytes_max", "integer", "the most bytes", 4 * 1024 * 1024, least=1)
PART_REPLICA = Field("replica", "integer", "the replica", least=0)
LOG_PART = Route(
    "GET",
    "/v1/log/parts/{token}",
    "log",
    "For followers: the file of a part that is being committed",
    (PART_FROM, PART_BYTES_MAX, PART_REPLICA),
    differs=AT_ONCE,
    rights=guarded(GET),
)
LOG_END = Route(
    "GET",
    "/v1/log/end",
    "log",
    "The end of the log for a subscription",
    (
        Field("from", "integer"),
        Field("max", "integer"),
        _TOPICS,
        _PATTERN,
        _WAIT_MS,
        Field("timer", "string", choices=("delay", "transaction", "receive", "any")),
    ),
    differs=AT_ONCE,
    rights=known(
        "`Sub` or `Get` on the named topics; of those that a pattern matches, only these are included; "
        "for `timer` also `List`, `Get` or `Route` on the cluster"
    ),
)
LOG_MESSAGES = Route(
    "GET",
    "/v1/log/messages",
    "log",
    "Messages by position, as an Arrow stream",
    (
        Field("from", "integer", required=True),
        Field("to", "integer", required=True),
        _TOPICS,
        _PATTERN,
        Field("columns", "string"),
        Field("bytes_max", "integer", default=16 * 1024 * 1024),
    ),
    differs=AT_ONCE,
    rights=known("`Sub` on the named topics; for all topics, `Get` on the cluster"),
)
FRAMES_FROM = Field("from", "integer", "a position in the first frame", required=True, least=0)
FRAMES_TO = Field("to", "integer", "no frame begins at or after this position", OFFSET_MAX, least=0)
FRAMES_WAIT_MS = Field("wait_ms", "integer", "how long to wait for a frame", 0, least=0)
FRAMES_BYTES_MAX = Field("bytes_max", "integer", "the most bytes, but at least one frame", 16 * 1024 * 1024, least=1)
FRAMES_STATE = Field(
    "state", "string", "`yes`: include a segment's state at its first position, even if nothing follows it yet", "no",
    choices=("no", "yes"),
)  # fmt: skip
REPLICA_MAX = 255
FRAMES_REPLICA = Field("replica", "integer", "for a follower: its number; it sends four fields, `epoch` too", least=0)
FRAMES_INCARNATION = Field(
    "incarnation", "string", "identifies this run of the follower; a newer one with its number replaces it"
)
FRAMES_DURABLE = Field("durable", "integer", "how far the log is on its disk", least=0)
FRAMES_EPOCH = Field(
    "epoch",
    "integer",
    "in which the reader's log ends, at `from`: 409 `epoch_diverged` where this one differs",
    least=0,
)
FRAMES_ERASED = Field("erased", "integer", "how many erasures it has carried out", 0, least=0)
FRAMES_FOLLOWER = (FRAMES_REPLICA, FRAMES_INCARNATION, FRAMES_DURABLE, FRAMES_EPOCH)
FRAMES_SEEN = Field("seen_epoch", "integer", "it refuses a leader of an earlier epoch", 0, least=0)
FRAMES_LEAVES = Field("leaves", "string", "`yes`: it stops, and is to be let go", "no", choices=("no", "yes"))
FRAMES_ADDRESS = Field("address", "string", "where clients reach it")
FRAMES_FIRST = Field("first", "integer", "the first position of its log", 0, least=0)
FRAMES_SAID = (FRAMES_ERASED, FRAMES_SEEN, FRAMES_LEAVES, FRAMES_ADDRESS, FRAMES_FIRST)
FRAMES_COUNTS = PUB
"""On the cluster: to be counted as a replica, whose word confirms messages."""
LOG_FRAMES = Route(
    "GET",
    "/v1/log/frames",
    "log",
    "Raw frames",
    (FRAMES_FROM, FRAMES_TO, _TOPICS, FRAMES_WAIT_MS, FRAMES_BYTES_MAX, FRAMES_STATE, *FRAMES_FOLLOWER, *FRAMES_SAID),
    differs=AT_ONCE,
    rights=guarded(GET, by_handler="with `replica`, also `Pub` on it"),
)
LOG_POSITION = Route(
    "GET", "/v1/log/position", "log", "The first position stored at or after a time", (_TIMESTAMP_MS,), rights=known()
)
ERASE = Route(
    "POST",
    "/v1/log/erasures",
    "log",
    "Erase messages; answers when no file of the log contains them",
    reads=JSON,
    rights=guarded(Action.ERASE),
    audited=True,
)

# Jobs
ROUTING = Route(
    "GET", "/v1/routing", "routing", "Counts of pending work, and the queries' settings", rights=cluster(GET, ROUTE)
)
PENDING = Route(
    "GET",
    "/v1/routing/pending",
    "routing",
    "Pending causes, as rows of the system topics without bodies, as an Arrow stream",
    (
        Field("kind", "string", required=True, choices=("delay", "transaction", "nack", "receipt")),
        Field("due_from_ms", "integer", "due from this time on; 0: also what has no due time", 0),
        Field("due_to_ms", "integer", "due before this time", NUMBER_MAX),
        Field("after", "integer", "`Lakemq-Next-Cause` of the previous page", -1),
        Field("max", "integer", "the most rows", 10_000),
    ),
    differs=CONFIRMED,
    rights=guarded(ROUTE),
)
DECIDE = Route(
    "POST", "/v1/log/decisions", "routing", "Decide what is due", reads=JSON, differs=CONFIRMED, rights=guarded(ROUTE)
)
HEAR_JOBS = Route(
    "PUT",
    "/v1/jobs",
    "operations",
    "Heartbeats of jobs",
    reads=JSON,
    differs=AT_ONCE,
    rights=guarded(ROUTE, COMPACT, by_handler="for `sql` all of `Get`, `Route`, `Compact`, `Erase`, or it isn't taken"),
)
COMPACTED = Route(
    "PUT",
    "/v1/broker/compacted",
    "operations",
    "How far the lake is",
    reads=JSON,
    differs=AT_ONCE,
    rights=guarded(COMPACT),
)

# Operations
BROKER = Route("GET", "/v1/broker", "operations", "The broker and its positions", differs=AT_ONCE, rights=known())
HEALTH = Route("GET", "/healthz", "operations", "Whether the process is up", differs=AT_ONCE, rights=PUBLIC)
READY = Route(
    "GET", "/readyz", "operations", "Whether the log is recovered and writable", differs=AT_ONCE, rights=PUBLIC
)
METRICS = Route("GET", "/metrics", "operations", "Prometheus metrics", differs=AT_ONCE, rights=cluster(LIST, GET))
DOCS, DOCS_HEAD = (
    Route(method, "/docs", "docs", "This API as a page", differs=AT_ONCE, rights=PUBLIC) for method in ("GET", "HEAD")
)
OPENAPI, OPENAPI_HEAD = (
    Route(method, "/openapi.json", "docs", "All this as OpenAPI", differs=AT_ONCE, rights=PUBLIC)
    for method in ("GET", "HEAD")
)

_HERE = tuple(each for each in list(globals().values()) if isinstance(each, Route))
ALL: tuple[Route, ...] = (
    *_HERE,
    *client_routes.ALL,
    *dead_letter_routes.ALL,
    *find_routes.ALL,
    *log_level_routes.ALL,
    *leader_routes.ALL,
    *schema_routes.ALL,
    *user_routes.ALL,
    *sql_routes.OF_GATEWAYS,
    *waiting_routes.ALL,
)
"""Every route above, in that order, and those that stand in files of their own."""
