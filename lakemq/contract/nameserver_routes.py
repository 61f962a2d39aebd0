"""All routes of a name server, each once."""

from __future__ import annotations

from lakemq.contract.route import Field, Reads, Route

ROUTES_WAIT_MS = Field(
    "wait_ms", "integer", "with `version`: hold the request so long while that is current", 0, least=0
)

HEAR = Route(
    "PUT", "/v1/brokers/{broker}/replicas/{replica}", "fleet", "Register a replica, or go on", reads=Reads.JSON
)
LEAVE = Route("DELETE", "/v1/brokers/{broker}/replicas/{replica}", "fleet", "Say goodbye")
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
)
CLUSTER = Route("GET", "/v1/cluster", "fleet", "All that brokers have said, and when")
HEALTH = Route("GET", "/healthz", "operations", "Whether the process is up")
METRICS = Route("GET", "/metrics", "operations", "Prometheus metrics")

ALL: tuple[Route, ...] = tuple(each for each in list(globals().values()) if isinstance(each, Route))
"""Every route above, in that order."""
