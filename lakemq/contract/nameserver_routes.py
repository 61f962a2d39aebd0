"""All routes of a name server, each once. Where it has tokens, those that aren't public take one."""

from __future__ import annotations

from lakemq.contract.right import PUBLIC, known
from lakemq.contract.route import Field, Reads, Route

ROUTES_WAIT_MS = Field(
    "wait_ms", "integer", "with `version`: hold the request so long while that is current", 0, least=0
)

HEAR = Route(
    "PUT",
    "/v1/brokers/{broker}/replicas/{replica}",
    "fleet",
    "Register a replica, or go on",
    reads=Reads.JSON,
    rights=known(),
)
LEAVE = Route("DELETE", "/v1/brokers/{broker}/replicas/{replica}", "fleet", "Say goodbye", rights=known())
ROUTES = Route(
    "GET",
    "/v1/routes",
    "fleet",
    "Where topics are; held while nothing is new",
    (
        Field("topic", "string", "only this one, and the brokers that have it; all, without"),
        Field("version", "string", "what the client has"),
        ROUTES_WAIT_MS,
    ),
    rights=PUBLIC,
)
CLUSTER = Route("GET", "/v1/cluster", "fleet", "All that brokers have said, and when", rights=PUBLIC)
LOG_LEVELS = Route(
    "GET", "/v1/log-levels", "operations", "What this process writes to its log, by logger", rights=known()
)
PUT_LOG_LEVELS = Route(
    "PUT",
    "/v1/log-levels",
    "operations",
    "Have this process write more to its log, or less, for a while",
    reads=Reads.JSON,
    rights=known(),
)
HEALTH = Route("GET", "/healthz", "operations", "Whether the process is up", rights=PUBLIC)
READY = Route("GET", "/readyz", "operations", "Whether it is to be asked: not while it stops", rights=PUBLIC)
METRICS = Route("GET", "/metrics", "operations", "Prometheus metrics", rights=PUBLIC)

ALL: tuple[Route, ...] = tuple(each for each in list(globals().values()) if isinstance(each, Route))
"""Every route above, in that order."""
