"""The listeners of an application, and the outcome of a message that one of them could not process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from lakemq.client.app.parameters import Parameters
from lakemq.client.bodies.decoder import DecodeError
from lakemq.client.consume.filtered import Filter
from lakemq.client.consume.listener import ConsumeLater, ConsumeResult
from lakemq.client.consume.push_options import PushOptions
from lakemq.client.view import MessageView
from lakemq.model.errors import InvalidRequest

logger = logging.getLogger("lakemq.client")

BadBody = Literal["dead-letter", "retry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerOf:
    """A function that an application calls with a topic's messages."""

    function: Callable[..., Any]
    parameters: Parameters
    topic: str
    tags: str
    sql: str | None
    filter: Filter | None
    retries: int
    send_to: str | None
    bad_body: BadBody
    is_async: bool

    def matches(self, tag: str | None) -> bool:
        """Whether its `tags` take a message with this one."""
        wanted = {each.strip() for each in self.tags.split("||")}
        return not wanted.isdisjoint({"", "*", tag})

    def takes(self, message: MessageView) -> bool:
        """Whether the function is to be called with it."""
        return self.filter is None or bool(self.filter(message))

    def on_error(self, message: MessageView, error: Exception) -> None:
        """Raises `ConsumeLater` where the message is a dead letter now, as its retries are used up, or as they would
        not help; otherwise the error is to be raised on, and the message comes again."""
        unfit = isinstance(error, DecodeError) and self.bad_body == "dead-letter"
        if not unfit and message.reconsume_times < self.retries:
            return
        if isinstance(error, ConsumeLater):
            raise ConsumeLater(-1, error.reason) from error.__cause__
        logger.error(
            "listener %s failed on message %s of %s, which is now a dead letter",
            self.parameters.name,
            message.message_id,
            message.topic,
            exc_info=error,
        )
        raise ConsumeLater(-1, error) from error

    def on_result(self, message: MessageView, result: object) -> ConsumeResult | None:
        """What its consumer is told of a result that isn't to be sent. Raises `ConsumeLater`."""
        if result in (ConsumeResult.LATER, ConsumeResult.SUSPEND) and message.reconsume_times >= self.retries:
            raise ConsumeLater(-1, f"after {self.retries} retries the listener still says {result}")
        return result  # pyright: ignore[reportReturnType]  a consumer refuses what is none, as ever


@dataclass(slots=True)
class Plan:
    """The listeners of one group, which share its consumer, and the options of that."""

    group: str
    listeners: dict[str, ListenerOf] = field(default_factory=dict[str, ListenerOf])
    options: PushOptions = field(default_factory=PushOptions)

    def add(self, listener: ListenerOf, options: PushOptions) -> None:
        """Raises `InvalidRequest` for a second listener of a topic, and for options that aren't the first one's."""
        if listener.topic in self.listeners:
            raise InvalidRequest(
                f"group {self.group!r} has a listener for topic {listener.topic!r}: give the second a group of its own"
            )
        for name, value in options.items():
            if self.listeners and self.options.get(name) != value:
                raise InvalidRequest(
                    f"listeners of group {self.group!r} share a consumer, but differ in {name}: give one a group "
                    "of its own"
                )
        self.listeners[listener.topic] = listener
        self.options = {**self.options, **options}

    def listener_of(self, message: MessageView) -> ListenerOf:
        """The listener for a message. Raises `LookupError`, so that the message is delivered again: a listener that was
        removed from a program leaves retries behind."""
        found = self.listeners.get(message.topic)
        if found is None:
            raise LookupError(f"group {self.group!r} has no listener for topic {message.topic!r}")
        return found

    @property
    def retries(self) -> int:
        """The most that one of its listeners has."""
        return max(self.retries_by_topic.values())

    @property
    def retries_by_topic(self) -> dict[str, int]:
        """Of each listener."""
        return {topic: listener.retries for topic, listener in self.listeners.items()}
