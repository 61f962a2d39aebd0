"""Locks of queues: who consumes a queue in order has it for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from lakemq.gateway.groups.queues import queues_of
from lakemq.gateway.groups.records import Change, Records
from lakemq.gateway.groups.renewals import Renewals
from lakemq.gateway.http.in_slices import Pause
from lakemq.model.errors import FlowControl
from lakemq.settings import Groups as Limits
from lakemq.storage.state.group_state import GroupState, QueueKey
from lakemq.storage.state.topics import TopicTable

Key = tuple[str, QueueKey]


class Locks:
    """The locks of one broker's groups. A queue of a group has one owner at a time, also over a
    restart: then all owners have a whole `lock_expiry_ms` again."""

    def __init__(self, records: Records, limits: Limits) -> None:
        self._records = records
        self._limits = limits
        self.renewals = Renewals[Key](limits.lock_expiry_ms, self._expire)

    @property
    def expiry_ms(self) -> int:
        """How long a lock that isn't renewed is held."""
        return self._limits.lock_expiry_ms

    @property
    def _state(self) -> GroupState:
        return self._records.state

    def start(self) -> None:
        """Take up the locks that the log has."""
        self._state.on_lock = self._locked
        for group in self._state:
            for queue in group.locks:
                self.renewals.renew((group.name, queue))
        self.renewals.start()

    async def close(self) -> None:
        """Let no lock expire any more."""
        await self.renewals.close()

    def _locked(self, group: str, queue: QueueKey, held: bool) -> None:
        if held:
            self.renewals.renew((group, queue))
        else:
            self.renewals.discard((group, queue))

    async def acquire(
        self, name: str, client_id: str, queues: Sequence[QueueKey], topics: TopicTable
    ) -> list[QueueKey]:
        """Lock the queues for the client, or renew its locks; returns those that it has now.

        Raises `TopicNotFound`, `QueueNotFound`, `FlowControl`, `StoreUnwritable`.
        """
        wanted = list(dict.fromkeys(queues))
        free = await self._renew(name, client_id, wanted)
        await queues_of(topics, queues)  # last: a topic that goes meanwhile has no lock
        # What others have locked meanwhile is not free any more, and nobody is to release it.
        free = [queue for queue in free if not self.renewals.goes_on((name, queue))]
        if free:
            if len(self.renewals) + len(free) > self._limits.locks_max:
                raise FlowControl(f"there are {len(self.renewals)} locks already (groups.locks_max)")
            # Those that ran out and nobody has released yet are released before.
            await self._records.append(
                [*self._releases(name, free), (name, "lock", {"client_id": client_id, "queues": free})]
            )
        await asyncio.sleep(0)
        return self._owned(name, client_id, wanted)

    async def _renew(self, name: str, client_id: str, wanted: Iterable[QueueKey]) -> list[QueueKey]:
        """Renew those of the queues' locks that the client has; returns those that nobody has."""
        group = self._state.find(name)
        pause, free = Pause(), list[QueueKey]()
        for queue in wanted:
            await pause()
            lock = None if group is None else group.locks.get(queue)
            if lock is None or not self.renewals.goes_on((name, queue)):
                free.append(queue)
            elif lock.client_id == client_id:
                self.renewals.renew((name, queue))
        return free

    async def release(self, name: str, client_id: str, queues: Sequence[QueueKey]) -> list[QueueKey]:
        """Free those of the queues that the client has; returns them. Raises `StoreUnwritable`."""
        wanted = list(dict.fromkeys(queues))
        await asyncio.sleep(0)  # others go on: from here to the record nothing comes in between
        owned = self._owned(name, client_id, wanted)
        if owned:
            changes = self._releases(name, owned)
            for queue in owned:
                self.renewals.discard((name, queue))
            try:
                await self._records.append(changes)
            except Exception:
                for queue in owned:
                    self.renewals.renew((name, queue))
                raise
        return owned

    def _owned(self, name: str, client_id: str, queues: Iterable[QueueKey]) -> list[QueueKey]:
        group = self._state.find(name)
        if group is None:
            return []
        locks = group.locks
        return [queue for queue in queues if (lock := locks.get(queue)) is not None and lock.client_id == client_id]

    def _releases(self, name: str, queues: Iterable[QueueKey]) -> list[Change]:
        """The record that ends the locks which the queues have now, if there are any."""
        group = self._state.find(name)
        locks = {} if group is None else group.locks
        ended = [[*queue, locks[queue].grant] for queue in queues if queue in locks]
        return [(name, "unlock", {"queues": ended})] if ended else []

    async def _expire(self, keys: list[Key]) -> None:
        by_group: dict[str, list[QueueKey]] = {}
        for name, queue in keys:
            by_group.setdefault(name, []).append(queue)
        await self._records.append(
            [change for name, queues in by_group.items() for change in self._releases(name, queues)]
        )
