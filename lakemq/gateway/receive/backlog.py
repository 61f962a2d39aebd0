"""What an ordered receive has seen of a queue and had to leave behind, by what keeps its order.

Each message is looked at once, however long what comes before it is out. It is memory only: what it
says follows from the log and the cursor, and it is made anew when that went another way.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator

from lakemq.storage.slices.holes import Gap
from lakemq.storage.state.subscription import Order

LEFT_BEHIND_MAX = 65_536
"""So many messages of a queue wait at most for others of their order: what comes after waits too."""
ENTRIES_MAX = 1_000_000
"""So many in all queues together; then the queues that were not looked at for longest are forgotten."""
BACKLOGS_MAX = 10_000
"""So many queues at most, each once for every filter."""
GROUP_BACKLOGS_MAX = 1_000
"""So many of a group, when there are as many as there may be: one that goes on to other filters forgets its own."""
GROWN_MAX = 10_000
"""So many messages are left behind at most before they are counted, which takes a look at every backlog."""
Key = tuple[str, str, str, str, int]
"""Group, topic, filter, and the queue."""
Life = tuple[int, int]
"""Of a group's place in a queue: which subscription it is of, as one that was deleted may be made again, and how often
it was reset."""


class Backlog:
    """One queue: all from `begin` to `place` was looked at, and of that the offsets in `held` are to come yet."""

    def __init__(self, place: int, life: Life) -> None:
        self.begin = self.place = place
        self.life = life
        self.held: dict[Order, deque[int]] = {}
        self.count = 0
        self.gaps: list[Gap] = []
        """What is gone of what was looked at, and wasn't told yet."""

    @property
    def is_full(self) -> bool:
        """Whether no more is left behind for now."""
        return self.count >= LEFT_BEHIND_MAX

    @property
    def low(self) -> int:
        """The first offset that is to come yet."""
        return min((offsets[0] for offsets in self.held.values()), default=self.place)

    def leave(self, order: Order, offset: int) -> None:
        """The message has to wait."""
        self.held.setdefault(order, deque()).append(offset)
        self.count += 1

    def take(self, order: Order) -> int:
        """The first message of the order, which it is here no more."""
        offsets = self.held[order]
        offset = offsets.popleft()
        self.count -= 1
        if not offsets:
            del self.held[order]
        return offset

    def orders(self) -> Iterator[Order]:
        """What has messages here, as of now."""
        return iter(list(self.held))


class Backlogs:
    """Those of all queues that are received in order."""

    def __init__(self) -> None:
        self._backlogs: OrderedDict[Key, Backlog] = OrderedDict()
        self._grown = 0

    def of(self, key: Key, begin: int, life: Life) -> Backlog:
        """The queue's; anew when the group went another way than by this backlog."""
        found = self._backlogs.get(key)
        if found is None or found.life != life or found.low < begin or begin < found.begin:
            found = self._backlogs[key] = Backlog(begin, life)
            self._make_room(key[0])
        self._backlogs.move_to_end(key)
        return found

    def _make_room(self, group: str) -> None:
        """There is one of the group more: keep how many there are within its bound."""
        if len(self._backlogs) > BACKLOGS_MAX:
            own = [key for key in self._backlogs if key[0] == group]
            del self._backlogs[own[0] if len(own) > GROUP_BACKLOGS_MAX else next(iter(self._backlogs))]

    def forget(self, receive: tuple[str, str, str]) -> None:
        """What was taken from there, for a group, topic and filter, was not handed out."""
        for key in [key for key in self._backlogs if key[:3] == receive]:
            del self._backlogs[key]

    def tidy(self, grown: int) -> None:
        """Keep what is held within its bound. `grown`: so many messages were left behind since the last time."""
        self._grown += grown + 1
        if self._grown <= GROWN_MAX:
            return
        self._grown = 0
        held = sum([backlog.count + 1 for backlog in self._backlogs.values()])
        while held > ENTRIES_MAX and len(self._backlogs) > 1:
            held -= self._backlogs.popitem(last=False)[1].count + 1
