"""The hottest requests without ASGI: a raw message, whatever its headers say of it, a plain raw half, a commit.

A request is taken here when it came whole in one piece and nothing about it is special; all that
could wait, fail or needs a second look goes the long way. What is answered is the same. The answer
is written by whoever writes the frame, or brings it to disk: no task, no future, no wake-up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from time import perf_counter
from typing import NamedTuple

from lakemq.contract.grammar import GRAMMAR, Found
from lakemq.contract.route import Route
from lakemq.contract.routes import BEGIN, PRODUCE, RESOLVE
from lakemq.gateway.access.access import Access, Admission
from lakemq.gateway.access.caller import Caller
from lakemq.gateway.access.quotas import Usage
from lakemq.gateway.produce.produce import MISSING, Producer, plain_properties, raw_draft, receipt_of
from lakemq.gateway.produce.transact import parse_resolution
from lakemq.gateway.routing.transactions import Transactions
from lakemq.gateway.work.counters import Counters
from lakemq.model.errors import LakemqError
from lakemq.model.message import Draft
from lakemq.model.names import HALF_TOPIC, check_group
from lakemq.model.traffic import Traffic
from lakemq.storage.log.appends import OneAppend
from lakemq.storage.log.flusher import OnDisk
from lakemq.storage.log.receiver import Stored, StoredOne
from lakemq.storage.read.store import Store
from lakemq.storage.segment.rows import Row, body_row, change_row
from lakemq.storage.state.topics import Topic
from lakemq.web.problems import Headers, answer_to, to_bytes
from lakemq.web.quick_cycle import Answering
from lakemq.web.request import check_head, read_query
from lakemq.web.seat import Seat

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
_HEAD_OF_FEWER = _HEAD.replace(b"\r\n\r\n", b"\r\n" + MISSING + b": %b\r\n\r\n")
_END_OF_HEAD = b"\r\n\r\n"
_QUICK = (PRODUCE, BEGIN)
_TRANSACTION = RESOLVE.path.partition("{")[0].encode()
URL_BYTES_MAX = 1024
_RESOLUTION_BYTES_MAX = 512
_DIGITS_MAX = 18


class QuickRequest(NamedTuple):
    """What a request's line and headers ask for: the same of each request whose head is the same. `name`: the topic,
    or the transaction; `group`: of a half; `sync`: to be on disk before the answer."""

    route: Route
    name: str
    group: str | None
    sync: bool
    properties: dict[str, str] | None = None
    admission: Admission | None = None
    """That who asks may, at the broker that was asked: it may be another one than when the head came first."""
    draft: Draft | None = None
    """Of a message of which more is said than its content type; without its body."""

    @property
    def may_come_again(self) -> bool:
        """Whether the same may be asked for once more: a transaction is committed once."""
        return self.route is not RESOLVE


class _Metered:
    """A connection whose answer is counted."""

    __slots__ = ("_connection", "_usage")

    def __init__(self, connection: Answering, usage: Usage) -> None:
        self._connection, self._usage = connection, usage

    @property
    def response_complete(self) -> bool:
        return self._connection.response_complete

    @property
    def seat(self) -> Seat:
        return self._connection.seat

    def answer(self, data: bytes) -> None:
        self._usage.took(len(data) - data.find(_END_OF_HEAD) - len(_END_OF_HEAD))
        self._connection.answer(data)


class _Waiting:
    """Takes the place of an append's future."""

    __slots__ = ("_began_s", "_connection", "_quick")
    route: Route

    def __init__(self, quick: Quick, connection: Answering) -> None:
        self._quick = quick
        self._connection = connection
        self._began_s = perf_counter()

    def done(self) -> bool:
        return self._connection.response_complete

    def answer(self, body: bytes) -> None:
        missing = self._quick.confirmed.missing
        said = _HEAD_OF_FEWER % (len(body), missing, body) if missing else _HEAD % (len(body), body)
        self._connection.answer(said)

    def set_exception(self, error: Exception, /) -> None:
        answer = answer_to(error, self._quick.counters.problem)
        self._connection.answer(to_bytes(answer))
        self._quick.counters.durations.of(self.route, answer.status).note(perf_counter() - self._began_s)


