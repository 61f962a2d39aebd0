"""`GET /v1/log/frames`: the log as it is, for who follows it. docs/log_format.md has the protocol.

No frame is opened here: what is sent are bytes of the log's files, read in a thread that has let go of the
interpreter's lock meanwhile. The contents are the follower's matter, and so is whether they are sound.
"""

from __future__ import annotations

import asyncio

from lakemq.contract.forms import FRAMES
from lakemq.contract.limits import OFFSET_MAX
from lakemq.contract.routes import FRAMES_BYTES_MAX, FRAMES_FROM, FRAMES_TO, FRAMES_WAIT_MS
from lakemq.gateway.routes.log_end import LogEnd, seconds_until
from lakemq.gateway.routes.subscription import topics_of
from lakemq.gateway.work.work import Work
from lakemq.model.errors import Busy, PositionGone
from lakemq.storage.read.raw_frames import plan_frames, read_raw, size_of, with_state_alone
from lakemq.storage.read.reader import PositionPlan
from lakemq.storage.read.store import Store
from lakemq.web.asgi import Send, client_of, parse_int
from lakemq.web.problems import Headers
from lakemq.web.request import HttpRequest

BYTES_MAX = 32 * 1024 * 1024
_ROUNDS_MAX = 8
"""So often is a read begun anew, as segments have left or were written anew meanwhile."""


class LogFrames:
    """Serves frames of one log, up to what is on disk."""

    def __init__(self, store: Store, ends: LogEnd, work: Work) -> None:
        self._log = store.log
        self._reader = store.reader
        self._ends = ends
        self._work = work

    async def serve(self, request: HttpRequest) -> None:
        """Answer one request; raises `LakemqError`."""
        query = request.query
        begin = parse_int(query, FRAMES_FROM, OFFSET_MAX)
        to = parse_int(query, FRAMES_TO, OFFSET_MAX)
        wait_ms = parse_int(query, FRAMES_WAIT_MS, self._work.limits.wait_ms_max)
        bytes_max = parse_int(query, FRAMES_BYTES_MAX, BYTES_MAX)
        topics = topics_of(query.get("topics"))
        confirmed = await self._confirmed(begin, topics, wait_ms)
        client = client_of(request.scope)
        for _ in range(_ROUNDS_MAX):
            if begin < self._log.min_position:
                raise PositionGone(f"the log begins with position {self._log.min_position}; {begin} is gone")
            plan = plan_frames(self._reader, begin, min(confirmed, to), topics, bytes_max)
            if query.get("state") == "yes":
                plan = with_state_alone(self._reader, plan, self._log.active)
            size = size_of(plan)
            with self._work.answering.holding(size, client):
                try:
                    pieces = await self._work.answering.run_for(client)(read_raw, self._reader, plan)
                except PositionGone:
                    continue
                await _send(request.send, self._headers(plan, confirmed, size), pieces)
                return
        raise Busy("the log's segments change faster than they can be read")

    async def _confirmed(self, begin: int, topics: set[str] | None, wait_ms: int) -> int:
        """How far the log is on disk, once it holds a frame that is wanted, or the time is over."""
        deadline = asyncio.get_running_loop().time() + wait_ms / 1000
        while await self._ends.reached(begin, topics, None) <= begin:
            if not await self._ends.wait(topics, None, seconds_until(deadline)):
                break
        return await self._ends.durable_position()

    def _headers(self, plan: PositionPlan, confirmed: int, size: int) -> Headers:
        now = self._log.identity.now
        return [
            (b"content-type", FRAMES.encode()),
            (b"content-length", b"%d" % size),
            (b"lakemq-log-id", self._log.identity.log_id.encode()),
            (b"lakemq-epoch", b"%d" % now.epoch),
            (b"lakemq-next-position", b"%d" % max(plan.end, plan.begin)),
            (b"lakemq-confirmed-position", b"%d" % confirmed),
            (b"lakemq-min-position", b"%d" % self._log.min_position),
        ]


async def _send(send: Send, headers: Headers, pieces: list[memoryview]) -> None:
    """In pieces: put together they would hold up everybody for as long as it takes to copy them."""
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
