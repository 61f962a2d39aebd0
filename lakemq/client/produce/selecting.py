"""The queue that a sender chooses for a message: by name, or by a function of his."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from lakemq.client.outgoing import Message, MessageFields, check_topic
from lakemq.client.produce.core import Core
from lakemq.client.wrong_type import WrongType
from lakemq.model.errors import InvalidRequest, QueueNotFound, TopicNotFound
from lakemq.model.message_queue import MessageQueue

QueueSelector = Callable[[list[MessageQueue], Message], MessageQueue]
"""Chooses among the topic's queues that are written, sorted, of all brokers: those of a broker that is away too, for
two minutes, so that the same message has the same queue. What it raises, the sender gets."""


class Choice(NamedTuple):
    """What the sender said: one of the two."""

    queue: MessageQueue | None
    selector: QueueSelector | None


def choice_of(topic: str, queue: MessageQueue | None, selector: QueueSelector | None, fields: MessageFields) -> Choice:
    """What the sender said. Raises `InvalidRequest`, `WrongType` for what can't be."""
    if queue is not None and selector is not None:
        raise InvalidRequest("a message has a queue, or a queue_selector, not both")
    if fields.get("queue_id") is not None:
        raise InvalidRequest("a message has a queue_id, or a queue that its sender chooses, not both")
    if queue is not None:
        check_queue(topic, queue)
    elif not callable(selector):
        raise WrongType("a queue_selector is a function of queues and a message", selector)
    return Choice(queue, selector)


def check_queue(topic: str, queue: object) -> None:
    """Raises `WrongType`, `InvalidRequest` unless it can be a queue of the topic."""
    if not isinstance(queue, MessageQueue):
        raise WrongType("a queue is a MessageQueue", queue)
    if queue.topic != topic:
        raise InvalidRequest(f"{queue} is no queue of topic {topic!r}")


async def queues_to_choose(core: Core, topic: str) -> list[MessageQueue]:
    """The topic's queues, which is made where its first message would make it. Raises `TopicNotFound` where not, or
    where none of it is written, and `Unreachable`."""
    core.cluster.forget(check_topic(topic))
    queues = await core.learn(topic) or await core.learn(topic, make=True)
    if not queues:
        raise TopicNotFound(f"topic {topic!r} has no queue that is written, and no broker makes one")
    return queues


def chosen(queues: Sequence[MessageQueue], choice: Choice, body: bytes, fields: MessageFields) -> MessageQueue:
    """The queue, which is one of these. Raises `QueueNotFound`, `InvalidRequest`, and what the selector raises."""
    if choice.queue is not None:
        if choice.queue not in queues:
            raise QueueNotFound(f"{choice.queue} is no queue that is written now")
        return choice.queue
    assert choice.selector is not None
    found = cast("object", choice.selector(list(queues), Message(body=body, **fields)))
    if inspect.iscoroutine(found):
        found.close()
        raise InvalidRequest("a queue_selector is a plain function: an async def chooses nothing by being called")
    if not isinstance(found, MessageQueue) or found not in queues:
        raise InvalidRequest(f"the queue_selector returned {found!r:.200}, which is not one of the queues it was given")
    return found
