"""The simple consumer: it receives messages and acknowledges them, and knows nothing of queues."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack, overload

from lakemq.client.bodies.decoder import Decoder
from lakemq.client.broker_requests import ToPrimary
from lakemq.client.consume.ack_status import AckStatus
from lakemq.client.consume.gaps import Gaps, OnGap
from lakemq.client.consume.late_receives import LateReceives
from lakemq.client.consume.listener import level_after
from lakemq.client.consume.reason import reason_of, send_nacks, to_entry
from lakemq.client.consume.reply import ReplyFields, reply
from lakemq.client.durations import Seconds, to_seconds
from lakemq.client.errors import Closed, Unreachable
from lakemq.client.failures import say_failed, wait_of
from lakemq.client.outgoing import check_group
from lakemq.client.route_source import RouteSource
from lakemq.client.routes import Cluster
from lakemq.client.transport import ANSWER_TIMEOUT_S
from lakemq.client.view import MessageView, Rows
from lakemq.contract import routes
from lakemq.model.errors import InvalidRequest, LakemqError, TopicNotFound
from lakemq.model.message_queue import MessageQueue
from lakemq.model.names import check_readable

logger = logging.getLogger("lakemq.client")

AGAIN_S = 1.0
"""How long an iteration waits after an error that may pass."""
POLL_S = 15.0
SLICE_S = 1.0
"""With several brokers: how long one is asked to wait before the next one's turn."""
LATE_S = 3.0
"""One that takes so much longer than it was to wait no longer holds up the others: its answer is taken afterwards."""


class SimpleOptions(TypedDict, total=False):
    """Options of simple consumers, with asyncio and without."""

    brokers: str | Sequence[str] | None
    """Addresses of brokers. Without these and `nameservers`: the environment's LAKEMQ_NAMESERVERS, else its
    LAKEMQ_BROKER, else port 8080 of this machine."""
    nameservers: str | Sequence[str] | None
    """Addresses of name servers, which know the brokers, instead of `brokers`."""
    routes: RouteSource | None
    """A source of routes instead of addresses."""
    token: str | None
    """Identifies the client's user. By default it is the environment's LAKEMQ_TOKEN, or in the file that
    LAKEMQ_TOKEN_FILE names, else the token of this machine's administrator, if it can be found."""
    max_reconsume_times: int | None
    """A message that was redelivered this often without an acknowledgement becomes a dead letter. Default: the broker's
    setting (16)."""
    ordered: bool
    """While a message is out, the group gets no other message with the same ordering key, or from the same queue if it
    has no key. Default False."""
    topic: str | None
    """The topic that an iteration over the consumer receives; `messages` may name another."""
    tags: str
    """Receive only messages with one of these tags; default `*`."""
    sql: str | None
    """Receive only messages for which this SQL92 expression is true."""
    invisible: timedelta
    """How long an iterated message is invisible to others; default 30 s."""
    decoder: Decoder
    """Decodes bodies for `message.decode(kind)`. The default is JSON."""
    on_gap: OnGap | None
    """Called with queue, offset and next offset, once for each range of skipped offsets that no longer has messages:
    they were erased, dropped, or lost with a log's tail. It runs on the client's event loop, so it must be quick and
    must not block. The client logs a warning in any case."""


