"""Writing what happens to groups into the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import orjson

from lakemq.model.errors import FlowControl
from lakemq.model.names import GROUP_TOPIC
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.segment.rows import make_row
from lakemq.storage.state.group_state import GroupState
from lakemq.storage.state.topics import TOPICS_TOPIC, Topic, TopicRecord

EnsureTopic = Callable[[str], Awaitable[Topic]]
Change = tuple[str, str, dict[str, Any]]
"""`(group, kind, content)`, as `GroupState` reads it."""


class Records:
    """Appends changes of groups. What is asked for in one round of the event loop is one frame."""

    def __init__(self, log: CommitLog, ensure_topic: EnsureTopic, groups_max: int) -> None:
        self._log = log
        self._ensure_topic = ensure_topic
        self._groups_max = groups_max
        # Changes that are on their way to the log, by group, and the groups that give way to new ones of these.
        self._changing: Counter[str] = Counter()
        self._going: set[str] = set()

    @property
    def state(self) -> GroupState:
        """All groups, as the log says."""
        return self._log.state.groups

    def is_changing(self, group: str) -> bool:
        """Whether changes of the group are on their way: the state doesn't have them yet."""
        return group in self._changing

    async def append(self, changes: Iterable[Change]) -> None:
        """Store the changes, all in one frame, in their order; the state has them on return.

        Raises `FlowControl` when a new group is one too many, `StoreUnwritable` with nothing stored.
        """
        queue = (await self._ensure_topic(GROUP_TOPIC)).queues[0]
        wanted = list(changes)
        groups = Counter([group for group, _, _ in wanted])
        going = self._make_room([group for group in groups if self._is_new(group) and not self._changing[group]])
        rows = [make_row(body=b"{}", tag="forget", group=group) for group in going]
        rows += [make_row(body=orjson.dumps(content), tag=kind, group=group) for group, kind, content in wanted]
        if not rows:
            return
        self._changing.update(groups)
        self._going.update(going)
        try:
            await self._log.append(RowsAppend(rows, [queue] * len(rows)))
        finally:
            self._going.difference_update(going)
            for group, count in groups.items():
                self._changing[group] -= count
                if not self._changing[group]:
                    del self._changing[group]

    async def delete(self, group: str, topics: Iterable[str]) -> None:
        """Store that the group, unless it has members, and these topics are deleted: all in one frame.
        Raises `StoreUnwritable` with nothing stored."""
        queue = (await self._ensure_topic(GROUP_TOPIC)).queues[0]
        table = self._log.topics
        records = [TopicRecord(op="delete", topic=each, queues=1, permission="r") for each in topics]
        rows = [make_row(body=orjson.dumps(each)) for each in records]
        queues = [table.queue(TOPICS_TOPIC, 0)] * len(rows)
        rows.append(make_row(body=b"{}", tag="delete", group=group))
        await self._log.append(RowsAppend(rows, [*queues, queue]))

    async def forget_place(self, group: str, topic: str) -> None:
        """Store that the group receives no more of the topic, unless something is out. Raises `StoreUnwritable`."""
        queue = (await self._ensure_topic(GROUP_TOPIC)).queues[0]
        body = orjson.dumps({"topic": topic})
        await self._log.append(RowsAppend([make_row(body=body, tag="idle", group=group)], [queue]))

    def _is_new(self, group: str) -> bool:
        return self.state.find(group) is None

    def _make_room(self, new: Sequence[str]) -> list[str]:
        """The groups that give way to new ones: those that hold nothing, as far as there is no room. Raises
        `FlowControl`."""
        if not new:
            return []
        coming = sum(map(self._is_new, self._changing))
        leaving = sum(not self._is_new(group) for group in self._going)
        lacking = len(self.state) + coming - leaving + len(new) - self._groups_max
        if lacking <= 0:
            return []
        free = (group for group in self.state.empty() if group not in self._going and group not in self._changing)
        going = list(islice(free, lacking))
        if len(going) < lacking:
            raise FlowControl(
                f"there are {len(self.state)} groups already (groups.groups_max), and each has members, offsets or"
                " locks: delete some that nobody needs, by DELETE /v1/groups/{group} or lakemq group delete"
            )
        return going
