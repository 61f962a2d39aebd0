"""What a push consumer leaves alone for now: all, topics, single queues, or brokers."""

from __future__ import annotations

from lakemq.client.wrong_type import WrongType
from lakemq.model.message_queue import MessageQueue
from lakemq.model.names import check_readable


class Pauses:
    """What the program paused, and the brokers whose operator did that to the group, or to this client. Neither ends
    the other's."""

    def __init__(self) -> None:
        self.everything = False
        self._named: set[str | MessageQueue] = set()
        self._brokers: set[str] = set()

    def pause(self, what: tuple[str | MessageQueue, ...]) -> None:
        """Leave these topics and queues alone, also those that come later; nothing named: all. Raises `WrongType`,
        `InvalidTopic`, and changes nothing then."""
        _check(what)
        self._named.update(what)
        self.everything = self.everything or not what

    def resume(self, what: tuple[str | MessageQueue, ...]) -> None:
        """End those of the program's pauses that were of just these topics and queues; nothing named: all of them.
        Raises as `pause`."""
        _check(what)
        if what:
            self._named.difference_update(what)
        else:
            self.everything = False
            self._named.clear()

    def follow(self, broker: str, enabled: bool) -> bool:
        """The broker says whether the group, and this client of it, may consume there; returns whether that is new."""
        if enabled == (broker not in self._brokers):
            return False
        (self._brokers.discard if enabled else self._brokers.add)(broker)
        return True

    def holds(self, queue: MessageQueue) -> bool:
        """Whether the queue is to be left alone."""
        return self.everything or queue.broker in self._brokers or not self._named.isdisjoint((queue.topic, queue))

    def __bool__(self) -> bool:
        return self.everything or bool(self._named) or bool(self._brokers)


def _check(what: tuple[object, ...]) -> None:
    for each in what:
        if isinstance(each, str):
            check_readable(each)
        elif not isinstance(each, MessageQueue):
            raise WrongType("what is paused and resumed are topics and queues", each)
