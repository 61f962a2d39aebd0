"""The first page: how all brokers are."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from lakemq.console.asked import Who
from lakemq.console.looks import Look
from lakemq.console.overview import overview_of
from lakemq.console.visit import Visit
from lakemq.contract import routes
from lakemq.model.access import Action, Kind, Resource
from lakemq.model.errors import LakemqError

TOPICS_FEW = 30
"""Where a broker has more topics than that, the system's among them, it isn't asked whether it has any."""


async def show(visit: Visit) -> Response:
    """The page."""
    if visit.session is not None or visit.services.anonymous is not None:
        await _known(visit)
    return visit.page("overview.html", **await values_of(visit))


async def _known(visit: Visit) -> Who | None:
    """The user of this session; None if the broker doesn't answer. Raises `Unauthenticated`."""
    try:
        return await visit.who()
    except LakemqError as error:
        if error.code == "unauthenticated":
            raise
        return None


async def values_of(visit: Visit) -> dict[str, Any]:
    """What the page says, as it is now."""
    pairs = await visit.watches.pairs()
    here = next((each.now for each in pairs if each.now.address == visit.broker.address), None)
    return {
        "overview": overview_of(pairs),
        "empty": here is not None and await _is_empty(visit, here),
        "address": visit.broker.address,
    }


async def _is_empty(visit: Visit, look: Look) -> bool:
    """Whether nobody has sent anything yet."""
    if look.problem or not look.leads or (look.one("lakemq_topics") or 0) > TOPICS_FEW:
        return False
    try:
        if not (await visit.who()).might(Action.LIST, Resource(Kind.TOPIC)):
            return False
        return not (await visit.broker.get(routes.TOPICS.at()))["topics"]
    except LakemqError:
        return False


ROUTES = (("GET", "/", show),)
