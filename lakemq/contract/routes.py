"""All routes of a gateway, each once."""

from __future__ import annotations

from lakemq.contract import client_routes, dead_letter_routes, leader_routes, log_level_routes, sql_routes, user_routes
from lakemq.contract import waiting_routes as waiting
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
_WAIT_MS = Field("wait_ms", "integer", "hold the request so long", 0)
_TIMESTAMP_MS = Field("timestamp_ms", "integer", required=True)
_TOPICS = Field("topics", "string", "comma-separated; all, without")
_PATTERN = Field("pattern", "string", "a regular expression that names of topics match as a whole")

PULL_OFFSET = Field("offset", "integer", "the first offset wanted", required=True, least=0)
PULL_MAX = Field("max", "integer", "at most so many messages", 32, least=1)
PULL_WAIT_MS = Field("wait_ms", "integer", "hold the request so long for a matching message", 0, least=0)
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
        Field("group", "string", "the consumer group that asks", ""),
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
    "Begin transactions: store halves",
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
    rights=known("the transaction's id, which is secret, and its group"),
)
RESOLVE_MANY = Route(
    "POST",
    "/v1/transactions",
    "transactions",
    "Resolve many transactions",
    reads=JSON,
    rights=known("the transactions' ids, which are secret, and their group"),
)
CHECKS = Route(
    "GET",
    "/v1/producer-groups/{group}/checks",
    "transactions",
    "Halves that the broker wants an answer for",
    (Field("client_id", "string", default=""), _WAIT_MS),
    hands_out=True,
    rights=group(PUB, by_handler="`Pub` on the halves' topics, or they are left to others"),
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
    "POST", "/v1/groups/{group}/acks", "receive", "Acknowledge what was received", reads=JSON, rights=group(SUB)
)
INVISIBILITY = Route(
    "POST",
    "/v1/groups/{group}/invisibility",
    "receive",
    "Change how long a message is out",
    reads=JSON,
    rights=group(SUB),
)
NACKS = Route("POST", "/v1/groups/{group}/nacks", "routing", "Consume messages later", reads=JSON, rights=_NACKING)
REDRIVE = Route(
    "POST",
    "/v1/groups/{group}/dead-letters/redrive",
    "routing",
    "Redrive dead letters",
    reads=JSON,
    differs=CONFIRMED,
    rights=group(UPDATE, by_handler="with `where`, `Sub` on it too"),
    audited=True,
)
REDRIVEN = Route(
    "GET",
    "/v1/redrives/{redrive_id}",
    "routing",
    "How a redrive is",
    (Field("offset", "integer", default=0), Field("max", "integer", default=1_000)),
    rights=known("`Get` or `Update` on the group"),
)

# Consumer groups
_SHOWN = "shown of topics on which one has `Sub`, `Get` or `List`"
_READING = "`Sub` or `Get` on the topics"
_SHOWING = group(GET, SUB, by_handler=_SHOWN)
_CONSUMING = group(SUB, by_handler="`Sub` on the topics")
GROUPS = Route("GET", "/v1/groups", "groups", "All groups", rights=every(Kind.GROUP, LIST, by_handler=_SHOWN))
GROUP = Route("GET", "/v1/groups/{group}", "groups", "One group: members, subscriptions, lag by queue", rights=_SHOWING)
DELETE_GROUP = Route(
    "DELETE", "/v1/groups/{group}", "groups", "Delete a group with all that it has", rights=group(DELETE), audited=True
)
HEARTBEAT = Route(
    "POST", "/v1/groups/{group}/members/{client_id}/heartbeat", "groups", "Be a member", reads=JSON, rights=_CONSUMING
)
LEAVE = Route("DELETE", "/v1/groups/{group}/members/{client_id}", "groups", "Be no member any more", rights=group(SUB))
MEMBERS = Route(
    "GET",
    "/v1/groups/{group}/members",
    "groups",
    "The members; held until the generation moves",
    (Field("generation", "integer"), _WAIT_MS),
    rights=_SHOWING,
)
OFFSETS = Route(
    "GET",
    "/v1/groups/{group}/offsets",
    "groups",
    "What a group has consumed",
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
    "Consume a topic again, or from later on",
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
    "All topics",
    (Field("system", "boolean", default=False),),
    rights=every(Kind.TOPIC, LIST, by_handler="of the system's those that one may read"),
)
TOPIC = Route(
    "GET",
    "/v1/topics/{topic}",
    "topics",
    "One topic and its queues' offsets",
    differs=Answered.TOPICS_SHOWN,
    rights=topic(GET, SUB, PUB),
)
PUT_TOPIC = Route(
    "PUT",
    "/v1/topics/{topic}",
    "topics",
    "Make or change a topic",
    (Field("auto", "boolean", "make it as its first message would, if that may, or leave it as it is", False),),
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
    (Field("topic", "string", required=True), Field("group", "string", "the one group that gets them")),
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
    "Give up parts that are not committed",
    reads=JSON,
    rights=sink(PUB),
)