class _Message(_Waiting):
    __slots__ = ("_size", "_traffic")
    route = PRODUCE

    def __init__(  # pyright: ignore[reportMissingSuperCall]  of all the hottest: a call less
        self, quick: Quick, connection: Answering, size: int, traffic: Traffic
    ) -> None:
        self._quick = quick
        self._connection = connection
        self._size = size
        self._traffic = traffic
        self._began_s = perf_counter()

    def set_result(self, result: StoredOne, /) -> None:
        quick, size = self._quick, self._size
        counters = quick.counters
        counters.messages_in += 1
        counters.bytes_in += size
        self._traffic.took_one(size, perf_counter() - self._began_s, quick.produced)
        body = receipt_of(quick.ids.prefix_bytes, result)
        self.answer(body)


class _Half(_Waiting):
    __slots__ = ("_row", "_traffic")
    route = BEGIN

    def __init__(self, quick: Quick, connection: Answering, row: Row, traffic: Traffic) -> None:
        super().__init__(quick, connection)
        self._row = row
        self._traffic = traffic

    def set_result(self, result: StoredOne, /) -> None:
        quick = self._quick
        _, _, position, time_ms = result
        size = len(self._row[1])
        quick.counters.messages_in += 1
        quick.counters.bytes_in += size
        self._traffic.took_one(size, perf_counter() - self._began_s, quick.begun)
        quick.transactions.keep(position, change_row(self._row, born_time_ms=time_ms))
        half_id = quick.ids.prefix_bytes + b"%d" % position
        nonce = quick.secret_ids.nonce(position).encode()
        body = b'{"transactions":[{"transaction_id":"%b-%b","message_id":"%b"}]}' % (half_id, nonce, half_id)
        self.answer(body)


class _Commit(_Waiting):
    __slots__ = ("_id",)
    route = RESOLVE

    def __init__(self, quick: Quick, connection: Answering, transaction_id: bytes) -> None:
        super().__init__(quick, connection)
        self._id = transaction_id

    def set_result(self, result: Stored, /) -> None:
        body = b'{"transaction_id":"%b","resolution":"commit"}' % self._id
        self._connection.answer(_HEAD % (len(body), body))
        self._quick.resolved.note(perf_counter() - self._began_s)


def _may_begin(caller: Caller | None, topic: str) -> bool:
    """Whether it may begin transactions there, and so end them: that takes the same right, and is known mostly."""
    if caller is None:
        return True
    try:
        caller.admit(BEGIN, (topic,))
    except LakemqError:
        return False
    return True


