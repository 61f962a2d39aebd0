"""What a user who may not list all topics, or all groups, has instead of the list: a field for a name, and the names
that its policies spell out."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from lakemq.console.asked import Who
from lakemq.console.rendering import segment
from lakemq.console.visit import Visit
from lakemq.contract.route import Target
from lakemq.model.access import Action, Kind, Resource
from lakemq.model.errors import LakemqError

_SEES = {Kind.TOPIC: (Action.GET, Action.SUB, Action.PUB), Kind.GROUP: (Action.GET, Action.SUB)}
"""One of these shows the page of a topic, or of a group."""


async def listed(
    visit: Visit, who: Who, kind: Kind, target: Target, params: dict[str, str | int]
) -> dict[str, Any] | None:
    """The broker's list; None: this user may not have it."""
    if not who.might(Action.LIST, Resource(kind)):
        return None
    try:
        return await visit.broker.get(target, params, timeout_s=30.0)
    except LakemqError as error:
        if error.code != "forbidden" or who.user is None:
            raise
        return None


def page_of_names(visit: Visit, who: Who, kind: Kind, may_create: bool = False) -> Response:
    """The page that has no list."""
    names, beginnings = who.named(_SEES[kind], kind)
    return visit.page("named.html", kind=kind.lower(), names=names, beginnings=beginnings, may_create=may_create)


def by_name(visit: Visit, path: str) -> Response | None:
    """To the page of the name in the field; None: there is none."""
    name = visit.field("name")
    return visit.go(f"{path}/{segment(name)}") if name else None
