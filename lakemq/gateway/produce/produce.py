"""`POST /v1/topics/{topic}/messages`: from a request's bytes to its place in the log."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import lru_cache
from time import perf_counter
from typing import Any, NamedTuple

import orjson

from lakemq.contract.forms import OCTETS, is_form
from lakemq.contract.headers import MISSING_REPLICAS
from lakemq.contract.media_type import media_type
from lakemq.gateway.access.caller import Caller, caller_of
from lakemq.gateway.decode import ArrowRows, Limits, TakesLong, decode, inflate
from lakemq.gateway.decode.raw_form import CURLS_OWN, decode_raw
from lakemq.gateway.placement.bulk import is_large, pack
from lakemq.gateway.placement.placement import place_draft
from lakemq.gateway.produce.deferred import DeferredPlacement, Halves
from lakemq.gateway.work.run import Run, at_once
from lakemq.gateway.work.work import Work
from lakemq.model.errors import InvalidRequest, LakemqError
from lakemq.model.message import Draft
from lakemq.model.names import check_group
from lakemq.settings import Delay
from lakemq.storage.log.appends import BatchAppend, Key, OneAppend, RowsAppend, Spread
from lakemq.storage.log.receiver import Stored, StoredOne
from lakemq.storage.log.topic_changes import TopicChanges
from lakemq.storage.read.idempotency import IdempotencyTable, make_key, plan_result, read_result
from lakemq.storage.read.store import Store
from lakemq.storage.segment.rows import Row, body_row, change_row, value_of
from lakemq.storage.segment.segment_index import Note
from lakemq.storage.state.topics import Topic
from lakemq.web.asgi import Scope, client_of, read_body, send_answer
from lakemq.web.meter import count_inflated
from lakemq.web.problems import Answer, json_answer
from lakemq.web.request import HttpRequest

SMALL_BYTES = 64 * 1024
DELETED_MAX = 64
"""So many topics are remembered that may be no more."""
MISSING = MISSING_REPLICAS.lower().encode()
_OCTETS = OCTETS.encode()
# Headers that never change what a plain raw request means: who may ask is another matter.
_NEUTRAL = frozenset(
    {b"host", b"user-agent", b"accept", b"accept-encoding", b"content-length", b"connection", b"transfer-encoding"}
    | {b"authorization"}
)


@lru_cache(maxsize=256)
def _raw_properties(content_type: bytes) -> dict[str, str] | None:
    """The properties of a raw message of this content type; None when it needs the full decoder."""
    if len(content_type) > 128 or not content_type.isascii():
        return None
    text = content_type.decode("ascii")
    if is_form(media_type(text)):
        return None
    return {} if text.strip().lower() == CURLS_OWN else {"content_type": text}


def plain_properties(headers: list[tuple[bytes, bytes]]) -> dict[str, str] | None:
    """The properties when this is a raw message with nothing special about it, else None."""
    content_type = _OCTETS
    for name, value in headers:
        if name == b"content-type":
            content_type = value
        elif name not in _NEUTRAL:
            return None
    return _raw_properties(content_type or _OCTETS)


def raw_draft(headers: list[tuple[bytes, bytes]], limits: Limits) -> Draft | None:
    """What the headers say of a raw message, whose body is left empty; None where something else is said too, or
    something wrong."""
    content_type = _OCTETS
    texts: dict[str, str] = {}
    for name, value in headers:
        if name == b"content-type":
            content_type = value or _OCTETS
        elif name.startswith(b"lakemq-"):
            texts[name.decode("latin-1")] = value.decode("latin-1")
        elif name not in _NEUTRAL:
            return None
    if _raw_properties(content_type) is None:
        return None
    try:
        return decode_raw(content_type.decode("ascii"), texts, b"", limits)[0]
    except LakemqError:
        return None


def _decode_whole(headers: dict[str, str], body: bytes, scope: str, user: str, limits: Limits) -> _Decoded:
    """The messages of a request as it came, and its idempotency key if it has one: that user's, in that scope."""
    encoding = headers.get("content-encoding", "")
    plain = inflate(encoding, body, limits.request_bytes_max) if encoding else body
    rows = decode(headers.get("content-type", ""), headers, plain, limits)
    # Arrow has compression of its own, and views, many of which may show the same bytes.
    size = max(len(plain), rows.batch.get_total_buffer_size()) if isinstance(rows, ArrowRows) else len(plain)
    text = headers.get("idempotency-key")
    if text is None:
        return _Decoded(rows, None, size)
    if not 1 <= len(text) <= 256:
        raise InvalidRequest("an Idempotency-Key has 1 to 256 characters")
    return _Decoded(rows, make_key(scope, text, _payload_headers(headers), plain, user=user), size)