class SimpleConsumer:
    """Receives messages from any queue for a group. Each is invisible to the other members until it is acknowledged, or
    its time has expired: then it is handed out again, with `reconsume_times` increased by one.

    Options: `SimpleOptions`. Use it as an async context manager, or `close` it. With the option `topic`, `async for
    message in consumer` receives one message after the other, until it is closed.
    """

    def __init__(self, group: str, **options: Unpack[SimpleOptions]) -> None:
        self.group = check_group(group)
        self._cluster = Cluster(
            options.get("brokers"), options.get("routes"), options.get("nameservers"), options.get("token")
        )
        self._gaps = Gaps(options.get("on_gap"))
        self._more: dict[str, Any] = {"ordered": options.get("ordered", False)}
        if options.get("max_reconsume_times") is not None:
            self._more["max_reconsume_times"] = options.get("max_reconsume_times")
        self._decoder = options.get("decoder")
        self._topic = options.get("topic")
        self._tags, self._sql = options.get("tags", "*"), options.get("sql")
        self._invisible: Seconds = options.get("invisible", timedelta(seconds=30))
        self._turn = 0
        self._late = LateReceives()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def receive(
        self,
        topic: str,
        max_messages: int = 32,
        *,
        wait_s: Seconds = POLL_S,
        invisible_s: Seconds = 30.0,
        tags: str = "*",
        sql: str | None = None,
    ) -> list[MessageView]:
        """Receive messages of a topic, waiting for the first. Empty if none arrived in time.

        They are invisible to others for `invisible_s`; `ack` them once they are processed. All receives of a group and
        topic should use the same filter. Raises `TopicNotFound`, `InvalidFilter`, `FlowControl` if too many messages
        are out, `Unreachable`.
        """
        if self._closed:
            raise Closed("the consumer is closed")
        wait_s, invisible_s = to_seconds(wait_s, "wait_s"), to_seconds(invisible_s, "invisible_s")
        if wait_s < 0 or invisible_s <= 0:
            raise InvalidRequest("wait_s is at least 0, and invisible_s more than 0")
        check_readable(topic)
        content = {"topic": topic, "max": max_messages, "invisible_ms": max(int(invisible_s * 1000), 1), **self._more}
        content |= {"tags": tags} if sql is None else {"sql": sql}
        names = await self._brokers_of(topic)
        self._turn += 1
        names = names[self._turn % len(names) :] + names[: self._turn % len(names)]
        if len(names) == 1:
            return await self._receive(names[0], content, wait_s)
        return await self._receive_in_turn(names, content, wait_s)

    def __aiter__(self) -> AsyncIterator[MessageView]:
        return self.messages()

    async def messages(
        self,
        topic: str | None = None,
        *,
        tags: str | None = None,
        sql: str | None = None,
        max_messages: int = 1,
        invisible_s: Seconds | None = None,
        idle_s: Seconds | None = None,
    ) -> AsyncIterator[MessageView]:
        """Iterate over a topic's messages, until the consumer is closed, or no message has arrived for `idle_s`.

        The defaults are the consumer's options. `max_messages`: how many are received at a time. A message whose time
        expires before its turn is left out, because it is delivered again. Once a broker has answered, temporary errors
        are retried, with a warning in the log. All other errors are raised, as in `receive`.
        """
        topic = topic or self._topic
        if topic is None:
            raise InvalidRequest("which topic? SimpleConsumer(group, topic=…) or messages(topic)")
        if tags is None and sql is None:
            tags, sql = self._tags, self._sql
        out_s = to_seconds(self._invisible if invisible_s is None else invisible_s, "invisible")
        clock, answered = asyncio.get_running_loop().time, False
        most_s = None if idle_s is None else to_seconds(idle_s, "idle_s")
        last_s = clock()
        while not self._closed:
            wait_s = POLL_S if most_s is None else min(POLL_S, max(last_s + most_s - clock(), 0.0))
            try:
                found = await self.receive(
                    topic, max_messages, wait_s=wait_s, invisible_s=out_s, tags=tags or "*", sql=sql
                )
            except LakemqError as error:
                if self._closed:
                    return
                if not answered or not error.retryable:
                    raise
                say_failed(logger, error, f"{topic} can't be received from now")
                await asyncio.sleep(wait_of(error, AGAIN_S))
                continue
            answered, came_s = True, clock()
            for message in found:
                if clock() - came_s < out_s:
                    yield message
                last_s = clock()
            if not found and most_s is not None and clock() - last_s >= most_s:
                return

    @overload
    async def ack(self, messages: MessageView) -> None: ...
    @overload
    async def ack(self, messages: Sequence[MessageView]) -> list[AckStatus]: ...
    async def ack(self, messages: MessageView | Sequence[MessageView]) -> list[AckStatus] | None:
        """Acknowledge messages. Doing so twice does no harm. For one message: raises `ReceiptExpired` if its time has
        expired, because it is then handed out again. For a list: returns the status of each, in the same order."""

        async def tell(broker: str, receipts: list[str]) -> list[dict[str, str]]:
            answer = await self._cluster.primary(broker).send(routes.ACKS.at(self.group), {"receipts": receipts})
            return answer["receipts"]

        return _answer(messages, await _tell_each(messages, tell))

    @overload
    async def nack(
        self,
        messages: MessageView,
        delay_level: int = 0,
        reason: str | BaseException | None = None,
        *,
        delay: timedelta | None = None,
    ) -> None: ...
    @overload
    async def nack(
        self,
        messages: Sequence[MessageView],
        delay_level: int = 0,
        reason: str | BaseException | None = None,
        *,
        delay: timedelta | None = None,
    ) -> list[AckStatus]: ...
    async def nack(
        self,
        messages: MessageView | Sequence[MessageView],
        delay_level: int = 0,
        reason: str | BaseException | None = None,
        *,
        delay: timedelta | None = None,
    ) -> list[AckStatus] | None:
        """Report messages that could not be processed: the group gets them again, after a delay. For one message:
        raises `ReceiptExpired` if it was acknowledged or its time has expired. For a list: returns the status of each,
        in the same order.

        `delay_level` 0: the broker chooses the delay, which grows with each attempt; < 0: the messages become dead
        letters at once. `delay`, instead: rounded up to the next of RocketMQ's levels. `reason`: a text or an error,
        whose class and text are kept with the messages.
        """
        if delay is not None and delay_level:
            raise InvalidRequest("a nack has delay_level or delay, not both")
        level = delay_level if delay is None else level_after(delay)
        why = reason_of(reason)

        async def tell(broker: str, receipts: list[str]) -> list[dict[str, str]]:
            entries = [to_entry({"receipt": receipt, "delay_level": level}, why) for receipt in receipts]
            answer = await send_nacks(partial(_send_nacks, self._cluster.primary(broker), self.group), entries)
            return answer["messages"]

        return _answer(messages, await _tell_each(messages, tell))

    async def change_invisible(self, message: MessageView, invisible_s: Seconds) -> None:
        """Keep a message invisible for this long from now on; 0: it is handed out again at once. The message gets a new
        receipt. Raises `ReceiptExpired` if its time has expired."""
        invisible_s = to_seconds(invisible_s, "invisible_s")
        if invisible_s < 0:
            raise InvalidRequest("invisible_s is at least 0")
        content = {"receipt": _receipt(message), "invisible_ms": int(invisible_s * 1000)}
        primary = self._cluster.primary(message.broker)
        answer = await primary.send(routes.INVISIBILITY.at(self.group), content, twice=False)
        message.replace_receipt(answer["receipt"], answer["invisible_until_ms"])

    async def reply(self, message: MessageView, body: object = None, **fields: Unpack[ReplyFields]) -> None:
        """Reply to a message whose producer waits for it (`Producer.request`). Raises `InvalidRequest` if the message
        isn't a request, and `RequestNotFound` if the producer no longer waits."""
        await reply(self._cluster, message, body, fields)

    async def close(self) -> None:
        """Close the connections. Messages that aren't acknowledged are delivered again."""
        self._closed = True
        await self._late.close()
        await self._cluster.close()

    async def _receive(self, broker: str, content: dict[str, Any], wait_s: float) -> list[MessageView]:
        end_s = asyncio.get_running_loop().time() + wait_s
        try:
            answer = await self._ask(broker, content, wait_s)
        except Unreachable as error:
            if not error.sent or not self._cluster.places.has_replicas(broker):
                raise
            # What the answer that is lost handed out comes again, as if the caller had asked twice.
            answer = await self._ask(broker, content, max(end_s - asyncio.get_running_loop().time(), 0.0))
        for gap in answer.get("gaps", ()):
            self._gaps.note(MessageQueue(gap["topic"], broker, gap["queue_id"]), [(gap["begin"], gap["end"])])
        rows = Rows.of_json(answer["messages"])
        rows.decoder = self._decoder
        return list(rows)

    async def _ask(self, broker: str, content: dict[str, Any], wait_s: float) -> Any:
        asked = {**content, "wait_ms": int(wait_s * 1000)}
        primary = self._cluster.primary(broker)
        return await primary.send(
            routes.RECEIVE.at(self.group), asked, timeout_s=wait_s + ANSWER_TIMEOUT_S, twice=False
        )

    async def _brokers_of(self, topic: str) -> list[str]:
        """The brokers to ask for messages of a topic; all while none has it, as one of them may soon."""
        names = [broker.name for broker in await self._cluster.brokers()]
        if len(names) == 1:
            return names
        try:
            return sorted({queue.broker for queue in await self._cluster.queues(topic)}) or names
        except TopicNotFound:
            return names

    async def _receive_in_turn(self, names: list[str], content: dict[str, Any], wait_s: float) -> list[MessageView]:
        """Ask one broker after the other, first without waiting, until one has messages. One that hangs holds up no
        other for long; the last that doesn't is waited for."""
        clock = asyncio.get_running_loop().time
        end_s = clock() + wait_s
        slice_s = 0.0
        while True:
            errors: list[LakemqError] = []
            for name in names:
                some_s = min(slice_s, max(end_s - clock(), 0.0))
                # The last that isn't late is waited for: there is nobody else to ask.
                most_s = some_s + LATE_S if self._late.others(names, name) else None
                ask = partial(self._receive, name, content, some_s)
                try:
                    messages = await self._late.answer(name, content, ask, most_s)
                except LakemqError as error:
                    errors.append(error)
                    continue
                if messages:
                    return messages
            if len(errors) == len(names):
                raise next((error for error in errors if not isinstance(error, TopicNotFound)), errors[0])
            if clock() >= end_s:
                return []
            slice_s = SLICE_S


