"""Routes by which an operator says who leads a broker, and who belongs to it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Protocol

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from lakemq.contract import leader_routes as routes
from lakemq.contract.routes import REPLICA_MAX
from lakemq.gateway.http.by_fastapi import serves


class Named(BaseModel):
    """Which replica."""

    model_config = ConfigDict(extra="forbid", strict=True)
    replica: Annotated[int, Field(ge=0, le=REPLICA_MAX)]


class Unclean(BaseModel):
    """That what this replica lacks may be lost."""

    model_config = ConfigDict(extra="forbid", strict=True)
    unclean: Literal[True]


class Lead(Protocol):
    """Who leads one broker, as who operates it changes it."""

    async def switch(self, replica: int) -> dict[str, Any]:
        """Have that replica lead; returns once it does by the record. Raises `NotInSync`, and what else is in the
        way: then this one leads on."""
        ...

    async def elect(self) -> dict[str, Any]:
        """Have this replica lead, with what it has. Raises `LeaderLives`, and `StoreUnwritable` where it can't
        write down that it does."""
        ...

    async def remove(self, replica: int) -> dict[str, Any]:
        """Have that replica be no part of the broker until it comes again; returns once the record has that. Raises
        `NotConfirmed` where it doesn't in time, and what else is in the way."""
        ...


def make_router(lead: Lead) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter()

    @serves(router, routes.SWITCH)
    async def switch(body: Named) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return await lead.switch(body.replica)

    @serves(router, routes.ELECT)
    async def elect(_: Unclean) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return await lead.elect()

    @serves(router, routes.REMOVE)
    async def remove(body: Named) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return await lead.remove(body.replica)

    return router
