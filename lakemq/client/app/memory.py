"""What a broker does with an application's messages, in memory: for `TestApp`."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from lakemq.client.app.listeners import Plan
from lakemq.client.consume.listener import Call, Failed, Terms
from lakemq.client.consume.process_queue import Work
from lakemq.client.message import encode_body
from lakemq.client.outgoing import Message, MessageFields, SendReceipt, check_topic
from lakemq.client.view import MessageView
from lakemq.model.delay import LEVELS_MS, delay_of_level, due_time
from lakemq.model.errors import InvalidRequest
from lakemq.model.failure import Failure, with_failure
from lakemq.model.names import dead_letter_topic, retry_topic
from lakemq.model.retry import FIRST_LEVEL

DELIVERIES_MAX = 10_000
"""So many for one message that a test sends, and all that comes of it."""
BROKER = "test"


class Nacked(NamedTuple):
    """A message that a listener could not process, and why. `delay_level` < 0: it is a dead letter."""

    message: MessageView
    delay_level: int
    failure_class: str | None
    failure_text: str | None


class Sent(NamedTuple):
    """A message that the application sent to a topic. Its body is bytes, as a broker stores it."""

    topic: str
    message: Message

    def json(self) -> Any:
        """The body as JSON."""
        return MessageView.of({**encode_body(self.message.body)}).json()


class _Waiting(NamedTuple):
    """A message for a group. Those that are due at the same time come in the order in which they were stored."""

    due_ms: int
    turn: int
    plan: Plan
    content: dict[str, Any]


class MemoryBroker:
    """Holds the messages of an application under test: the waiting ones, and the outcome of the others, in order.

    Its clock starts at 0 and jumps to the time of the next message: nothing waits, but messages come in the order in
    which a broker would deliver them. `deliver_at` is later than any delay, because the clock doesn't know today's
    date.
    """

    def __init__(self, plans: Iterable[Plan], reasons: Any, orderly: bool) -> None:
        self.acked: list[MessageView] = []
        self.nacked: list[Nacked] = []
        self.dead_letters: list[MessageView] = []
        self.sent: list[Sent] = []
        self._plans = list(plans)
        self._reasons = reasons
        self._waiting: list[_Waiting] = []
        self._now_ms = 0
        self._turns = 0
        self._orderly = orderly
        self._stored = 0
        self._delivered = 0

    def store(self, topic: str, body: bytes, fields: MessageFields) -> SendReceipt:
        """Have the message wait for all listeners of its topic that take its tag. Raises `InvalidRequest` where one of
        them has `sql`, which only a broker can look at."""
        check_topic(topic)
        heard = [(plan, plan.listeners[topic]) for plan in self._plans if topic in plan.listeners]
        if any(listener.sql is not None for _, listener in heard):
            raise InvalidRequest(
                f"a TestApp can't evaluate the sql of a listener of {topic!r}: give it a filter, which runs here too, "
                "or test with lakemq.testing.MemoryBroker"
            )
        content: dict[str, Any] = self._place(topic) | {"topic": topic, **encode_body(body)}
        content |= {name: value for name in _SHOWN if (value := fields.get(name)) is not None}
        if isinstance(content.get("keys"), str):
            content["keys"] = content["keys"].split()
        due_ms = self._due_ms(fields)
        for plan, listener in heard:
            if listener.matches(content.get("tag")):
                self._wait(due_ms, plan, content)
        number = content["position"]
        return SendReceipt(content["message_id"], BROKER, topic, 0, number, number, 0)

    def record(self, topic: str, body: bytes, fields: MessageFields) -> SendReceipt:
        """What the application sends."""
        receipt = self.store(topic, body, fields)
        self.sent.append(Sent(topic, Message(body=body, **fields)))
        return receipt

    def begin(self, state: str) -> None:
        """A test sends something. Raises `InvalidRequest` while the application isn't running."""
        if state != "running":
            raise InvalidRequest("a TestApp sends within its with block")
        self._delivered = 0

    def next(self) -> tuple[Plan, MessageView] | None:
        """The next message, and whose it is. Raises `InvalidRequest` where there is no end of them."""
        if not self._waiting:
            return None
        self._delivered += 1
        if self._delivered > DELIVERIES_MAX:
            self._waiting.clear()
            raise InvalidRequest(f"after {DELIVERIES_MAX:,} messages the listeners still send to one another")
        found = heapq.heappop(self._waiting)
        self._now_ms = max(self._now_ms, found.due_ms)
        return found.plan, MessageView.of(found.content)

    def work(self, message: MessageView) -> tuple[Work[MessageView], Terms]:
        """A message as a listener's work."""
        return Work([message], [0], 0), Terms(lambda: False, False, None, Call(), self._reasons)

    def settle(self, plan: Plan, message: MessageView, failed: Sequence[Failed]) -> None:
        """A listener has had it: it is done, or comes again, or is a dead letter, as a broker decides that."""
        if not failed:
            self.acked.append(message)
            return
        _, delay_level, why = failed[0]
        is_last = delay_level < 0 or message.reconsume_times >= plan.retries
        self.nacked.append(Nacked(message, delay_level, why and why.name, why and why.text))
        again = self._again(plan, message, why, is_last)
        if is_last:
            self.dead_letters.append(MessageView.of(again))
        elif plan.options.get("orderly", self._orderly):
            self._wait(_AT_ONCE, plan, again)  # it holds up its queue
        else:
            level = delay_level or FIRST_LEVEL + message.reconsume_times
            self._wait(self._now_ms + delay_of_level(level, LEVELS_MS), plan, again)

    def _wait(self, due_ms: int, plan: Plan, content: dict[str, Any]) -> None:
        self._turns += 1
        heapq.heappush(self._waiting, _Waiting(due_ms, self._turns, plan, content))

    def _due_ms(self, fields: MessageFields) -> int:
        delay, at = fields.get("delay"), fields.get("deliver_at")
        wait_ms = delay // timedelta(milliseconds=1) if isinstance(delay, timedelta) else round((delay or 0) * 1000)
        until = None if at is None else round(at.timestamp() * 1000)
        return due_time(self._now_ms, LEVELS_MS, fields.get("delay_level"), wait_ms, until) or self._now_ms

    def _again(self, plan: Plan, message: MessageView, why: Failure | None, is_last: bool) -> dict[str, Any]:
        topic = dead_letter_topic(plan.group) if is_last else retry_topic(plan.group)
        return {
            **self._place(topic),
            **encode_body(message.body),
            **{name: value for name in _SHOWN if (value := getattr(message, name)) is not None},
            "topic": topic,
            "real_topic": message.topic,
            "real_queue_id": message.queue_id,
            "origin_message_id": message.origin_message_id or message.message_id,
            "reconsume_times": message.reconsume_times + (not is_last),
            "properties": with_failure(dict(message.properties), why),
        }

    def _place(self, topic: str) -> dict[str, Any]:
        number = self._stored
        self._stored += 1
        place: Mapping[str, Any] = {"message_id": f"{BROKER}.{number}", "queue_id": 0, "queue_offset": number}
        return {**place, "position": number, "store_time_ms": 0, "born_time_ms": 0, "reconsume_times": 0}


_AT_ONCE = -1
_SHOWN: tuple[Literal["tag", "keys", "properties", "ordering_key", "ttl_ms", "priority"], ...] = (
    "tag",
    "keys",
    "properties",
    "ordering_key",
    "ttl_ms",
    "priority",
)