async def _send_nacks(primary: ToPrimary, group: str, entries: list[dict[str, Any]]) -> Any:
    return await primary.send(routes.NACKS.at(group), {"messages": entries})


async def _tell_each(
    messages: MessageView | Sequence[MessageView], tell: Callable[[str, list[str]], Awaitable[list[dict[str, str]]]]
) -> list[AckStatus]:
    """The status of each message. Its broker is told, beside the others: one that hangs or refuses keeps nothing from
    them, and its error is raised once all have ended."""
    given, by_broker = _by_broker(messages)
    answers = await asyncio.gather(*(tell(*each) for each in by_broker.items()), return_exceptions=True)
    statuses: dict[str, str] = {}
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        statuses |= {entry["receipt"]: entry["status"] for entry in answer}
    return [AckStatus(statuses[receipt]) for receipt in given]


def _answer(messages: MessageView | Sequence[MessageView], statuses: list[AckStatus]) -> list[AckStatus] | None:
    """What is told of these: of one message nothing, or an error."""
    if not isinstance(messages, MessageView):
        return statuses
    statuses[0].check(messages.message_id)
    return None


def _by_broker(messages: MessageView | Sequence[MessageView]) -> tuple[list[str], dict[str, list[str]]]:
    """The messages' receipts, in their order, and each once by broker."""
    given = [messages] if isinstance(messages, MessageView) else list(messages)
    by_broker: dict[str, dict[str, None]] = {}
    for message in given:
        by_broker.setdefault(message.broker, {})[_receipt(message)] = None
    return [_receipt(message) for message in given], {name: list(each) for name, each in by_broker.items()}


def _receipt(message: MessageView) -> str:
    if message.receipt is None:
        raise InvalidRequest(f"message {message.message_id} was not received: it has no receipt")
    return message.receipt
