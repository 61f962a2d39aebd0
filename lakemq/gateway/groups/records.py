"""Writing what happens to groups into the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import orjson

from lakemq.model.errors import FlowControl
from lakemq.model.names import GROUP_TOPIC
from lakemq.storage.commit_log import CommitLog
from lakemq.storage.group_state import GroupState
from lakemq.storage.rows import Row, make_row
from lakemq.storage.topics import TOPICS_TOPIC, Topic, TopicRecord

EnsureTopic = Callable[[str], Awaitable[Topic]]
Change = tuple[str, str, dict[str, Any]]
"""`(group, kind, content)`, as `GroupState` reads it."""


class Records:
    """Appends changes of groups. What is asked for in one round of the event loop is one frame."""

    def __init__(self, log: CommitLog, ensure_topic: EnsureTopic, groups_max: int) -> None:
        self._log = log
        self._ensure_topic = ensure_topic
        self._groups_max = groups_max

    @property
    def state(self) -> GroupState:
        """All groups, as the log says."""
        return self._log.state.groups

    async def append(self, changes: Iterable[Change]) -> None:
        """Store the changes, all in one frame, in their order; the state has them on return.

        Raises `FlowControl` when a new group is one too many, `StoreUnwritable` with nothing stored.
        """
        queue = (await self._ensure_topic(GROUP_TOPIC)).queues[0]
        rows: list[Row] = []
        for group, kind, content in changes:
            if self.state.find(group) is None and len(self.state) >= self._groups_max:
                rows.append(make_row(body=b"{}", tag="forget", group=self._forgettable()))
            rows.append(make_row(body=orjson.dumps(content), tag=kind, group=group))
        if rows:
            await self._log.append(rows, [queue] * len(rows), sum([len(row[1]) for row in rows]))

    async def delete(self, group: str, topics: Iterable[str]) -> None:
        """Store that the group, unless it has members, and these topics are deleted: all in one frame.
        Raises `StoreUnwritable` with nothing stored."""
        queue = (await self._ensure_topic(GROUP_TOPIC)).queues[0]
        table = self._log.topics
        records = [TopicRecord(op="delete", topic=each, queues=1, permission="r") for each in topics]
        rows = [make_row(body=orjson.dumps(each)) for each in records]
        queues = [table.queue(TOPICS_TOPIC, 0)] * len(rows)
        rows.append(make_row(body=b"{}", tag="delete", group=group))
        await self._log.append(rows, [*queues, queue], sum([len(row[1]) for row in rows]))

    async def forget_place(self, group: str, topic: str) -> None:
        """Store that the group receives no more of the topic, unless something is out. Raises `StoreUnwritable`."""
        queue = (await self._ensure_topic(GROUP_TOPIC)).queues[0]
        body = orjson.dumps({"topic": topic})
        await self._log.append([make_row(body=body, tag="idle", group=group)], [queue], len(body))

    def _forgettable(self) -> str:
        for group in self.state:
            if group.is_empty:
                return group.name
        raise FlowControl(f"there are {len(self.state)} groups already (groups.groups_max)")
