"""`GET /v1/topics/{topic}/queues/{queue_id}/messages`: pull and long poll."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from lakemq.contract.limits import OFFSET_MAX
from lakemq.contract.routes import PULL_MAX, PULL_OFFSET, PULL_WAIT_MS
from lakemq.gateway.cold import ColdReader
from lakemq.gateway.cold.gaps import Gaps
from lakemq.gateway.filter.expiry import Expiry, count_expired, expiry_of
from lakemq.gateway.filter.scan import (
    LIGHT_BYTES,
    LIGHT_ROWS,
    SCAN_S_MAX,
    SCAN_STEP,
    SCANNED_MAX,
    is_light,
    rows_and_bytes,
)
from lakemq.gateway.filter.selector import Selector
from lakemq.gateway.http.accept import ARROW, JSON, NDJSON, choose_media
from lakemq.gateway.pull.read_at import ReadAt
from lakemq.gateway.work.slices import Part, first_of
from lakemq.gateway.work.work import Work
from lakemq.model.errors import Forbidden, InvalidRequest, PositionGone
from lakemq.model.names import check_readable
from lakemq.storage.lake.cold_rows import ColdSlice
from lakemq.storage.read.store import Store
from lakemq.storage.segment.slice import Slice
from lakemq.storage.slices.holes import Gap, Range, joined, offsets_without, to_header
from lakemq.storage.slices.messages import to_arrow, to_json_list, to_ndjson
from lakemq.storage.state.topics import Queue
from lakemq.web.asgi import (
    Client,
    Disconnected,
    Scope,
    client_of,
    parse_int,
    send_answer,
)
from lakemq.web.gone import client_gone
from lakemq.web.problems import Answer
from lakemq.web.request import HttpRequest

GROUP_CHARACTERS_MAX = 255
QUEUE_DIGITS_MAX = 9
NO_QUEUE = 10**QUEUE_DIGITS_MAX
PASSED_WAIT_S = 1.0
"""For so long a group's pull waits on that has passed messages and found none. Only the answer tells a consumer which
offset to commit: one that was closed before kept a lag of messages that never come. This costs a queue at most one
answer a second, and only while messages arrive that the pull looks at anyway."""


class Pull(NamedTuple):
    """One request: up to `messages_max` messages from `offset` on that are selected, waiting `wait_ms`
    for the first, answered in the form `media`, for a group or for nobody; what takes long is done in the
    `client`'s turn."""

    offset: int
    messages_max: int
    wait_ms: int
    selector: Selector
    media: bytes
    group: str | None
    client: Client


class Pulled(NamedTuple):
    """What a pull found. `answer`: it is made already."""

    status: str
    next_offset: int
    slices: list[Slice]
    answer: tuple[Answer, int] | None = None
    """The answer, and how many messages it has."""
    gone: Sequence[Range] = ()
    """Offsets that were passed and hold no message any more."""
    expired: int = 0
    """So many messages were passed as their time to live was over."""
    read_at: tuple[bytes, bytes] | None = None
    """The header that says where to read on, as of what was read last."""


class Passed(NamedTuple):
    """What a pull has passed before it looks at more: holes, and so many messages that had expired."""

    holes: list[Range]
    expired: int


