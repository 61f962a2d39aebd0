"""What is told of each group to who watches: how far it is behind, and what it failed at. No message is read for it,
and no more than so many queues are looked at, at once; of the others what was found before is told."""

from __future__ import annotations

from typing import NamedTuple

from lakemq.gateway.groups.lag import Lags, QueueLag
from lakemq.gateway.http.in_slices import Pause
from lakemq.model.names import dead_letter_topic, retry_topic
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.reader import Reader
from lakemq.storage.read.stored_times import offset_stored_by_ms
from lakemq.storage.state.group_state import Group

QUEUES_MAX = 20_000
"""So many queues' lags are looked at, at once."""


class Numbers(NamedTuple):
    """Of one group, or of several together. `oldest_s`: 0 when nothing is behind. `paused`: how many groups are."""

    members: int = 0
    lag: int = 0
    oldest_s: float = 0.0
    in_flight: int = 0
    retries_waiting: int = 0
    retries: int = 0
    dead_letters: int = 0
    dead_letters_open: int = 0
    paused: int = 0

    @property
    def counted(self) -> list[float]:
        """What only grows."""
        return [self.retries, self.dead_letters]

    def and_of(self, other: Numbers) -> Numbers:
        """Of both together."""
        return Numbers(
            self.members + other.members,
            self.lag + other.lag,
            max(self.oldest_s, other.oldest_s),
            self.in_flight + other.in_flight,
            self.retries_waiting + other.retries_waiting,
            self.retries + other.retries,
            self.dead_letters + other.dead_letters,
            self.dead_letters_open + other.dead_letters_open,
            self.paused + other.paused,
        )


class GroupNumbers:
    """Those of all groups of one log."""

    def __init__(self, log: CommitLog, reader: Reader, lags: Lags) -> None:
        self._log = log
        self._reader = reader
        self._lags = lags
        self._behind: dict[str, tuple[int, int | None]] = {}
        """By group its lag, and by when the first of it was stored."""
        self._next = 0

    async def look(self, names: list[str]) -> dict[str, Numbers]:
        """The numbers of these groups, which are all."""
        pause, queues = Pause(), 0
        self._behind = {name: self._behind[name] for name in names if name in self._behind}
        begin = self._next % len(names) if names else 0
        for name in [*names[begin:], *names[:begin]]:
            if queues >= QUEUES_MAX:
                break
            queues += await self._look_at(name, pause)
            self._next += 1
        found: dict[str, Numbers] = {}
        now_ms = self._log.now_ms()
        for name in names:
            found[name] = self._numbers(name, now_ms)
            await pause()
        return found

    async def _look_at(self, name: str, pause: Pause) -> int:
        group = self._log.state.groups.find(name) or Group(name, 0)
        lag, oldest_ms, queues = 0, None, 0
        async for each in self._lags.of(group, await self._lags.topics_of(group), looks=False):
            queues += 1
            if each.lag:
                lag += each.lag
                stored_ms = self._stored_by_ms(each)
                oldest_ms = stored_ms if oldest_ms is None else min(oldest_ms, stored_ms)
            await pause()
        self._behind[name] = lag, oldest_ms
        return queues

    def _stored_by_ms(self, lag: QueueLag) -> int:
        """When the first of what the group is behind was stored, or after that."""
        topic = self._log.topics.find(lag.topic)
        if topic is None or lag.queue_id >= len(topic.queues):  # deleted meanwhile
            return self._log.now_ms()
        begin = max(lag.max_offset - (lag.lag or 0), lag.min_offset)
        return offset_stored_by_ms(self._reader, topic.queues[lag.queue_id], begin)

    def _numbers(self, name: str, now_ms: int) -> Numbers:
        state = self._log.state
        routing, group = state.routing, state.groups.find(name)
        lag, oldest_ms = self._behind.get(name, (0, None))
        waiting = routing.retries_of.count(name, routing.nacks) + routing.retries_of.count(name, routing.delays)
        return Numbers(
            0 if group is None else len(group.members),
            lag,
            0.0 if oldest_ms is None else max(now_ms - oldest_ms, 0) / 1000,
            routing.receipts.out_of_group.get(name, 0),
            waiting,
            self._given(retry_topic(name)),
            self._given(dead_letter_topic(name)),
            routing.dead_of.count(name, routing.dead),
            0 if group is None or group.consume_enabled else 1,
        )

    def _given(self, name: str) -> int:
        """How many messages the topic was given since it was made."""
        topic = self._log.topics.find(name)
        return 0 if topic is None else sum([queue.count_from(queue.floor) for queue in topic.queues])