class _Decoded(NamedTuple):
    """`size`: so many bytes there are without compression."""

    rows: list[Draft] | ArrowRows
    key: Key | None
    size: int


class Producer:
    """Serves produce requests."""

    def __init__(
        self,
        store: Store,
        topics: TopicChanges,
        idempotency: IdempotencyTable,
        halves: Halves,
        delays: Delay,
        work: Work,
    ) -> None:
        self._store = store
        self._log = store.log
        self._ids = store.ids
        self._topics = topics
        self._idempotency = idempotency
        self._halves = halves
        self._work = work
        self.limits = Limits.of(work.limits)
        self._at_once_limits = self.limits._replace(at_once=True)
        self.small_bytes = min(SMALL_BYTES, self.limits.message_bytes_max)
        # A topic that isn't open any more is looked up again.
        self.open_topics: dict[str, Topic] = {}
        self._storing: dict[str, asyncio.Future[None]] = {}
        self.deferred = DeferredPlacement(store.log, topics, halves, delays)

    async def serve(self, request: HttpRequest) -> None:
        """Answer one request with messages; raises `LakemqError` or `Disconnected`."""
        (name,) = request.values
        await self._serve(request, name, None)

    async def serve_halves(self, request: HttpRequest) -> None:
        """Answer one request with halves of transactions; raises `LakemqError` or `Disconnected`."""
        (name,) = request.values
        await self._serve(request, name, check_group(request.query["producer_group"]))

    async def _serve(self, request: HttpRequest, name: str, group: str | None) -> None:
        began_s = perf_counter()
        ack = request.query.get("ack", "async")
        plain = plain_properties(request.scope["headers"]) if group is None and ack != "none" else None
        body = await read_body(request.receive, self.limits.request_bytes_max)
        if plain is not None and len(body) <= self.small_bytes:
            await send_answer(
                request.send, self._with_missing(await self._store_raw(request.scope, name, body, plain, ack))
            )
            self._sent(name, began_s)
            return
        with self._work.decoding.holding(len(body), client_of(request.scope)):
            answer = await self._store_decoded(request.scope, name, body, ack, group)
        await send_answer(request.send, self._with_missing(answer))
        self._sent(name, began_s)

    def _with_missing(self, answer: Answer) -> Answer:
        missing = self._log.confirmed.missing
        return answer._replace(headers=[*answer.headers, (MISSING, missing)]) if missing else answer

    def _sent(self, name: str, began_s: float) -> None:
        topic = self.open_topics.get(name)
        if topic is not None:
            topic.traffic.sent(perf_counter() - began_s)

    async def _store_raw(self, scope: Scope, name: str, body: bytes, properties: dict[str, str], ack: str) -> Answer:
        """Store one small plain message, as it is."""
        topic = self.open_topics.get(name)
        if topic is None or not topic.open:
            topic = await self._open(name, caller_of(scope))
        queue = place_draft(Draft(body), topic) if topic.restricts else topic.next_queue()
        stored = await self._log.append(OneAppend(body_row(body, properties), queue))
        await self._keep_promise(ack)
        self._work.counters.took(1, len(body), topic.traffic)
        return json_answer(receipt_of(self._ids.prefix_bytes, stored))

    async def _open(self, name: str, maker: Caller) -> Topic:
        """The topic to produce to, which is remembered. Raises what `TopicChanges.writable` does."""
        topic = self.open_topics[name] = await self._topics.writable(name, maker)
        if len(self.open_topics) > len(self._log.topics) + DELETED_MAX:
            for gone in [each for each, held in self.open_topics.items() if not held.open]:
                del self.open_topics[gone]
        return topic

    async def _keep_promise(self, ack: str) -> None:
        """Wait until it is safe, as the request asked for it, or when too much waits for the disk already."""
        if ack != "none":
            await self._log.keep_promise(sync=ack == "sync")
        elif self._log.backlogged:
            await self._log.flushed()

    async def _store_decoded(self, scope: Scope, name: str, body: bytes, ack: str, group: str | None) -> Answer:
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        if "idempotency-key" in headers and ack == "none":
            raise InvalidRequest("ack=none has no result to repeat: it takes no Idempotency-Key")
        answer: Answer | None = None
        if not is_large(headers, body):
            with suppress(TakesLong):
                answer = await self._store_in(scope, name, headers, body, ack, group, at_once)
        if answer is None:
            client = client_of(scope)
            async with self._work.decoding.room(client):
                run = self._work.decoding.run_for(client)
                answer = await self._store_in(scope, name, headers, body, ack, group, run)
        await self._keep_promise(ack)
        return answer

    async def _store_in(
        self,
        scope: Scope,
        name: str,
        headers: dict[str, str],
        body: bytes,
        ack: str,
        group: str | None,
        run: Run,
    ) -> Answer:
        """Decode and store a request; what takes the longer the larger it is, `run` carries out. Raises `TakesLong`,
        before anything is stored, where that is too much to do at once."""
        limits = self._at_once_limits if run is at_once else self.limits
        scope_of_key = name if group is None else f"{name}/{group}"  # a slash is in no name
        caller = caller_of(scope)
        rows, key, size = await run(_decode_whole, headers, body, scope_of_key, caller.name, limits)
        count_inflated(scope, len(body), size)
        del body
        topic = await self._open(name, caller)
        if key is not None:
            return await self._store_once(topic, rows, key, group, run)
        storing, spread = await self._append(topic, rows, None, group, run)
        if ack == "none":
            storing.add_done_callback(_forget)
            return Answer(202, [], b"")
        return await run(self._answer, await storing, spread, rows, group)

    async def _store_once(
        self, topic: Topic, rows: list[Draft] | ArrowRows, key: Key, group: str | None, run: Run
    ) -> Answer:
        """Store the request unless one with its key was stored in the window."""
        while (other := self._storing.get(key.key)) is not None:
            await asyncio.wait([other])
        spread: Spread | None = None
        note = self._idempotency.known(key, self._log.retention.steady_ms)
        done = asyncio.get_running_loop().create_future()
        self._storing[key.key] = done
        try:
            stored = None if note is None else await self._first_result(note)
            if stored is None:
                storing, spread = await self._append(topic, rows, key, group, run)
                stored = await storing
        finally:
            del self._storing[key.key]
            done.set_result(None)
        return await run(self._answer, stored, spread, rows, group)

    async def _first_result(self, note: Note) -> Stored | None:
        """What the request was answered that the note is of: its frame may have to be read, or the lake."""
        reader, floor = self._store.reader, self._log.topics.floor
        plan = await plan_result(note, self._store.plans, asyncio.to_thread)
        if plan is None or reader.cached(plan):
            return None if plan is None else read_result(note, plan, reader, floor)
        return await asyncio.to_thread(read_result, note, plan, reader, floor)

    async def _append(
        self, topic: Topic, rows: list[Draft] | ArrowRows, key: Key | None, group: str | None, run: Run
    ) -> tuple[asyncio.Future[Stored], Spread | None]:
        """Where the messages go is known when the future is done: by the spread, when there is one."""
        append = await self.deferred.place(topic, rows, group, run)
        if run is not at_once:
            append = await run(pack, append, self._log.pack)
        spread = append.spread if isinstance(append, BatchAppend) else None
        self._work.counters.took(append.messages, append.body_bytes, topic.traffic)
        storing = self._log.append(append._replace(key=key))
        if group is not None and isinstance(append, RowsAppend):
            storing.add_done_callback(lambda done: self._keep_halves(done, append.rows))
        return storing, spread

    def _keep_halves(self, done: asyncio.Future[Stored], rows: list[Row]) -> None:
        if not done.cancelled() and done.exception() is None:
            placed, store_time_ms = done.result()
            for (_, _, position), row in zip(placed, rows, strict=True):
                if value_of(row, "born_time_ms") is None:
                    row = change_row(row, born_time_ms=store_time_ms)
                self._halves.keep(position, row)

    def _answer(
        self, stored: Stored, spread: Spread | None, rows: list[Draft] | ArrowRows, group: str | None
    ) -> Answer:
        """Any thread may call it."""
        if spread is not None:
            stored = Stored(spread.each(stored.placed), stored.store_time_ms)
        if group is not None:
            return json_answer(orjson.dumps({"transactions": self._transactions(stored, rows)}))
        # What was stored before under the same key may be of an epoch before; a request is in one frame, and so in one.
        prefix = self._ids.prefix_of(stored.placed[0].position)
        if isinstance(rows, ArrowRows):
            return json_answer(orjson.dumps(_ranges(stored, rows.batch.num_rows, prefix)))
        messages = [
            {
                "message_id": f"{prefix}{position}",
                "queue_id": queue_id,
                "queue_offset": queue_offset,
                "position": position,
                "store_time_ms": stored.store_time_ms,
            }
            for queue_id, queue_offset, position in stored.placed
        ]
        return json_answer(orjson.dumps({"messages": messages}))

    def _transactions(self, stored: Stored, rows: list[Draft] | ArrowRows) -> list[dict[str, str]]:
        """The transactions of a request's halves."""
        positions = [placed.position for placed in stored.placed]
        if isinstance(rows, ArrowRows):  # all in one run
            positions = range(positions[0], positions[0] + rows.batch.num_rows)
        message_id, secret_id = self._ids.of, self._store.secret_ids.of
        return [{"transaction_id": secret_id(each), "message_id": message_id(each)} for each in positions]