class Puller:
    """Serves pulls of what is stored. What groups pass over goes to `gaps`."""

    def __init__(
        self,
        store: Store,
        cold: ColdReader,
        gaps: Gaps,
        work: Work,
        *,
        behind: bool = False,
        read_at: ReadAt | None = None,
    ) -> None:
        """`behind`: another one has more of the log, so what is beyond its end here isn't out of range. `read_at` says
        where those read on that are far behind; None: here."""
        self._read_at = read_at
        self._behind = behind
        self._log = store.log
        self._reader = store.reader
        self._plans = store.plans
        self._ids = store.ids
        self._cold = cold
        self._gaps = gaps
        self._work = work

    async def serve(self, request: HttpRequest) -> None:
        """Answer one request; raises `LakemqError`, or `Disconnected` when nobody waits any more."""
        topic, queue_text = request.values
        accept = None
        for name, value in request.scope["headers"]:
            if name == b"accept":
                accept = value
                break
        pull = await self._parse(request.query, choose_media(accept), client_of(request.scope))
        self._log.state.groups.check_enabled(pull.group)
        queue = self._queue(topic, queue_text)
        pulled = await self._pull(queue, pull, request.scope)
        answer, count = pulled.answer or self._answer(
            queue, self._cold.known_min_offset(queue), pulled, pull, pulled.slices
        )
        if pulled.read_at is not None:
            answer.headers.append(pulled.read_at)
        found = self._log.topics.find(topic)
        self._work.counters.gave(count, len(answer.body), None if found is None else found.traffic)
        await send_answer(request.send, answer)

    async def _parse(self, query: dict[str, str], media: bytes, client: Client) -> Pull:
        limits = self._work.limits
        return Pull(
            parse_int(query, PULL_OFFSET, OFFSET_MAX),
            parse_int(query, PULL_MAX, limits.messages_per_pull_max),
            parse_int(query, PULL_WAIT_MS, limits.wait_ms_max),
            await Selector.soon(query.get("tags"), query.get("sql") or None),
            media,
            query.get("group"),
            client,
        )

    def _queue(self, topic: str, queue_text: str) -> Queue:
        check_readable(topic)
        if not queue_text.isascii() or not queue_text.isdigit():
            raise InvalidRequest(f"{queue_text[:100]!r} is no queue id")
        # Longer ones are above any queue's id, or begin with zeros, and of many digits int() takes none.
        queue = self._log.topics.queue(topic, int(queue_text) if len(queue_text) <= QUEUE_DIGITS_MAX else NO_QUEUE)
        if self._log.topics.get(topic).permission == "w":
            raise Forbidden(f"topic {topic!r} is write-only")
        return queue

    async def _pull(self, queue: Queue, pull: Pull, scope: Scope) -> Pulled:
        offset = pull.offset
        begin = queue.min_offset if offset >= queue.min_offset else await self._cold.min_offset(queue)
        if not begin <= offset <= queue.next_offset and not (self._behind and offset > queue.next_offset):
            self._tell(queue, pull, begin)
            # Never beyond what is shown: whoever went on there would pass over what another leader puts there.
            return Pulled("offset_out_of_range", begin if offset < begin else max(queue.end_offset, begin), [])
        loop = asyncio.get_running_loop()
        deadline = loop.time() + pull.wait_ms / 1000
        scanned, spent_s, gone = 0, 0.0, False
        holes: list[Range] = []
        expired, read_at = 0, None
        while True:
            arrival: asyncio.Future[None] = loop.create_future()
            offset, holes = _step_over(queue, offset, holes)
            if offset < queue.end_offset:
                begun = loop.time()
                try:
                    found = await self._scan(queue, offset, pull, Passed(holes, expired))
                except PositionGone:
                    # Retention was faster: what was planned is in the lake, if there is one.
                    if not gone and offset < queue.min_offset and offset >= await self._cold.min_offset(queue):
                        gone = True
                        continue
                    self._tell(queue, pull, queue.min_offset)
                    return Pulled("offset_out_of_range", max(offset, queue.min_offset), [])
                self._tell_gone(queue, pull, found)
                holes, expired = joined(holes, found.gone), expired + found.expired
                scanned += found.next_offset - offset
                offset, read_at = found.next_offset, found.read_at
                if found.slices or found.answer:
                    return found._replace(gone=holes, expired=expired)
                spent_s += loop.time() - begun
                if scanned < SCANNED_MAX and spent_s < SCAN_S_MAX:
                    await asyncio.sleep(0)  # others go on: so much may be passed over
                    continue
                scanned = SCANNED_MAX
            now = loop.time()
            deadline = _deadline(deadline, pull, offset, now)
            left = deadline - now
            if left <= 0 or self._work.waiters.stopping or scanned >= SCANNED_MAX:
                status = "no_matched_message" if scanned else "no_new_message"
                return Pulled(status, offset, [], gone=holes, expired=expired, read_at=read_at)
            await self._wait(queue, pull, arrival, left, client_gone(scope))
            if queue in self._log.topics.deleted or pull.group in self._log.state.groups.disabled:
                return Pulled("no_new_message", offset, [], gone=holes, expired=expired)

    def _tell(self, queue: Queue, pull: Pull, begin: int) -> None:
        """The queue begins after what the pull, maybe a group's, asks for."""
        if pull.group and len(pull.group) <= GROUP_CHARACTERS_MAX and pull.offset < begin:
            self._gaps.note(pull.group, Gap(*queue.key, pull.offset, begin), 0)

    def _tell_gone(self, queue: Queue, pull: Pull, found: Pulled) -> None:
        """What was looked at has holes, which the pull, maybe a group's, passes over, or expired messages."""
        if found.expired:
            count_expired(self._log.topics, queue, self._work.counters, found.expired)
        if found.gone and pull.group and len(pull.group) <= GROUP_CHARACTERS_MAX:
            self._gaps.note_all(pull.group, queue, found.gone, 0)

    async def _wait(
        self, queue: Queue, pull: Pull, arrival: asyncio.Future[None], seconds: float, gone: asyncio.Future[None]
    ) -> None:
        """Return when something may have arrived, the group is paused or the time is over; raises `Disconnected`."""
        queue.waiters.add(arrival)
        paused = self._log.state.groups.watchers.of(pull.group) if pull.group else queue.waiters
        paused.add(arrival)
        try:
            await self._work.waiters.wait(arrival, seconds, gone, pull.client)
            if gone.done():
                raise Disconnected
        finally:
            queue.waiters.discard(arrival)
            paused.discard(arrival)

    async def _scan(self, queue: Queue, offset: int, pull: Pull, passed: Passed) -> Pulled:
        """The next matching messages, maybe none of those looked at, and the offset to go on with. Raises
        `PositionGone`, `LogDamaged`, `LakeUnreadable`."""
        bytes_max = self._work.limits.pull_bytes_max
        wanted = pull.messages_max
        # What has expired is passed over in large steps, however few messages are wanted.
        step = wanted if pull.selector.everything and not passed.expired else max(wanted, SCAN_STEP)
        if offset < queue.min_offset:
            return await self._scan_cold(queue, offset, pull, step, passed)
        expiry = expiry_of(self._log.topics, queue, self._log.reading_ms())
        run = self._work.answering.run_for(pull.client)
        plan = await self._plans.queue(queue, offset, min(step, queue.end_offset - offset), bytes_max, run)
        read_at = None if self._read_at is None else self._read_at.header(plan)
        if self._reader.cached(plan):
            slices, reached = self._reader.read_up_to(plan, bytes_max)
            if self._is_light(slices, pull, expiry):
                found, reached, expired = _select(slices, pull, reached, expiry)
                gone = offsets_without(slices, offset, reached)
                return Pulled("found", reached, found, gone=gone, expired=expired, read_at=read_at)

        # What is read is answered in the same thread at once: else what all clients have read would be in memory
        # before the first is answered.
        begin = self._cold.known_min_offset(queue)

        def carry_out() -> Pulled:
            found, end = self._reader.read_up_to(plan, bytes_max)
            slices, reached, expired = _select(found, pull, end, expiry)
            gone = offsets_without(found, offset, reached)
            pulled = Pulled("found", reached, [], gone=gone, expired=expired, read_at=read_at)
            return self._answered(queue, begin, pulled, slices, pull, passed)

        return await run(carry_out)

    async def _scan_cold(self, queue: Queue, offset: int, pull: Pull, step: int, passed: Passed) -> Pulled:
        """`_scan` of what has left the log. What is read is answered in the same thread at once: else what
        all clients have read would be in memory before the first is answered."""
        begin = self._cold.known_min_offset(queue)
        expiry = expiry_of(self._log.topics, queue, self._log.reading_ms())

        def finish(parts: list[ColdSlice], reached: int) -> Pulled:
            found, reached, expired = _select(parts, pull, reached, expiry)
            pulled = Pulled("found", reached, [], gone=offsets_without(parts, offset, reached), expired=expired)
            return self._answered(queue, begin, pulled, found, pull, passed)

        bytes_max = self._work.limits.pull_bytes_max
        found = await self._cold.pull(queue, offset, step, bytes_max, finish, pull.client)
        if found is None:
            raise PositionGone(f"the log begins with offset {queue.min_offset} of the queue, and there is no lake")
        return found

    def _is_light(self, slices: list[Slice], pull: Pull, expiry: Expiry) -> bool:
        """Whether nobody notices when the loop selects of the slices and writes the answer."""
        rows, size = rows_and_bytes(slices)
        if rows > LIGHT_ROWS and expiry.looks_at(slices):
            return False
        if pull.selector.everything and (pull.media == ARROW or rows <= 1):
            return True
        if pull.media != ARROW and (rows > LIGHT_ROWS or size > LIGHT_BYTES):
            return False
        return is_light(pull.selector, rows, size)

    def _answered(
        self,
        queue: Queue,
        begin: int,
        pulled: Pulled,
        slices: Sequence[Slice | ColdSlice],
        pull: Pull,
        passed: Passed,
    ) -> Pulled:
        """What was found, its answer made, if it is anything. For any thread."""
        if not slices:
            return pulled
        whole = pulled._replace(gone=joined(passed.holes, pulled.gone), expired=passed.expired + pulled.expired)
        answer = self._answer(queue, begin, whole, pull, slices)
        return pulled._replace(answer=answer)

    def _answer(
        self, queue: Queue, begin: int, pulled: Pulled, pull: Pull, slices: Sequence[Slice | ColdSlice]
    ) -> tuple[Answer, int]:
        """The answer, and how many messages it has. For any thread."""
        ids, count = self._ids, sum([part.count for part in slices])
        media, holes, status, next_offset = pull.media, pulled.gone, pulled.status, pulled.next_offset
        if media == JSON:
            content: dict[str, Any] = {
                "status": status,
                "next_offset": next_offset,
                "min_offset": begin,
                "max_offset": queue.end_offset,
                "messages": to_json_list(slices, ids),
            }
            if holes:
                content["holes"] = holes
            if pulled.expired:
                content["expired"] = pulled.expired
            return Answer(200, [(b"content-type", JSON)], orjson.dumps(content)), count
        body = to_arrow(slices, ids) if media == ARROW else to_ndjson(slices, ids)
        headers = [
            (b"content-type", ARROW if media == ARROW else NDJSON),
            (b"lakemq-status", status.encode()),
            (b"lakemq-next-offset", b"%d" % next_offset),
            (b"lakemq-min-offset", b"%d" % begin),
            (b"lakemq-max-offset", b"%d" % queue.end_offset),
        ]
        if holes:
            headers.append((b"lakemq-holes", to_header(holes)))
        if pulled.expired:
            headers.append((b"lakemq-expired", b"%d" % pulled.expired))
        return Answer(200, headers, body), count


def _deadline(deadline: float, pull: Pull, offset: int, now: float) -> float:
    """How long a pull may wait that has come to that offset."""
    return min(deadline, now + PASSED_WAIT_S) if pull.group and offset > pull.offset else deadline


def _step_over(queue: Queue, offset: int, holes: list[Range]) -> tuple[int, list[Range]]:
    """The offset, or the end of the gap that it is in, which is one of the holes then."""
    after = queue.after_gap(offset)
    return after, holes if after == offset else joined(holes, [(offset, after)])


def _select(slices: list[Part], pull: Pull, reached: int, expiry: Expiry) -> tuple[list[Part], int, int]:
    """What is wanted of the slices, the offset to go on with, and how many have expired of those before it."""
    alive, expired = expiry.split(slices)
    if not pull.selector.everything:
        alive = [match for part in alive for match in pull.selector.matches(part)]
    alive, reached = first_of(alive, pull.messages_max, reached)
    return alive, reached, sum([part.count for part in expired if part.end_queue_offset <= reached])