class Quick:
    """Serves such requests."""

    def __init__(
        self, store: Store, producer: Producer, transactions: Transactions, access: Access, counters: Counters
    ) -> None:
        self._log = store.log
        self._access = access
        self._producer = producer
        self._open_topics = producer.open_topics
        self._bytes_max = producer.small_bytes
        self._promises = store.log.promise() is not None
        self.confirmed = store.log.confirmed
        self.ids = store.ids
        self.secret_ids = store.secret_ids
        self.counters = counters
        self.produced, self.begun, self.resolved = (counters.durations.of(each, 200) for each in (*_QUICK, RESOLVE))
        self.transactions = transactions

    def look(self, url: bytes, headers: Headers, address: str | None) -> QuickRequest | None:
        """What a POST from that address asks for; None when it has to go the long way."""
        if len(url) > URL_BYTES_MAX:
            return None
        if url.startswith(_TRANSACTION):
            # What follows is looked at by `_resolve`, which leaves all that is no id of ours to the long way.
            name = url[len(_TRANSACTION) :].decode("latin-1")
            admission = self._access.admit_quickly(Found(RESOLVE, (name,)), headers, address)
            if admission is None or not _takes(RESOLVE, headers):
                return None
            return QuickRequest(RESOLVE, name, None, False, admission=admission)
        found = _known(url)
        if found is None or not _takes(found.route, headers):
            return None
        admission = self._access.admit_quickly(Found(found.route, (found.name,)), headers, address)
        if admission is None:
            return None
        properties, draft = plain_properties(headers), None
        if properties is None and found.route is PRODUCE:
            draft = raw_draft(headers, self._producer.limits)
        if properties is None and draft is None:
            return None
        return found._replace(properties=properties, admission=admission, draft=draft)

    def serve(self, connection: Answering, wanted: QuickRequest, body: bytes) -> bool:
        """Do what is asked for; False when it has to go the long way, and nothing has happened."""
        admission = wanted.admission
        if admission is None or admission.access is not self._access or self._log.backlogged or not admission.holds():
            return False
        size = len(body)
        if size > self._bytes_max:
            return False
        usage = admission.usage
        if usage is None:
            if connection.seat.of is not None:
                connection.seat.leave()
            return self._serve(connection, wanted, body, size)
        if not usage.has_room(connection.seat) or not self._serve(_Metered(connection, usage), wanted, body, size):
            return False
        usage.begin(size)
        return True

    def _serve(self, connection: Answering, wanted: QuickRequest, body: bytes, size: int) -> bool:
        log = self._log
        route, name, group, sync, properties, admission, draft = wanted
        if self._promises and route is not PRODUCE:
            return False
        if route is RESOLVE:
            caller = None if admission is None else admission.caller
            return self._resolve(connection, name.encode("latin-1"), body, caller)
        topic = self._open_topics.get(name)
        if topic is None or not topic.open or topic.restricts:
            return False
        if draft is not None:
            append = self._place(topic, draft._replace(body=body))
            return append is not None and self._store(connection, append, size, sync, topic.traffic)
        if properties is None:
            return False
        if group is None:
            append = OneAppend(body_row(body, properties), topic.next_queue())
            return self._store(connection, append, size, sync, topic.traffic)
        halves = log.topics.find(HALF_TOPIC)
        if halves is None or not self.transactions.has_room():
            return False
        queue_id = topic.next_queue().queue_id
        waits = {"group": group, "deliver_at_ms": self.transactions.due_ms()}
        row = change_row(body_row(body, properties), real_topic=name, real_queue_id=queue_id, **waits)
        log.submit(OneAppend(row, halves.queues[0]), _Half(self, connection, row, topic.traffic))
        return True

    def _place(self, topic: Topic, draft: Draft) -> OneAppend | None:
        try:
            return self._producer.deferred.place_one(topic, draft)
        except LakemqError:
            return None

    def _store(self, connection: Answering, append: OneAppend, size: int, sync: bool, traffic: Traffic) -> bool:
        told = _Message(self, connection, size, traffic)
        keeps = self._log.promise(sync) if sync or self._promises else None
        self._log.submit(append, told if keeps is None else OnDisk(keeps, told))
        return True

    def _resolve(self, connection: Answering, transaction_id: bytes, body: bytes, caller: Caller | None) -> bool:
        prefix = self.ids.prefix_bytes
        number, _, nonce = transaction_id[len(prefix) :].partition(b"-")
        if not transaction_id.startswith(prefix) or not number.isdigit() or len(body) > _RESOLUTION_BYTES_MAX:
            return False
        resolution = _resolution(body)
        if resolution is None or resolution[1] != "commit":
            return False
        if (number[0] == 48 and len(number) > 1) or len(number) > _DIGITS_MAX:  # a leading zero, or too many
            return False
        position = int(number)
        if not self.secret_ids.is_nonce(position, nonce.decode("latin-1")):
            return False
        waiting = _Commit(self, connection, transaction_id)
        return self.transactions.commit_now(position, resolution[0], partial(_may_begin, caller), waiting)


class SampledQuick(Quick):
    """Serves all but those requests that are to be recorded, though they came without a trace."""

    def __init__(
        self,
        store: Store,
        producer: Producer,
        transactions: Transactions,
        access: Access,
        counters: Counters,
        chooses: Callable[[], bool],
    ) -> None:
        super().__init__(store, producer, transactions, access, counters)
        self._chooses = chooses

    def serve(self, connection: Answering, wanted: QuickRequest, body: bytes) -> bool:
        """As `Quick` does."""
        return not self._chooses() and super().serve(connection, wanted, body)


@lru_cache(maxsize=1024)
def _known(url: bytes) -> QuickRequest | None:
    """What a POST of that URL asks for, as far as the URL says it."""
    path, _, query_string = url.partition(b"?")
    if b"%" in path or not path.isascii():
        return None
    found = GRAMMAR.find("POST", path.decode())
    if found is None or found.route not in _QUICK:
        return None
    route, (name,) = found
    try:
        query = read_query(route, query_string)
        group = check_group(query["producer_group"]) if route is BEGIN else None
    except LakemqError:
        return None
    ack = query.get("ack", "async")
    if ack != "async" and (ack != "sync" or route is not PRODUCE):
        return None
    return QuickRequest(route, name, group, ack == "sync")


def _takes(route: Route, headers: Headers) -> bool:
    try:
        check_head(route, headers)
    except LakemqError:
        return False
    return True


@lru_cache(maxsize=1024)
def _resolution(body: bytes) -> tuple[str, str] | None:
    try:
        return parse_resolution(body)
    except LakemqError:
        return None
