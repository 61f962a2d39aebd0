"""Routes of delays, of retries, and of the queries that decide them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from lakemq.contract import routes
from lakemq.contract.limits import NUMBER_MAX
from lakemq.gateway.access.caller import caller_of
from lakemq.gateway.http.accept import ARROW
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.http.in_slices import respond
from lakemq.gateway.http.long_body import LongBodyRoute
from lakemq.gateway.routes.topics_of_group import sees_waiting
from lakemq.gateway.routing.decisions import Posted
from lakemq.gateway.routing.nacks import Nack
from lakemq.gateway.routing.pending import Due
from lakemq.gateway.routing.router import Router
from lakemq.gateway.work.workshop import Workshop
from lakemq.model.access import Action, need_of_topic
from lakemq.model.decide import Kind
from lakemq.model.errors import InvalidRequest, MessageNotFound
from lakemq.model.failure import GIVEN_MAX, failure
from lakemq.model.names import check_group
from lakemq.storage.log.commit_log import CommitLog
from lakemq.web.asgi import client_of

BATCH_MAX = 50_000
NACKS_MAX = 10_000
PENDING_MAX = 10_000
CLEANED_MAX = 10
"""So many reasons are bounded and escaped on the event loop: each takes 8 µs, and one made for it 0.8 ms."""
Strict = ConfigDict(extra="forbid", strict=True)


class ReasonBody(BaseModel):
    """Why a message could not be processed: an error's class and its text."""

    model_config = Strict
    name: str | None = Field(None, alias="class", max_length=GIVEN_MAX)
    text: str | None = Field(None, max_length=GIVEN_MAX)


class NackBody(BaseModel):
    """One message to be consumed later, named by its id or, while it is out, by its receipt."""

    model_config = Strict
    message_id: str | None = Field(None, max_length=200)
    receipt: str | None = Field(None, max_length=200)
    delay_level: int = Field(0, ge=-(2**31), le=2**31)
    max_reconsume_times: int | None = Field(None, ge=0, le=10_000)
    reason: ReasonBody | Annotated[str, Field(max_length=GIVEN_MAX)] | None = None

    @model_validator(mode="after")
    def names_one(self) -> Self:
        """Raises `ValueError` unless just one of the two names the message."""
        if (self.message_id is None) == (self.receipt is None):
            raise ValueError("a message is named by message_id or by receipt")
        return self

    def name(self) -> dict[str, str | None]:
        """What names the message."""
        return {"receipt": self.receipt} if self.message_id is None else {"message_id": self.message_id}

    def nack(self) -> Nack:
        """What is asked for."""
        reason = self.reason
        why = failure(None, reason) if isinstance(reason, str) else reason and failure(reason.name, reason.text)
        return Nack(self.message_id, self.delay_level, self.max_reconsume_times, self.receipt, why)


class NacksBody(BaseModel):
    """Messages that a client of a group could not process."""

    model_config = Strict
    client_id: str | None = Field(None, max_length=256)
    messages: list[NackBody] = Field(min_length=1, max_length=NACKS_MAX)

    async def nacks(self) -> list[Nack]:
        """What is asked for."""
        if sum(each.reason is not None for each in self.messages) <= CLEANED_MAX:
            return [each.nack() for each in self.messages]
        return await asyncio.to_thread(lambda: [each.nack() for each in self.messages])


class DecisionsBody(BaseModel):
    """Decisions of the routing queries, as columns, and of which log and epoch they were made."""

    model_config = Strict
    log_id: str = Field(max_length=36)
    epoch: int = Field(ge=0, le=NUMBER_MAX)
    cause: list[Annotated[int, Field(ge=0, le=NUMBER_MAX)]] = Field(max_length=BATCH_MAX)
    action: list[str]
    due_ms: list[Annotated[int, Field(ge=0, le=NUMBER_MAX)] | None]


def make_router(routing: Router, log: CommitLog, answering: Workshop) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter(route_class=LongBodyRoute)

    _add_recall(router, routing, log)

    @serves(router, routes.NACKS)
    async def nack(request: Request, group: str, body: NacksBody) -> Response:  # pyright: ignore[reportUnusedFunction]
        def check(topic: str) -> None:
            caller_of(request.scope).check(need_of_topic((Action.SUB,), topic), "the messages' topics")

        nacks = await body.nacks()
        statuses = await routing.nacks.nack(check_group(group), nacks, check)
        named = zip(body.messages, statuses, strict=True)
        return await respond({"messages": (each.name() | {"status": status} for each, status in named)})

    @serves(router, routes.ROUTING)
    async def describe() -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return routing.describe()

    @serves(router, routes.PENDING)
    async def pending(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        kind: Literal["delay", "transaction", "nack", "receipt"],
        due_from_ms: Annotated[int, Query(ge=0, le=NUMBER_MAX)] = 0,
        due_to_ms: Annotated[int, Query(ge=0, le=NUMBER_MAX)] = NUMBER_MAX,
        after: Annotated[int, Query(ge=-1, le=NUMBER_MAX)] = -1,
        count_max: Annotated[int, Query(alias="max", ge=1, le=PENDING_MAX)] = PENDING_MAX,
    ) -> Response:
        run = answering.run_for(client_of(request.scope))
        body, following = await routing.pending.page(Kind(kind), Due(due_from_ms, due_to_ms), after, count_max, run)
        headers = {"lakemq-log-id": log.identity.log_id, "lakemq-epoch": str(log.identity.now.epoch)}
        if following is not None:
            headers["lakemq-next-cause"] = str(following)
        return Response(body, headers=headers, media_type=ARROW.decode())

    @serves(router, routes.DECIDE)
    async def decide(body: DecisionsBody) -> dict[str, int]:  # pyright: ignore[reportUnusedFunction]
        count = len(body.cause)
        if not len(body.action) == len(body.due_ms) == count:
            raise InvalidRequest("cause, action and due_ms are columns of one length")
        routing.decisions.check_log(body.log_id, body.epoch)
        posted = [Posted(*each) for each in zip(body.cause, body.action, body.due_ms, strict=True)]
        accepted = await routing.decisions.take(posted)
        return {"accepted": accepted, "ignored": count - accepted}

    return router


def _add_recall(router: APIRouter, routing: Router, log: CommitLog) -> None:
    @serves(router, routes.RECALL)
    async def recall(request: Request, message_id: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        def check(topic: str, position: int) -> None:
            caller = caller_of(request.scope)
            caller.check(need_of_topic((Action.PUB,), topic), "the message's topic")
            if not sees_waiting(caller, log.topics, topic, position):
                raise MessageNotFound(f"the log holds no message {message_id!r}")

        await routing.recalls.recall(message_id, check)
        return {"message_id": message_id, "recalled": True}
