"""Topics of priorities: a queue for each, the last one's messages first.

As in RocketMQ 5.4 a message's priority is the number of its queue, so `queue_id` says the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakemq.model.errors import WrongMessageType

LOWEST = 0
"""Of messages that say none."""
SHARE = 8
"""Of so many turns one is a lower priority's, so that none waits for ever."""


def queue_of(priority: int | None, queue_id: int | None, queues: int, topic: str) -> int:
    """The queue of a message. Raises `WrongMessageType` for a priority that the topic doesn't have, and for a queue
    that is another one's."""
    if priority is None:
        return LOWEST if queue_id is None else queue_id
    if priority >= queues:
        raise WrongMessageType(f"topic {topic!r} has priorities 0 to {queues - 1}, not {priority}")
    if queue_id not in (None, priority):
        raise WrongMessageType(f"priority {priority} is queue {priority} of topic {topic!r}, not {queue_id}")
    return priority


def order(queues: int, turn: int) -> list[int]:
    """The queues as the receive of that turn looks at them: the highest first, but for one turn in `SHARE`, which
    begins with one of the others, each time another one."""
    highest_first = list(range(queues - 1, -1, -1))
    nth, place = divmod(turn, SHARE)
    if queues < 2 or place != SHARE - 1:
        return highest_first
    first = nth % (queues - 1)
    return [first, *(each for each in highest_first if each != first)]


def pick(priorities: Sequence[int], turn: int) -> int:
    """Which of those that wait is next, of their priorities, the first waiting for longest: the first with the highest
    one, but in one turn of `SHARE` the first."""
    return 0 if turn % SHARE == SHARE - 1 else priorities.index(max(priorities))
