"""Erasing messages from the log."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from lakemq.contract import routes
from lakemq.contract.limits import OFFSET_MAX
from lakemq.gateway.cold import ColdReader
from lakemq.gateway.fleet.replication import Replication
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.routing.transactions import Transactions
from lakemq.gateway.upkeep.erasures import Erasures
from lakemq.model.errors import InvalidRequest, NotLeader
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.topic_changes import TopicChanges
from lakemq.storage.state.erasure_record import Range, to_bitmap

AT_ONCE_MAX = 200_000
Position = Annotated[int, Field(ge=0, le=OFFSET_MAX)]


class ErasureBody(BaseModel):
    """What is to be erased: positions, and ranges `[begin, end]` of them, without the end."""

    model_config = ConfigDict(extra="forbid", strict=True)
    positions: list[Position] = Field(default_factory=list[int], max_length=AT_ONCE_MAX)
    ranges: list[Annotated[list[Position], Field(min_length=2, max_length=2)]] = Field(
        default_factory=list[list[int]], max_length=AT_ONCE_MAX
    )


def make_router(
    erasures: Erasures,
    log: CommitLog,
    topics: TopicChanges,
    transactions: Transactions,
    replication: Replication | None,
    cold: ColdReader,
) -> APIRouter:
    """The route of one broker; a follower's, which has no `replication`, is refused before."""
    router = APIRouter()

    @serves(router, routes.ERASE)
    async def erase(body: ErasureBody) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        last = max([*body.positions, *(end - 1 for _, end in body.ranges)], default=0)
        if last > 0 and last >= log.next_position:
            raise InvalidRequest(f"the log ends with position {log.visible_position}: {last} is not there")
        if replication is None:
            raise NotLeader("a follower erases what its primary does")
        ranges: list[Range] = [(each, each + 1) for each in body.positions]
        ranges += [(begin, end) for begin, end in body.ranges if begin < end]
        try:
            # A transaction whose half is erased is over: its message is in no topic, and never will be.
            # What has left the log is not looked at, but counted: a range costs little for each 65,536.
            halves = [*(log.routing.halves & await asyncio.to_thread(to_bitmap, ranges))]
            if halves:
                await transactions.drop(halves)
            done = await erasures.erase(ranges, topics.system, replication.erased_by.until)
        finally:
            cold.forget()  # who erases from the log has done so in the lake, or will
        return done._asdict()

    return router
