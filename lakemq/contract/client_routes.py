"""Routes about a group's settings, and about who is connected."""

from __future__ import annotations

from lakemq.contract.right import cluster, group, known
from lakemq.contract.route import Answered, Reads, Route
from lakemq.model.access import Action

PUT_GROUP = Route(
    "PUT",
    "/v1/groups/{group}",
    "groups",
    "Pause or resume a group",
    reads=Reads.JSON,
    rights=group(Action.UPDATE),
    audited=True,
)
CLIENTS = Route(
    "GET",
    "/v1/clients",
    "clients",
    "All clients: members of groups, receivers and producers",
    rights=cluster(Action.LIST, Action.GET),
)
GROUP_CLIENTS = Route(
    "GET",
    "/v1/groups/{group}/clients",
    "clients",
    "The members of a consumer group, their state, and its receivers",
    rights=group(Action.GET, Action.SUB),
)
PUT_MEMBER = Route(
    "PUT",
    "/v1/groups/{group}/clients/{client_id}",
    "clients",
    "Pause or resume one member of a group",
    reads=Reads.JSON,
    rights=group(Action.UPDATE),
    audited=True,
)
PRODUCER_CLIENTS = Route(
    "GET",
    "/v1/producer-groups/{group}/clients",
    "clients",
    "The producers of a producer group",
    differs=Answered.AT_ONCE,
    rights=group(Action.GET, Action.PUB),
)
PUT_CLIENT = Route(
    "PUT",
    "/v1/clients/{client_id}",
    "clients",
    "A producer's heartbeat",
    reads=Reads.JSON,
    differs=Answered.AT_ONCE,
    rights=known("`Pub` on the producer group, if it names one; topics without `Pub` are left out"),
)
DELETE_CLIENT = Route(
    "DELETE",
    "/v1/clients/{client_id}",
    "clients",
    "A producer ends",
    differs=Answered.AT_ONCE,
    rights=known("the caller's own clients only"),
)

ALL: tuple[Route, ...] = (PUT_GROUP, CLIENTS, GROUP_CLIENTS, PUT_MEMBER, PRODUCER_CLIENTS, PUT_CLIENT, DELETE_CLIENT)