# The log
PART_FROM = Field("from", "integer", "the first byte wanted", 0, least=0)
PART_BYTES_MAX = Field("bytes_max", "integer", "at most so many bytes", 4 * 1024 * 1024, least=1)
PART_REPLICA = Field("replica", "integer", "which replica asks", least=0)
LOG_PART = Route(
    "GET",
    "/v1/log/parts/{token}",
    "log",
    "The file of a sink's part that is being committed, for the broker's followers",
    (PART_FROM, PART_BYTES_MAX, PART_REPLICA),
    differs=AT_ONCE,
    rights=guarded(GET),
)
LOG_END = Route(
    "GET",
    "/v1/log/end",
    "log",
    "How far a subscription goes",
    (
        Field("from", "integer"),
        Field("max", "integer"),
        _TOPICS,
        _PATTERN,
        _WAIT_MS,
        Field("timer", "string", choices=("delay", "transaction", "receive", "any")),
    ),
    differs=AT_ONCE,
    rights=known("`Sub` or `Get` on the topics that are named; of a pattern's it is about those alone"),
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
    rights=known("`Sub` on the topics that are named; on all, `Get` on the cluster"),
)
FRAMES_FROM = Field("from", "integer", "the position that the first frame holds", required=True, least=0)
FRAMES_TO = Field("to", "integer", "no frame begins there or beyond", OFFSET_MAX, least=0)
FRAMES_WAIT_MS = Field("wait_ms", "integer", "hold the request so long for a frame", 0, least=0)
FRAMES_BYTES_MAX = Field("bytes_max", "integer", "so much, or one frame", 16 * 1024 * 1024, least=1)
FRAMES_STATE = Field(
    "state", "string", "`yes`: at a segment's first position its state comes, also when nothing follows it yet", "no",
    choices=("no", "yes"),
)  # fmt: skip
REPLICA_MAX = 255
FRAMES_REPLICA = Field("replica", "integer", "of a follower: which one it is; it says all four", least=0)
FRAMES_INCARNATION = Field("incarnation", "string", "in which stretch of its life")
FRAMES_DURABLE = Field("durable", "integer", "how far it has the log on its disk", least=0)
FRAMES_EPOCH = Field("epoch", "integer", "in that epoch", least=0)
FRAMES_ERASED = Field("erased", "integer", "so many of the log's erasures it has carried out", 0, least=0)
FRAMES_FOLLOWER = (FRAMES_REPLICA, FRAMES_INCARNATION, FRAMES_DURABLE, FRAMES_EPOCH)
FRAMES_SEEN = Field("seen_epoch", "integer", "it goes by nobody who leads in an epoch before", 0, least=0)
FRAMES_SAID = (FRAMES_ERASED, FRAMES_SEEN)
LOG_FRAMES = Route(
    "GET",
    "/v1/log/frames",
    "log",
    "Frames as they are",
    (FRAMES_FROM, FRAMES_TO, _TOPICS, FRAMES_WAIT_MS, FRAMES_BYTES_MAX, FRAMES_STATE, *FRAMES_FOLLOWER, *FRAMES_SAID),
    differs=AT_ONCE,
    rights=guarded(GET),
)
LOG_POSITION = Route(
    "GET", "/v1/log/position", "log", "The first position stored at or after a time", (_TIMESTAMP_MS,), rights=known()
)
ERASE = Route(
    "POST",
    "/v1/log/erasures",
    "log",
    "Erase messages: done when they are in no file of the log",
    reads=JSON,
    rights=guarded(Action.ERASE),
    audited=True,
)

# Jobs
ROUTING = Route(
    "GET", "/v1/routing", "routing", "What waits, and the settings of the routing queries", rights=cluster(GET, ROUTE)
)
PENDING = Route(
    "GET",
    "/v1/routing/pending",
    "routing",
    "What waits, as rows of the system topics with control columns alone, as an Arrow stream",
    (
        Field("kind", "string", required=True, choices=("delay", "transaction", "nack", "receipt")),
        Field("due_from_ms", "integer", "due from then on; 0: also what waits for nothing", 0),
        Field("due_to_ms", "integer", "due before then", NUMBER_MAX),
        Field("after", "integer", "`Lakemq-Next-Cause` of the page before", -1),
        Field("max", "integer", "at most so many", 10_000),
    ),
    differs=CONFIRMED,
    rights=guarded(ROUTE),
)
DECIDE = Route(
    "POST",
    "/v1/log/decisions",
    "routing",
    "Decisions of the routing queries",
    reads=JSON,
    differs=CONFIRMED,
    rights=guarded(ROUTE),
)
HEAR_JOBS = Route(
    "PUT", "/v1/jobs", "operations", "Heartbeats of jobs", reads=JSON, differs=AT_ONCE, rights=guarded(ROUTE, COMPACT)
)
COMPACTED = Route(
    "PUT",
    "/v1/broker/compacted",
    "operations",
    "Tell how far the lake holds everything",
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
    Route(method, "/docs", "docs", "A page that shows all this", differs=AT_ONCE, rights=PUBLIC)
    for method in ("GET", "HEAD")
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
    *log_level_routes.ALL,
    *leader_routes.ALL,
    *user_routes.ALL,
    *sql_routes.OF_GATEWAYS,
    *waiting.ALL,
)
"""Every route above, in that order, and those that stand in files of their own."""
