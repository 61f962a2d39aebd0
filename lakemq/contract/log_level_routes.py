"""Routes by which an operator sees and changes what a broker's process writes to its log."""

from __future__ import annotations

from lakemq.contract.right import guarded
from lakemq.contract.route import Answered, Reads, Route
from lakemq.model.access import Action

LEVELS = Route(
    "GET",
    "/v1/broker/log-levels",
    "operations",
    "The log level of each logger",
    differs=Answered.AT_ONCE,
    rights=guarded(Action.GET, Action.UPDATE),
)
PUT_LEVELS = Route(
    "PUT",
    "/v1/broker/log-levels",
    "operations",
    "Change log levels for a while",
    reads=Reads.JSON,
    of_replica=True,
    differs=Answered.AT_ONCE,
    rights=guarded(Action.UPDATE),
    audited=True,
    urgent=True,
)

ALL: tuple[Route, ...] = (LEVELS, PUT_LEVELS)
