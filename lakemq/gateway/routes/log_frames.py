"""`GET /v1/log/frames`: the log as it is, for who follows it. docs/log_format.md has the protocol.

No frame is opened here: what is sent are bytes of the log's files. A little that was written just now, and is in memory
still, is read at once; all else in a thread that has let go of the interpreter's lock meanwhile. The contents are the
follower's matter, and so is whether they are sound.
"""

from __future__ import annotations

import asyncio
import re

from lakemq.contract.forms import FRAMES
from lakemq.contract.limits import OFFSET_MAX
from lakemq.contract.routes import (
    FRAMES_ADDRESS,
    FRAMES_BYTES_MAX,
    FRAMES_COUNTS,
    FRAMES_DURABLE,
    FRAMES_EPOCH,
    FRAMES_ERASED,
    FRAMES_FIRST,
    FRAMES_FOLLOWER,
    FRAMES_FROM,
    FRAMES_INCARNATION,
    FRAMES_LEAVES,
    FRAMES_REPLICA,
    FRAMES_SEEN,
    FRAMES_TO,
    FRAMES_WAIT_MS,
    REPLICA_MAX,
)
from lakemq.gateway.access.caller import Caller, caller_of
from lakemq.gateway.fleet.diverged import check_goes_on
from lakemq.gateway.fleet.replication import Question, Replication, Where
from lakemq.gateway.routes.log_end import LogEnd, seconds_until
from lakemq.gateway.routes.subscription import topics_of
from lakemq.gateway.work.run import Run
from lakemq.gateway.work.work import Work
from lakemq.model.access import Kind, Need, Resource
from lakemq.model.errors import Busy, InvalidRequest, PositionGone
from lakemq.model.in_sync import Member
from lakemq.model.names import leader_address
from lakemq.storage.read.raw_frames import read_at_once, read_raw, size_of, with_state_alone, with_states
from lakemq.storage.read.reader import PositionPlan
from lakemq.storage.read.store import Store
from lakemq.web.asgi import Send, client_of, parse_int
from lakemq.web.problems import Headers
from lakemq.web.request import HttpRequest

BYTES_MAX = 32 * 1024 * 1024
_ROUNDS_MAX = 8
"""So often is a read begun anew, as segments have left or were written anew meanwhile."""
AT_ONCE_BYTES = 256 * 1024
"""So much is copied out of the system's memory on the event loop: in less time than a thread takes to begin."""
NEWS_S = 0.02
"""A follower that has nothing else to be told is told so late of what is confirmed."""
COUNTS = Need((FRAMES_COUNTS,), Resource(Kind.CLUSTER), guarded=True)
"""What it takes to be a replica, beside what every reader of frames needs."""
_INCARNATION = re.compile(r"[A-Za-z0-9_-]{1,64}")


