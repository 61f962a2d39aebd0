"""Offsets of groups: what they have consumed, queue by queue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from lakemq.gateway.cold import ColdReader
from lakemq.gateway.groups.moves import Moves
from lakemq.gateway.groups.queues import queues_of
from lakemq.gateway.groups.records import Records
from lakemq.model.errors import FlowControl, OffsetBeyondEnd
from lakemq.model.names import check_readable
from lakemq.settings import Groups as Limits
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.state.topics import Queue

To = Literal["earliest", "latest", "timestamp"]


class QueueOffset(NamedTuple):
    """The next offset that a group is to consume of a queue."""

    topic: str
    queue_id: int
    offset: int


class Offsets:
    """The committed offsets of one broker's groups."""

    def __init__(self, records: Records, limits: Limits, log: CommitLog, cold: ColdReader, moves: Moves) -> None:
        self._records = records
        self._limits = limits
        self._log = log
        self._cold = cold
        self._moves = moves

    def of(self, name: str, topic: str | None) -> Iterator[QueueOffset]:
        """The group's offsets, of one topic or of all, sorted; none of a group that has none."""
        group = self._records.state.find(name)
        if group is not None:
            for each in [topic] if topic is not None else sorted(group.offsets):
                for queue_id, offset in sorted(group.offsets.get(each, {}).items()):
                    yield QueueOffset(each, queue_id, offset)

    def since_ms(self, name: str, topic: str) -> int | None:
        """When the group got its first offset of the topic; None where it has none, or that was not kept."""
        group = self._records.state.find(name)
        return None if group is None else group.since_ms.get(topic)

    async def commit(
        self, name: str, offsets: Sequence[QueueOffset], if_absent: bool = False, resets: int | None = None
    ) -> list[QueueOffset]:
        """Store the offsets, those of one queue in their order; returns what the queues' offsets are
        then. `if_absent`: only of queues that have none. `resets`: none when the group's offsets were
        reset more often than that.

        Raises `TopicNotFound`, `QueueNotFound` or `OffsetBeyondEnd` with nothing stored, `FlowControl`,
        `StoreUnwritable`.
        """
        queues = await queues_of(self._log.topics, [(topic, queue_id) for topic, queue_id, _ in offsets])
        for (topic, queue_id, offset), queue in zip(offsets, queues, strict=True):
            if offset > queue.next_offset:
                raise OffsetBeyondEnd(f"{topic} queue {queue_id} ends at offset {queue.end_offset}, not {offset}")
        wanted = dict.fromkeys((topic, queue_id) for topic, queue_id, _ in offsets)
        if offsets:
            self._check_room(name, list(wanted))
            conditions = {"if_absent": if_absent} | ({} if resets is None else {"resets": resets})
            await self._records.append([(name, "offsets", {"offsets": _by_topic(offsets), **conditions})])
        group = self._records.state.find(name)
        if group is None:
            return []
        await asyncio.sleep(0)  # others go on
        found = [(topic, queue_id, group.find_offset(topic, queue_id)) for topic, queue_id in wanted]
        return [QueueOffset(topic, queue_id, offset) for topic, queue_id, offset in found if offset is not None]

    async def reset(self, name: str, topic: str, to: To, timestamp_ms: int) -> list[QueueOffset]:
        """Move the group's offsets of all the topic's queues: to their ends, or to what was stored at
        or after a time, in the lake or the log. Raises `TopicNotFound`, `FlowControl`, `StoreUnwritable`,
        `LakeUnreadable`."""
        queues = list(self._log.topics.get(check_readable(topic)).queues)
        places = [await self._place(queue, to, timestamp_ms) for queue in queues]
        offsets = [QueueOffset(topic, queue.queue_id, place) for queue, place in zip(queues, places, strict=True)]
        self._check_room(name, [each[:2] for each in offsets])
        async with self._moves.moving(name):
            await self._records.append([(name, "reset", {"offsets": _by_topic(offsets)})])
        return offsets

    async def _place(self, queue: Queue, to: To, timestamp_ms: int) -> int:
        if to == "earliest":
            return await self._cold.min_offset(queue)
        return queue.end_offset if to == "latest" else await self._cold.offset_at_time(queue, timestamp_ms)

    def _check_room(self, name: str, queues: Sequence[tuple[str, int]]) -> None:
        state = self._records.state
        group = state.find(name)
        fresh = [queue for queue in queues if group is None or group.find_offset(*queue) is None]
        if fresh and state.offset_count + len(fresh) > self._limits.offsets_max:
            raise FlowControl(f"there are {state.offset_count} offsets already (groups.offsets_max)")


def _by_topic(offsets: Sequence[QueueOffset]) -> dict[str, list[list[int]]]:
    found: dict[str, list[list[int]]] = {}
    for topic, queue_id, offset in offsets:
        found.setdefault(topic, []).append([queue_id, offset])
    return found