def receipt_of(id_prefix: bytes, stored: StoredOne) -> bytes:
    """What is answered for one message."""
    queue_id, queue_offset, position, time_ms = stored
    return b'{"messages":[{"message_id":"%b%d","queue_id":%d,"queue_offset":%d,"position":%d,"store_time_ms":%d}]}' % (
        id_prefix,
        position,
        queue_id,
        queue_offset,
        position,
        time_ms,
    )


def _ranges(stored: Stored, count: int, id_prefix: str) -> dict[str, Any]:
    """The answer to an Arrow request: one range a queue. A message's id is the prefix and its position."""
    first = stored.placed[0].position
    ends = [placed.position for placed in stored.placed[1:]] + [first + count]
    return {
        "count": count,
        "first_position": first,
        "message_id_prefix": id_prefix,
        "store_time_ms": stored.store_time_ms,
        "ranges": [
            {"queue_id": placed.queue_id, "first_queue_offset": placed.queue_offset, "count": end - placed.position}
            for placed, end in zip(stored.placed, ends, strict=True)
        ],
    }


def _payload_headers(headers: dict[str, str]) -> bytes:
    """The headers that are part of what is stored."""
    named = sorted(
        (name, value)
        for name, value in headers.items()
        if name == "content-type" or name.startswith(("lakemq-", "ce-"))
    )
    return orjson.dumps(named)


def _forget(future: asyncio.Future[Stored]) -> None:
    """Take note of a one-way append's failure: nobody else does."""
    if not future.cancelled():
        future.exception()