class LogFrames:
    """Serves frames of one log, up to what is confirmed; to its followers, if it is the primary's, up to what is on
    disk here."""

    def __init__(self, store: Store, ends: LogEnd, work: Work, replication: Replication | None) -> None:
        self._replication = replication
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
        client = client_of(request.scope)
        run = self._work.answering.run_for(client)
        question = self._question(query, begin, caller_of(request.scope))
        if question is None and self._is_a_replicas(query):
            end = await self._ends.flushed_position()
        elif question is None:
            end = await self._confirmed(begin, topics, wait_ms, run)
        else:
            end = await self._until_more(question, wait_ms)
        for _ in range(_ROUNDS_MAX):
            if begin < self._log.min_position:
                raise PositionGone(f"the log begins with position {self._log.min_position}; {begin} is gone")
            try:
                plan = await self._ends.plans.positions(begin, min(end, to), topics, bytes_max, run)
            except PositionGone:
                continue
            if topics is None:
                plan = with_states(self._reader, plan)
            if query.get("state") == "yes" and begin <= max(end, self._log.min_position):
                plan = with_state_alone(self._reader, plan, self._log.active)
            size = size_of(plan)
            with self._work.answering.holding(size, client):
                try:
                    pieces = read_at_once(self._reader, plan) if size <= AT_ONCE_BYTES else None
                    if pieces is None:
                        pieces = await run(read_raw, self._reader, plan)
                except PositionGone:
                    continue
                await _send(request.send, [*self._headers(plan, size), *self._more_headers(question)], pieces)
                return
        raise Busy("the log's segments change faster than they can be read")

    async def _confirmed(self, begin: int, topics: set[str] | None, wait_ms: int, run: Run) -> int:
        """How far the log is confirmed, once that holds a frame that is wanted, or the time is over."""
        deadline = asyncio.get_running_loop().time() + wait_ms / 1000
        while await self._ends.reached(begin, topics, None, run) <= begin:
            if not await self._ends.wait(topics, None, seconds_until(deadline)):
                break
        return await self._ends.confirmed_position()

    def _question(self, query: dict[str, str], begin: int, caller: Caller) -> Question | None:
        """Which follower asks, if one does that counts; what it says of its disk is heard. Raises `Forbidden` where it
        may not be a replica: what one says is the word by which messages are confirmed. Raises `EpochDiverged` where
        the log of any reader that says in which epoch it ends isn't the beginning of this one."""
        question = _read_question(query, begin)
        if question is None and FRAMES_EPOCH.name in query:
            check_goes_on(self._log.identity.epochs, parse_int(query, FRAMES_EPOCH, OFFSET_MAX), begin)
        if question is None or self._replication is None:
            return None
        # Nobody but the replica itself and the leader knows the name of its incarnation. So one that was a replica
        # before this right was asked for still is one, until it comes as another.
        if not self._replication.knows(question.member):
            caller.check(COUNTS)
        return question if self._replication.hear(question) else None

    def _is_a_replicas(self, query: dict[str, str]) -> bool:
        """Whether it is asked by a replica that isn't in sync yet, and compares its log with this one. Raises `Fenced`
        where that goes by a later leader."""
        seen = parse_int(query, FRAMES_SEEN, OFFSET_MAX)
        if self._replication is None or not seen or not self._replication.epoch:
            return False
        self._replication.check_epoch(seen)
        return True

    async def _until_more(self, question: Question, wait_ms: int) -> int:
        """How far the log is on disk here, once the follower has something to get, is to bring to disk what it has
        written, or may know of more that is confirmed; or the time is over."""
        replication, log, loop = self._replication, self._log, asyncio.get_running_loop()
        assert replication is not None
        deadline = loop.time() + min(wait_ms, replication.wait_ms_max) / 1000
        while True:
            end = await self._ends.flushed_position()
            is_asked = min(log.confirmed.awaited, question.begin) > question.durable
            if end > question.begin or is_asked or self._wants_answer(replication, question):
                return end
            if replication.has_news(question):
                deadline = min(deadline, loop.time() + NEWS_S)
            if not await self._ends.wait_to_send(seconds_until(deadline)):
                return end

    def _wants_answer(self, replication: Replication, question: Question) -> bool:
        """Whether somebody waits for what this follower does beside the log."""
        if replication.erased_by.wants_news(question.erased):
            return True
        return bool(replication.offered_parts.to_take(question.member.replica))

    def _more_headers(self, question: Question | None) -> Headers:
        """What followers need to know beside that; also one whose place another has taken, which shows what it has."""
        if self._replication is None:
            return []
        in_sync = ",".join(map(str, self._replication.in_sync))
        to_be_done = self._replication.erased_by.to_be_done(None if question is None else question.member)
        headers = [
            (b"lakemq-erased", b"%d" % to_be_done),
            (b"lakemq-ack", b"sync" if self._log.sync_always else b"async"),
            (b"lakemq-in-sync", in_sync.encode()),
            (b"lakemq-leader-epoch", b"%d" % self._replication.epoch),
        ]
        if question is not None:
            self._replication.tell(question)
            if parts := self._replication.offered_parts.to_take(question.member.replica):
                headers.append((b"lakemq-parts", ",".join(parts).encode()))
            headers.append((b"lakemq-awaited-position", b"%d" % self._log.confirmed.awaited))
        return headers

    def _headers(self, plan: PositionPlan, size: int) -> Headers:
        now = self._log.identity.now
        return [
            (b"content-type", FRAMES.encode()),
            (b"content-length", b"%d" % size),
            (b"lakemq-log-id", self._log.identity.log_id.encode()),
            (b"lakemq-epoch", b"%d" % now.epoch),
            (b"lakemq-next-position", b"%d" % max(plan.end, plan.begin)),
            (b"lakemq-confirmed-position", b"%d" % self._log.confirmed_position),
            (b"lakemq-end-position", b"%d" % self._log.flushed_position),
            (b"lakemq-min-position", b"%d" % self._log.min_position),
        ]


async def _send(send: Send, headers: Headers, pieces: list[memoryview]) -> None:
    """In pieces: put together they would hold up everybody for as long as it takes to copy them."""
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    *first, last = pieces or [memoryview(b"")]
    for piece in first:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": last, "more_body": False})


def _is_of_follower(query: dict[str, str]) -> bool:
    """Whether somebody says that he is one. Any reader may say in which epoch its log ends."""
    return any(field.name in query for field in FRAMES_FOLLOWER if field is not FRAMES_EPOCH)


def _read_question(query: dict[str, str], begin: int) -> Question | None:
    """What a follower says of itself; None where nobody says that he is one."""
    erased, seen, first = (parse_int(query, each, OFFSET_MAX) for each in (FRAMES_ERASED, FRAMES_SEEN, FRAMES_FIRST))
    if not _is_of_follower(query):
        return None
    numbers = {
        field: parse_int(query, field, most)
        for field, most in ((FRAMES_REPLICA, REPLICA_MAX), (FRAMES_EPOCH, OFFSET_MAX), (FRAMES_DURABLE, OFFSET_MAX))
        if field.name in query
    }
    lacking = [field.name for field in FRAMES_FOLLOWER if field.name not in query]
    if lacking:
        raise InvalidRequest(f"the query lacks {', '.join(lacking)}: a follower says all of it")
    incarnation = query[FRAMES_INCARNATION.name]
    if not _INCARNATION.fullmatch(incarnation):
        raise InvalidRequest(f"incarnation matches {_INCARNATION.pattern}")
    member = Member(numbers[FRAMES_REPLICA], incarnation)
    leaves = query.get(FRAMES_LEAVES.name) == "yes"
    address = leader_address(query.get(FRAMES_ADDRESS.name, ""))
    where = Where(address if address.isascii() else "", first)
    return Question(member, begin, numbers[FRAMES_EPOCH], numbers[FRAMES_DURABLE], erased, seen, leaves, where)
