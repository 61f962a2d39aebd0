"""Routes that read the log by position: what the Spark source, and later a replica, lives on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute
from fastapi import APIRouter, Query, Response

from lakemq.gateway.answers import ARROW, to_arrow
from lakemq.gateway.broker import Broker
from lakemq.gateway.pull import OFFSET_MAX
from lakemq.model.columns import MESSAGE, SIZE
from lakemq.model.errors import InvalidRequest, PositionGone, StoreUnwritable
from lakemq.storage.commit_log import CommitLog
from lakemq.storage.topics import Queue

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

MIB = 1024 * 1024
Position = Annotated[int, Query(ge=0, le=OFFSET_MAX)]
PATTERN_CHARACTERS_MAX = 1000


def _subscription(broker: Broker, topics: str | None, pattern: str | None) -> set[str] | None:
    """The topics that a reader wants; None for all. Raises `InvalidRequest`."""
    if topics is not None and pattern is not None:
        raise InvalidRequest("at most one of topics and pattern")
    if topics is not None:
        return {topic.strip() for topic in topics.split(",") if topic.strip()}
    if pattern is None:
        return None
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise InvalidRequest(f"pattern has more than {PATTERN_CHARACTERS_MAX} characters")
    return _matching([topic.name for topic in broker.log.topics], pattern)


def _matching(names: list[str], pattern: str) -> set[str]:
    """The names that match as a whole. Arrow's engine takes linear time, whatever the pattern is:
    with Python's own one request could stop the gateway for years."""
    column = pa.array(names, type=pa.string())
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
        matches = pc.match_substring_regex(column, rf"\A(?:{pattern})\z")
    except pa.ArrowException as error:
        raise InvalidRequest(f"pattern is no regular expression: {error}") from None
    return set(column.filter(matches).to_pylist())


def _schema(columns: str | None) -> pa.Schema:
    if columns is None:
        return MESSAGE
    names = [name.strip() for name in columns.split(",")]
    known = {field.name: field for field in [*MESSAGE, SIZE]}
    for name in names:
        if name not in known:
            raise InvalidRequest(f"unknown column {name[:100]!r}; there are {', '.join(known)}")
    return pa.schema([known[name] for name in dict.fromkeys(names)])


async def _durable_position(log: CommitLog) -> int:
    """How far the log is on disk, after a flush of what was written. A reader may keep what it
    reads for good: it must not learn of what a power loss could undo."""
    with suppress(StoreUnwritable):
        await log.flushed()
    return log.flushed_position


def make_router(broker: Broker) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter(prefix="/v1/log", tags=["log"])
    log, reader = broker.log, broker.reader

    def queues_of(wanted: set[str] | None) -> list[Queue]:
        return [queue for queue in log.topics.all_queues() if wanted is None or queue.topic in wanted]

    @router.get("/end", summary="How far a subscription goes")
    async def end(  # pyright: ignore[reportUnusedFunction]
        begin: Annotated[int | None, Query(alias="from", ge=0, le=OFFSET_MAX)] = None,
        messages_max: Annotated[int | None, Query(alias="max", ge=1, le=OFFSET_MAX)] = None,
        topics: str | None = None,
        pattern: str | None = None,
    ) -> dict[str, Any]:
        wanted = _subscription(broker, topics, pattern)
        start = log.min_position if begin is None else begin
        durable = max(start, await _durable_position(log))
        reached = durable if wanted is None else min(durable, reader.end_of(queues_of(wanted), start))
        if messages_max is not None and reached - start > messages_max:
            reached = start + messages_max if wanted is None else reader.limit(
                queues_of(wanted), start, reached, messages_max
            )  # fmt: skip
        return {
            "broker": broker.name,
            "begin_position": log.min_position,
            "end_position": reached,
            "clock_ms": log.now_ms(),
        }

    @router.get("/messages", summary="Messages by position, as an Arrow stream")
    async def messages(  # pyright: ignore[reportUnusedFunction]
        begin: Annotated[int, Query(alias="from", ge=0, le=OFFSET_MAX)],
        to: Position,
        topics: str | None = None,
        pattern: str | None = None,
        columns: str | None = None,
        bytes_max: Annotated[int, Query(ge=1, le=256 * MIB)] = 16 * MIB,
    ) -> Response:
        if begin < log.min_position:
            raise PositionGone(f"the log begins with position {log.min_position}; {begin} is gone")
        wanted = _subscription(broker, topics, pattern)
        schema = _schema(columns)
        plan = reader.plan_positions(begin, min(to, log.next_position), wanted, bytes_max)

        def carry_out() -> tuple[memoryview, int]:
            slices, reached = reader.read_positions_up_to(plan, wanted, bytes_max)
            return to_arrow(slices, broker.name, schema), reached

        body, reached = await asyncio.to_thread(carry_out)
        headers = {"lakemq-next-position": str(max(reached, begin))}
        return Response(body, headers=headers, media_type=ARROW.decode())

    @router.get("/position", summary="The first position stored at or after a time")
    async def position(timestamp_ms: Position) -> dict[str, int]:  # pyright: ignore[reportUnusedFunction]
        return {"position": reader.position_at_time(timestamp_ms)}

    return router
