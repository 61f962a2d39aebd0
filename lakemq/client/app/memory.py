"""What a broker does with an application's messages, in memory: for `TestApp`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from lakemq.client.app.listeners import Plan
from lakemq.client.consume.listener import Call, Failed, Terms
from lakemq.client.consume.process_queue import Work
from lakemq.client.message import encode_body
from lakemq.client.outgoing import Message, MessageFields, SendReceipt, check_topic
from lakemq.client.view import MessageView
from lakemq.model.errors import InvalidRequest
from lakemq.model.failure import Failure, with_failure
from lakemq.model.names import dead_letter_topic, retry_topic

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
    """What the application sent to a topic. Its body is bytes, as a broker has it."""

    topic: str
    message: Message

    def json(self) -> Any:
        """The body as JSON."""
        return MessageView.of({**encode_body(self.message.body)}).json()


class MemoryBroker:
    """Has the messages of an application under test: those that wait, and what became of the others, in order."""

    def __init__(self, plans: Iterable[Plan], reasons: Any) -> None:
        self.acked: list[MessageView] = []
        self.nacked: list[Nacked] = []
        self.dead_letters: list[MessageView] = []
        self.sent: list[Sent] = []
        self._plans = list(plans)
        self._reasons = reasons
        self._waiting: deque[tuple[Plan, dict[str, Any]]] = deque()
        self._stored = 0
        self._delivered = 0

    def store(self, topic: str, body: bytes, fields: MessageFields) -> SendReceipt:
        """Have the message wait for all listeners of its topic that take its tag."""
        check_topic(topic)
        content: dict[str, Any] = self._place(topic) | {"topic": topic, **encode_body(body)}
        content |= {name: value for name in _SHOWN if (value := fields.get(name)) is not None}
        if isinstance(content.get("keys"), str):
            content["keys"] = content["keys"].split()
        for plan in self._plans:
            listener = plan.listeners.get(topic)
            if listener is not None and listener.matches(content.get("tag")):
                self._waiting.append((plan, content))
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
        plan, content = self._waiting.popleft()
        return plan, MessageView.of(content)

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
        else:
            self._waiting.append((plan, again))

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


_SHOWN: tuple[Literal["tag", "keys", "properties", "ordering_key", "ttl_ms", "priority"], ...] = (
    "tag",
    "keys",
    "properties",
    "ordering_key",
    "ttl_ms",
    "priority",
)
