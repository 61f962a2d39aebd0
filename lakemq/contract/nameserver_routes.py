"""All routes of a name server, each once. Where it has tokens, those that aren't public take one."""

from __future__ import annotations

from lakemq.contract.right import PUBLIC, known
from lakemq.contract.route import Field, Reads, Route

_OF_BROKER = known("with `nameserver.token_file`, one of its tokens that is for `{broker}`")
_OF_ALL = known("with `nameserver.token_file`, one of its tokens that is for all brokers")

ROUTES_WAIT_MS = Field("wait_ms", "integer", "with `version`: how long to wait while it is current", 0, least=0)

HEAR = Route(
    "PUT",
    "/v1/brokers/{broker}/replicas/{replica}",
    "fleet",
    "Register a replica, or renew its registration",
    reads=Reads.JSON,
    rights=_OF_BROKER,
)
LEAVE = Route(
    "DELETE", "/v1/brokers/{broker}/replicas/{replica}", "fleet", "Remove a replica's registration", rights=_OF_BROKER
)
ROUTES = Route(
    "GET",
    "/v1/routes",
    "fleet",
    "Where topics are; waits while nothing has changed",
    (
        Field("topic", "string", "only this topic, and its brokers; default: all"),
        Field("version", "string", "the version that the client has"),
        ROUTES_WAIT_MS,
    ),
    rights=PUBLIC,
)
CLUSTER = Route(
    "GET", "/v1/cluster", "fleet", "All registered brokers, and when each last sent a heartbeat", rights=PUBLIC
)
LOG_LEVELS = Route("GET", "/v1/log-levels", "operations", "The log level of each logger", rights=_OF_ALL)
PUT_LOG_LEVELS = Route(
    "PUT",
    "/v1/log-levels",
    "operations",
    "Change log levels for a while",
    reads=Reads.JSON,
    rights=_OF_ALL,
)
HEALTH = Route("GET", "/healthz", "operations", "Whether the process is up", rights=PUBLIC)
READY = Route("GET", "/readyz", "operations", "Whether it accepts requests: not while it stops", rights=PUBLIC)
METRICS = Route("GET", "/metrics", "operations", "Prometheus metrics", rights=PUBLIC)

ALL: tuple[Route, ...] = tuple(each for each in list(globals().values()) if isinstance(each, Route))
"""Every route above, in that order."""
