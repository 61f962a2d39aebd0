"""Routes by which an operator says who leads a broker, and who belongs to it."""

from __future__ import annotations

from lakemq.contract.right import guarded
from lakemq.contract.route import Answered, Reads, Route
from lakemq.model.access import Action

SWITCH = Route(
    "POST",
    "/v1/broker/switch",
    "operations",
    "Hand over the lead to another replica, without loss",
    reads=Reads.JSON,
    differs=Answered.AT_ONCE,
    rights=guarded(Action.UPDATE),
    audited=True,
    urgent=True,
)
ELECT = Route(
    "POST",
    "/v1/broker/elect",
    "operations",
    "Make this replica the leader; what it lacks is lost",
    reads=Reads.JSON,
    of_replica=True,
    differs=Answered.AT_ONCE,
    rights=guarded(Action.UPDATE),
    audited=True,
    urgent=True,
)
REMOVE = Route(
    "POST",
    "/v1/broker/remove",
    "operations",
    "Forget a replica that is gone for good",
    reads=Reads.JSON,
    differs=Answered.AT_ONCE,
    rights=guarded(Action.UPDATE),
    audited=True,
    urgent=True,
)

ALL: tuple[Route, ...] = (SWITCH, ELECT, REMOVE)
