"""Where a read begins and ends: the bounds that a user gives, as positions of the log."""

from __future__ import annotations

import re

from lakemq.jobs.errors import InvalidOption
from lakemq.jobs.log_client import LogClient, LogEnd
from lakemq.jobs.source.options import (
    EARLIEST,
    LATEST,
    Bound,
    Positions,
    QueueOffsets,
    SourceOptions,
)
from lakemq.jobs.source.plan import QueueBounds, StreamOffset
from lakemq.model.errors import LogReplaced, PositionGone


class Brokers:
    """The brokers of a read, by name. Asks them nothing before it is first used."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._by_name: dict[str, LogClient] = {}

    def by_name(self) -> dict[str, LogClient]:
        """A client by each broker's name; raises `InvalidOption` when two answer with one name."""
        if not self._by_name:
            found: dict[str, LogClient] = {}
            for address in self._options.brokers:
                client = LogClient(address, self._options.retry_s, token=self._options.token)
                name = client.end().broker
                if name in found:
                    raise InvalidOption(f"two brokers answer with the name {name!r}")
                found[name] = client
            self._by_name = found
        return self._by_name

    def ends(self) -> dict[str, LogEnd]:
        """The end of the subscription in each broker's log."""
        subscription = self._options.subscription
        return {name: client.end(subscription) for name, client in self.by_name().items()}

    def close(self) -> None:
        for client in self._by_name.values():
            client.close()


def begin_of(options: SourceOptions, brokers: Brokers, default: Bound) -> StreamOffset:
    """Where a read begins; raises `PositionGone` for what the log has lost."""
    ends = brokers.ends()
    clock_ms = max(end.clock_ms for end in ends.values())
    if options.starting_timestamp_ms is not None:
        at = options.starting_timestamp_ms
        clients = brokers.by_name().items()
        return StreamOffset({name: client.position_at(at) for name, client in clients}, clock_ms)
    bound = options.starting or default
    if isinstance(bound, Positions):
        begins = {name: end.begin_position for name, end in ends.items()}
        positions = _positions(bound, ends, begins)
        _check_readable(positions, ends, brokers, options)
        return StreamOffset(positions, clock_ms)
    if isinstance(bound, QueueOffsets):
        return _begin_of_queues(bound, options, brokers, ends, clock_ms)
    if bound == "latest":
        return StreamOffset({name: end.end_position for name, end in ends.items()}, clock_ms)
    return StreamOffset({name: end.begin_position for name, end in ends.items()}, clock_ms)


def end_of(options: SourceOptions, brokers: Brokers) -> tuple[StreamOffset, QueueBounds]:
    """Where a batch read ends, and the queue offsets that end it sooner; default: latest."""
    ends = brokers.ends()
    clock_ms = max(end.clock_ms for end in ends.values())
    latest = {name: end.end_position for name, end in ends.items()}
    bound = options.ending or "latest"
    if bound == "earliest":
        raise InvalidOption("option 'endingOffsets' can't be 'earliest'")
    if isinstance(bound, Positions):
        return StreamOffset(_positions(bound, ends, latest), clock_ms), {}
    if isinstance(bound, QueueOffsets):
        queues = _resolve(bound, options, brokers)
        return StreamOffset(latest, clock_ms), queues
    return StreamOffset(latest, clock_ms), {}


def _positions(bound: Positions, ends: dict[str, LogEnd], rest: dict[str, int]) -> dict[str, int]:
    unknown = sorted(set(bound.by_broker) - set(ends))
    if unknown:
        raise InvalidOption(f"no broker {unknown[0]!r} among {', '.join(sorted(ends))}")
    return rest | bound.by_broker


def _check_readable(
    positions: dict[str, int], ends: dict[str, LogEnd], brokers: Brokers, options: SourceOptions
) -> None:
    for name, position in positions.items():
        check_begin(ends[name], position, options)
        last = brokers.by_name()[name].end_of_log()
        if position > last:
            raise PositionGone(f"position {position} is asked of {name}, whose log ends at {last}")


def check_log(broker: str, known: str | None, found: str) -> None:
    """Raises `LogReplaced` when the broker has another log than the one that was read; None: it isn't known."""
    if known is not None and known != found:
        raise LogReplaced(
            f"the log of {broker} is {found}, and what was read before is of {known}: positions mean other "
            "messages now. Begin with a new checkpoint, or put the log back from its backup"
        )


def check_begin(end: LogEnd, position: int, options: SourceOptions) -> None:
    """Raises `PositionGone` when messages from `position` on have left the log, unless they may be passed over."""
    if position < end.begin_position and options.fail_on_data_loss:
        raise PositionGone(
            f"the log of {end.broker} begins at position {end.begin_position}: the messages from {position} on are "
            "no longer in it; with failOnDataLoss = false they are skipped"
        )


def _begin_of_queues(
    bound: QueueOffsets,
    options: SourceOptions,
    brokers: Brokers,
    ends: dict[str, LogEnd],
    clock_ms: int,
) -> StreamOffset:
    """The least position of the queues' offsets; queues that are not named begin at earliest."""
    begins = _resolve(bound, options, brokers)
    every_queue_named = _names_every_queue(begins, options, brokers)
    positions = {}
    for name, client in brokers.by_name().items():
        end = ends[name]
        if not every_queue_named:
            positions[name] = end.begin_position
            continue
        found = [
            client.position_of(topic, queue, at) for topic, queues in begins.items() for queue, at in queues.items()
        ]
        positions[name] = min([at for at in found if at is not None], default=end.end_position)
    return StreamOffset(positions, clock_ms, begins)


def _resolve(bound: QueueOffsets, options: SourceOptions, brokers: Brokers) -> QueueBounds:
    """The bounds with earliest and latest replaced by the queue offsets that they stand for now."""
    if len(options.brokers) > 1:
        raise InvalidOption("queue offsets are a broker's own: with several, give positions")
    (client,) = brokers.by_name().values()
    resolved: QueueBounds = {}
    for topic, queues in bound.by_queue.items():
        if not _is_subscribed(topic, options):
            raise InvalidOption(f"offsets are given for topic {topic!r}, which is not subscribed")
        known = client.queue_ends(topic)
        resolved[topic] = {queue: _queue_offset(topic, queue, at, known) for queue, at in queues.items()}
    return resolved


def _queue_offset(topic: str, queue: int, at: int, known: dict[int, tuple[int, int]]) -> int:
    if queue not in known:
        raise InvalidOption(f"topic {topic!r} has no queue {queue}")
    earliest, latest = known[queue]
    if at == EARLIEST:
        return earliest
    if at == LATEST:
        return latest
    if at < earliest:
        raise PositionGone(f"queue {queue} of {topic!r} begins at {earliest}: {at} is gone")
    return at


def _is_subscribed(topic: str, options: SourceOptions) -> bool:
    subscription = options.subscription
    if subscription.pattern is not None:
        return re.fullmatch(subscription.pattern, topic) is not None
    return not subscription.topics or topic in subscription.topics


def _names_every_queue(begins: QueueBounds, options: SourceOptions, brokers: Brokers) -> bool:
    """Whether nothing of the subscription lies outside `begins`, today and by its definition."""
    if set(options.subscription.topics) != set(begins):
        return False
    (client,) = brokers.by_name().values()
    return all(set(client.queue_ends(topic)) == set(queues) for topic, queues in begins.items())
