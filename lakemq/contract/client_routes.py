"""Routes about a group's settings."""

from __future__ import annotations

from lakemq.contract.right import group
from lakemq.contract.route import Reads, Route
from lakemq.model.access import Action

PUT_GROUP = Route(
    "PUT",
    "/v1/groups/{group}",
    "groups",
    "Have a group consume, or not",
    reads=Reads.JSON,
    rights=group(Action.UPDATE),
    audited=True,
)

ALL: tuple[Route, ...] = (PUT_GROUP,)
