"""Where the messages of a command go: to its one gateway, or round all brokers that take the topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from secrets import randbelow
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import orjson

from lakemq.cli.brokers import Named
from lakemq.model.errors import LakemqError, TopicNotFound
from lakemq.model.message import Draft

if TYPE_CHECKING:
    from lakemq.client.http import HttpClient
    from lakemq.model.message_queue import MessageQueue

Answer = TypeVar("Answer")
Item = TypeVar("Item")


class Part(NamedTuple):
    """Some of the messages. `broker` None: any may have them."""

    broker: str | None
    items: list[Any]


class Destinations:
    """The brokers are asked for the topic once; with one there is nothing to ask.

    A message that chooses its queue, by a number or by an ordering key, goes where clients send it too: keys are
    spread over the queues of all brokers. All others go in turn, a batch to each broker.
    """

    def __init__(self, brokers: Sequence[Named], topic: str) -> None:
        self._topic = topic
        self._clients = {broker.name: broker.client for broker in brokers}
        self._queues: list[MessageQueue] = []
        self._writers = [broker.name for broker in brokers]
        self._turn = 0
        if len(brokers) > 1:
            self._look(brokers)

    def drafts(self, drafts: Sequence[Draft]) -> list[Part]:
        """The drafts by where they go, each part in their order."""
        return self._parts(drafts, lambda draft: (draft.queue_id, draft.ordering_key), _in_queue)

    def lines(self, lines: Sequence[bytes]) -> list[Part]:
        """The same of messages that are JSON. What is none is sent as it is: the broker says what is wrong."""
        return self._parts(lines, _choice_of_line, _line_in_queue)

    def send(self, part: Part, send: Callable[[HttpClient], Answer]) -> Answer:
        """Have the part sent: to its broker, or to the next one in turn that is there. Raises the error of the
        last one, with its name where there are several."""
        from lakemq.client.errors import Unreachable

        if part.broker is not None:
            names = [part.broker]
        else:
            self._turn += 1
            begin = self._turn % len(self._writers)
            names = self._writers[begin:] + self._writers[:begin]
        for name in names:
            try:
                return send(self._clients[name])
            except LakemqError as error:
                if isinstance(error, Unreachable) and not error.sent and name != names[-1]:
                    continue
                if len(self._clients) > 1:
                    error.detail = f"{name}: {error.detail}"
                    error.args = (error.detail,)
                raise
        raise AssertionError  # there is one

    def _look(self, brokers: Iterable[Named]) -> None:
        from lakemq.client.broker_queues import read_topic
        from lakemq.client.route_source import TopicRoute

        there = {name: answer for name, client in brokers if (answer := _topic_at(client, self._topic)) is not None}
        if not there:
            there = {name: answer for name, client in brokers if (answer := _made_at(client, self._topic)) is not None}
        found = {name: read_topic(self._topic, name, answer) for name, answer in there.items()}
        queues = [queue for each in found.values() for queue in each.queues]
        route = TopicRoute(self._topic, queues, {name: each.permission for name, each in found.items()})
        self._queues, self._writers = route.writable, route.writers or self._writers
        self._turn = randbelow(len(self._writers))  # so that commands of one message each don't all go to one

    def _parts(
        self,
        items: Sequence[Item],
        choice_of: Callable[[Item], tuple[int | None, str | None]],
        in_queue: Callable[[Item, int], Item],
    ) -> list[Part]:
        from lakemq.client.produce.choice import queue_of

        if not self._queues:
            return [Part(None, list(items))]
        parts: dict[str | None, list[Any]] = {}
        for item in items:
            queue_id, key = choice_of(item)
            if queue_id is None and key is None:
                parts.setdefault(None, []).append(item)
                continue
            queue = queue_of(self._queues, {"queue_id": queue_id, "ordering_key": key})
            assert queue is not None
            parts.setdefault(queue.broker, []).append(in_queue(item, queue.queue_id))
        return [Part(broker, part) for broker, part in parts.items()]


def _topic_at(client: HttpClient, topic: str) -> dict[str, Any] | None:
    """None where the broker hasn't got it, or can't be asked: then nothing is sent there."""
    from lakemq.client.errors import Unreachable

    try:
        return client.topic(topic)
    except (TopicNotFound, Unreachable):
        return None


def _made_at(client: HttpClient, topic: str) -> dict[str, Any] | None:
    """None where the broker doesn't make it: the message itself is told why."""
    try:
        return client.make_topic_by_itself(topic)
    except LakemqError:
        return None


def _in_queue(draft: Draft, queue_id: int) -> Draft:
    return draft._replace(queue_id=queue_id)


def _read(line: bytes) -> dict[str, Any]:
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def _choice_of_line(line: bytes) -> tuple[int | None, str | None]:
    if b"queue_id" not in line and b"ordering_key" not in line:
        return None, None
    content = _read(line)
    queue_id, key = content.get("queue_id"), content.get("ordering_key")
    if type(queue_id) is int:
        return queue_id, None
    return None, key if isinstance(key, str) else None


def _line_in_queue(line: bytes, queue_id: int) -> bytes:
    return orjson.dumps(_read(line) | {"queue_id": queue_id})
