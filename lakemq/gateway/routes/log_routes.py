"""Routes that read the log by position: what the Spark source, and later a replica, lives on."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import pyarrow as pa
from fastapi import APIRouter, Query, Request, Response

from lakemq.contract import routes
from lakemq.contract.limits import OFFSET_MAX
from lakemq.gateway.access.caller import caller_of
from lakemq.gateway.http.accept import ARROW
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.routes.log_end import LogEnd, seconds_until
from lakemq.gateway.routes.subscription import readable
from lakemq.gateway.work.workshop import Workshop
from lakemq.model.access import Action, Kind, Need, Resource
from lakemq.model.columns import MESSAGE, READABLE
from lakemq.model.errors import InvalidRequest, PositionGone
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.store import Store
from lakemq.storage.slices.deleted import without_deleted
from lakemq.storage.slices.holes import Range, positions_without, to_header
from lakemq.storage.slices.messages import to_arrow
from lakemq.web.asgi import client_of
from lakemq.web.gate import Gate

MIB = 1024 * 1024
Position = Annotated[int, Query(ge=0, le=OFFSET_MAX)]
_OF_TIMERS = Need((Action.LIST, Action.GET, Action.ROUTE), Resource(Kind.CLUSTER))
WAIT_MS_MAX = 600_000
"""The longest that `gateway.wait_ms_max` may be."""


def _schema(columns: str | None) -> pa.Schema:
    if columns is None:
        return MESSAGE
    names = [name.strip() for name in columns.split(",")]
    for name in names:
        if name not in READABLE:
            raise InvalidRequest(f"unknown column {name[:100]!r}; there are {', '.join(READABLE)}")
    return pa.schema([READABLE[name] for name in dict.fromkeys(names)])


def make_router(store: Store, ends: LogEnd, answering: Workshop, matching: Gate, wait_ms_max: int) -> APIRouter:
    """The routes of what is stored. `matching`: for patterns; `wait_ms_max`: the longest that one of them waits."""
    router = APIRouter()
    log, reader, ids = store.log, store.reader, store.ids

    _add_end(router, log, ends, answering, matching, wait_ms_max)

    @serves(router, routes.LOG_MESSAGES)
    async def messages(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        begin: Annotated[int, Query(alias="from", ge=0, le=OFFSET_MAX)],
        to: Position,
        topics: str | None = None,
        pattern: str | None = None,
        columns: str | None = None,
        bytes_max: Annotated[int, Query(ge=1, le=32 * MIB)] = 16 * MIB,
    ) -> Response:
        if begin < log.min_position:
            raise PositionGone(f"the log begins with position {log.min_position}; {begin} is gone")
        wanted = await readable(log, matching, request.scope, (Action.SUB,), topics, pattern)
        if wanted is None:
            caller_of(request.scope).check(Need((Action.GET,), Resource(Kind.CLUSTER), guarded=True))
        schema = _schema(columns)
        run = answering.run_for(client_of(request.scope))
        plan = await ends.plans.positions(begin, await ends.up_to(to), wanted, bytes_max, run)

        def carry_out() -> tuple[memoryview, int, list[Range]]:
            slices, reached = reader.read_positions_up_to(plan, wanted, bytes_max)
            holes = positions_without(slices, begin, reached) if wanted is None else []
            if wanted is not None:  # who reads all of the log, as the lake does, gets what was deleted too
                slices = without_deleted(slices, log.topics.floor)
            return to_arrow(slices, ids, schema), reached, holes

        body, reached, holes = await run(carry_out)
        headers = {
            "lakemq-next-position": str(max(reached, begin)),
            "lakemq-log-id": log.identity.log_id,
            "lakemq-epoch": str(log.identity.now.epoch),
        }
        if holes:
            headers["lakemq-holes"] = to_header(holes).decode()
        return Response(body, headers=headers, media_type=ARROW.decode())

    @serves(router, routes.LOG_POSITION)
    async def position(request: Request, timestamp_ms: Position) -> dict[str, int]:  # pyright: ignore[reportUnusedFunction]
        run = answering.run_for(client_of(request.scope))
        found = await ends.plans.position_at_time(timestamp_ms, run)
        return {"position": min(found, log.visible_position)}

    return router


def _add_end(
    router: APIRouter, log: CommitLog, ends: LogEnd, answering: Workshop, matching: Gate, wait_ms_max: int
) -> None:
    @serves(router, routes.LOG_END)
    async def end(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        begin: Annotated[int | None, Query(alias="from", ge=0, le=OFFSET_MAX)] = None,
        messages_max: Annotated[int | None, Query(alias="max", ge=1, le=OFFSET_MAX)] = None,
        topics: str | None = None,
        pattern: str | None = None,
        wait_ms: Annotated[int, Query(ge=0, le=WAIT_MS_MAX)] = 0,
        timer: Literal["delay", "transaction", "receive", "any"] | None = None,
    ) -> dict[str, Any]:
        if timer is not None:  # which goes by messages of all topics
            caller_of(request.scope).check(_OF_TIMERS)
        run = answering.run_for(client_of(request.scope))
        # Jobs know nothing of the broker's settings, and ask again: so they wait as long as it lets them.
        deadline = asyncio.get_running_loop().time() + min(wait_ms, wait_ms_max) / 1000
        while True:
            # Each time: of topics that have come to be meanwhile too.
            wanted = await readable(log, matching, request.scope, (Action.SUB, Action.GET), topics, pattern)
            start = log.min_position if begin is None else begin
            reached = await ends.reached(start, wanted, messages_max, run)
            timer_ms = None if timer is None else ends.timer_ms(timer)
            if reached > start or not await ends.wait(wanted, timer_ms, seconds_until(deadline)):
                return ends.describe(reached, timer_ms)
