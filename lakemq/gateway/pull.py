"""`GET /v1/topics/{topic}/queues/{queue_id}/messages`: pull and long poll."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakemq.gateway.answers import ARROW, JSON, NDJSON, choose_media, to_arrow, to_json_list, to_ndjson
from lakemq.gateway.asgi import (
    Disconnected,
    Receive,
    Scope,
    Send,
    check_names,
    parse_int,
    parse_query,
    send_answer,
    until_gone,
)
from lakemq.gateway.broker import Broker, finish
from lakemq.gateway.problems import Answer
from lakemq.model.errors import Forbidden, InvalidFilter, InvalidRequest, PositionGone
from lakemq.model.names import check_readable
from lakemq.storage.reader import Slice
from lakemq.storage.topics import Queue

OFFSET_MAX = 2**63 - 1
SCANNED_MAX = 65_536
SCAN_STEP = 4_096
_QUERY = frozenset({"offset", "max", "wait_ms", "tags", "sql", "group"})


class Pull(NamedTuple):
    """One request: up to `messages_max` messages from `offset` on whose tag is one of `tags`
    (None: any), waiting `wait_ms` for the first."""

    offset: int
    messages_max: int
    wait_ms: int
    tags: frozenset[str] | None


class Pulled(NamedTuple):
    """What a pull found."""

    status: str
    next_offset: int
    slices: list[Slice]


def parse_tags(expression: str | None) -> frozenset[str] | None:
    """The tags of `A||B`; None for `*`. Raises `InvalidFilter`."""
    if expression is None or expression.strip() in ("", "*"):
        return None
    tags = [tag.strip() for tag in expression.split("||")]
    if len(expression) > 4096 or not all(tags) or "*" in tags:
        raise InvalidFilter(f"tags is '*' or 'A||B', not {expression[:200]!r}")
    return frozenset(tags)


class Puller:
    """Serves pulls of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._reader = broker.reader
        self._log = broker.log

    async def serve(self, scope: Scope, receive: Receive, send: Send, topic: str, queue_text: str) -> None:
        """Answer one request; raises `LakemqError`, or `Disconnected` when nobody waits any more."""
        query = parse_query(scope["query_string"])
        check_names(query, _QUERY)
        pull = self._parse(query)
        queue = self._queue(topic, queue_text)
        accept = next((value for name, value in scope["headers"] if name == b"accept"), None)
        media = choose_media(accept)
        pulled = await self._pull(queue, pull, receive)
        answer = self._answer(queue, pulled, media)
        counters = self._broker.counters
        counters.messages_out += sum([part.count for part in pulled.slices])
        counters.bytes_out += len(answer.body)
        await send_answer(send, answer)

    def _parse(self, query: dict[str, str]) -> Pull:
        limits = self._broker.settings.gateway
        if query.get("sql"):
            raise InvalidFilter("sql: this version of lakemq filters by tags only")
        return Pull(
            parse_int(query, "offset", None, 0, OFFSET_MAX),
            parse_int(query, "max", 32, 1, limits.messages_per_pull_max),
            parse_int(query, "wait_ms", 0, 0, limits.wait_ms_max),
            parse_tags(query.get("tags")),
        )

    def _queue(self, topic: str, queue_text: str) -> Queue:
        check_readable(topic)
        if not queue_text.isascii() or not queue_text.isdigit():
            raise InvalidRequest(f"{queue_text[:100]!r} is no queue id")
        # So many digits are above any queue's id, and more could be above what int() takes.
        queue = self._log.topics.queue(topic, int(queue_text[:9]))
        if self._log.topics.get(topic).permission == "w":
            raise Forbidden(f"topic {topic!r} is write-only")
        return queue

    async def _pull(self, queue: Queue, pull: Pull, receive: Receive) -> Pulled:
        offset = pull.offset
        if not queue.min_offset <= offset <= queue.next_offset:
            return Pulled("offset_out_of_range", min(max(offset, queue.min_offset), queue.next_offset), [])
        loop = asyncio.get_running_loop()
        deadline = loop.time() + pull.wait_ms / 1000
        scanned = 0
        while True:
            arrival: asyncio.Future[None] = loop.create_future()
            if offset < queue.next_offset:
                try:
                    slices, reached = await self._scan(queue, offset, pull)
                except PositionGone:
                    # Retention was faster: what was planned is gone.
                    return Pulled("offset_out_of_range", max(offset, queue.min_offset), [])
                scanned += reached - offset
                offset = reached
                if slices:
                    return Pulled("found", offset, slices)
                if scanned < SCANNED_MAX:
                    continue
            left = deadline - loop.time()
            if left <= 0 or self._broker.stopping or scanned >= SCANNED_MAX:
                return Pulled("no_matched_message" if scanned else "no_new_message", offset, [])
            await self._wait(queue, arrival, left, receive)
            if offset < queue.min_offset:
                return Pulled("offset_out_of_range", queue.min_offset, [])

    async def _wait(self, queue: Queue, arrival: asyncio.Future[None], seconds: float, receive: Receive) -> None:
        """Return when something may have arrived or the time is over; raises `Disconnected`."""
        client = asyncio.ensure_future(until_gone(receive))
        client.add_done_callback(lambda _: finish(arrival))
        queue.waiters.add(arrival)
        try:
            await self._broker.wait(arrival, seconds)
            if client.done():
                raise Disconnected
        finally:
            queue.waiters.discard(arrival)
            client.cancel()

    async def _scan(self, queue: Queue, offset: int, pull: Pull) -> tuple[list[Slice], int]:
        """The next matching messages, maybe none of those looked at, and the offset to go on with."""
        bytes_max = self._broker.settings.gateway.pull_bytes_max
        wanted = pull.messages_max
        step = wanted if pull.tags is None else max(wanted, SCAN_STEP)
        plan = self._reader.plan(queue, offset, step, bytes_max)
        if self._reader.cached(plan):
            slices, reached = self._reader.read_up_to(plan, bytes_max)
        else:
            slices, reached = await asyncio.to_thread(self._reader.read_up_to, plan, bytes_max)
        if pull.tags is None:
            return slices, reached
        return _first([match for part in slices for match in match_tags(part, pull.tags)], wanted, reached)

    def _answer(self, queue: Queue, pulled: Pulled, media: bytes) -> Answer:
        name = self._broker.name
        if media == JSON:
            content = {
                "status": pulled.status,
                "next_offset": pulled.next_offset,
                "min_offset": queue.min_offset,
                "max_offset": queue.next_offset,
                "messages": to_json_list(pulled.slices, name),
            }
            return Answer(200, [(b"content-type", JSON)], orjson.dumps(content))
        body = to_arrow(pulled.slices, name) if media == ARROW else to_ndjson(pulled.slices, name)
        headers = [
            (b"content-type", ARROW if media == ARROW else NDJSON),
            (b"lakemq-status", pulled.status.encode()),
            (b"lakemq-next-offset", b"%d" % pulled.next_offset),
            (b"lakemq-min-offset", b"%d" % queue.min_offset),
            (b"lakemq-max-offset", b"%d" % queue.next_offset),
        ]
        return Answer(200, headers, body)


def _first(slices: list[Slice], messages_max: int, reached: int) -> tuple[list[Slice], int]:
    """The first `messages_max` messages of the slices, and the offset after them, or `reached` when
    these are all."""
    left = messages_max
    chosen: list[Slice] = []
    for part in slices:
        if part.count > left:
            if left:
                chosen.append(part._replace(count=left))
            break
        chosen.append(part)
        left -= part.count
    else:
        return chosen, reached
    last = chosen[-1]
    return chosen, last.first_queue_offset + last.count


def match_tags(part: Slice, tags: frozenset[str]) -> list[Slice]:
    """The stretches of the slice whose messages have one of the tags."""
    batch = part.frame.batch
    if "tag" not in batch.schema.names:
        return []
    column = batch.column("tag").slice(part.row, part.count)
    matches = pc.call_function(
        "is_in", [column], pc.SetLookupOptions(pa.array(sorted(tags), type=pa.string()))
    ).to_pylist()
    stretches: list[Slice] = []
    begin: int | None = None
    for number, match in enumerate([*matches, False]):
        if match and begin is None:
            begin = number
        elif not match and begin is not None:
            stretches.append(part._replace(row=part.row + begin, count=number - begin))
            begin = None
    return stretches
