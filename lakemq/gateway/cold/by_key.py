"""Messages by key, newest first: from the lake's index as far as it goes, and from the log's rest.

The log has no index by key. Where the jobs run, the lake's is a few seconds behind, and no more than
that is searched frame by frame; where they don't, the newest `SEARCHED_BYTES_MAX` are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute

from lakemq.gateway.cold.reader import ColdReader
from lakemq.model.errors import LogDamaged
from lakemq.storage.lake.cold_rows import ColdSlice, as_slice
from lakemq.storage.read.reader import PositionPlan
from lakemq.storage.read.store import Store
from lakemq.storage.segment.slice import Slice, frames_bytes
from lakemq.storage.slices.messages import to_dicts
from lakemq.web.asgi import Client
from lakemq.web.gate import Gate

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

WINDOW_POSITIONS = 50_000
WINDOW_BYTES = 16 * 1024 * 1024
SEARCHED_BYTES_MAX = 512 * 1024 * 1024
TRIES = 4
READ_AT_ONCE = 8
"""Messages may be large: only so many are in memory before it is seen what they take."""
SEARCHES_MAX = 2
WAITING_MAX = 64
"""So many searches are under way, and so many more wait for that; of one client no more than its share."""


class Sought(NamedTuple):
    """Messages of a topic with a key, stored at `begin_ms ≤ t ≤ end_ms`; the newest so many."""

    topic: str
    key: str
    begin_ms: int
    end_ms: int
    messages_max: int


class KeySearch:
    """Searches one broker's log and history."""

    def __init__(self, store: Store, cold: ColdReader, bytes_max: int, client_share: float) -> None:
        self._log = store.log
        self._reader = store.reader
        self._plans = store.plans
        self._cold = cold
        self._ids = store.ids
        self._bytes_max = bytes_max
        self._gate = Gate(SEARCHES_MAX, WAITING_MAX, client_share)

    async def find(self, sought: Sought, client: Client) -> tuple[list[dict[str, Any]], bool]:
        """The messages as the contract's JSON, newest first, and whether all was looked at: else there
        may be older ones. Raises `LakeUnreadable`, `LogDamaged`, `Busy`."""
        async with self._gate.place(client):
            return await self._find(sought)

    async def _find(self, sought: Sought) -> tuple[list[dict[str, Any]], bool]:
        times = sought.begin_ms, sought.end_ms
        found, whole = [], False
        for _ in range(TRIES):
            indexed, index_end = await self._cold.positions_of_key(sought.topic, sought.key, times, sought.messages_max)
            # What the lake query hasn't told yet may be another log's index. It is asked for no more than that.
            begin = max(self._log.min_position, min(index_end, self._log.compacted_position))
            gap = bool(index_end) and begin > index_end
            found, complete = await self._search(sought, begin)
            if complete:
                found += [position for position in indexed if position < begin]
            # Retention may have taken meanwhile what is between the index and the log, or was to be searched.
            whole = complete and not gap and self._log.min_position <= begin
            if whole or not complete:
                break
        messages, fitted = await self._read(sought, found[: sought.messages_max])
        return messages, whole and fitted

    async def _search(self, sought: Sought, begin: int) -> tuple[list[int], bool]:
        """The positions in the log from `begin` on, descending, as far as they were looked for."""
        begin = max(begin, await self._plans.position_at_time(sought.begin_ms, self._cold.run))
        last = await self._plans.position_at_time(sought.end_ms + 1, self._cold.run)
        end = min(self._log.visible_position, last)
        found: list[int] = []
        searched = 0
        while begin < end and len(found) < sought.messages_max:
            if searched > SEARCHED_BYTES_MAX:
                return found, False
            low = max(begin, end - WINDOW_POSITIONS)
            at = low
            in_window: list[int] = []
            while at < end:
                plan = await self._plans.positions(at, end, {sought.topic}, WINDOW_BYTES, self._cold.run)
                positions, at, size = await self._cold.run(lambda plan=plan: self._matching(plan, sought))
                in_window += positions
                searched += size
            found += reversed(in_window)
            end = low
        return found, True

    def _matching(self, plan: PositionPlan, sought: Sought) -> tuple[list[int], int, int]:
        slices, reached = self._reader.read_positions_up_to(plan, {sought.topic}, WINDOW_BYTES)
        found = [part.first_position + number for part in slices for number in rows_with_key(part, sought.key)]
        return found, max(reached, plan.begin + 1), frames_bytes(slices)

    async def _read(self, sought: Sought, positions: list[int]) -> tuple[list[dict[str, Any]], bool]:
        """The messages at the positions, which are descending, that may be read and have the key; and
        whether all of them had room."""
        messages: list[dict[str, Any]] = []
        size = 0
        for first in range(0, len(positions), READ_AT_ONCE):
            for message in await self.messages(positions[first : first + READ_AT_ONCE]):
                if size > self._bytes_max:
                    return messages, False
                if self._may_be_seen(message, sought):
                    messages.append(message)
                    size += len(message["body"])
        return messages, True

    def _may_be_seen(self, message: dict[str, Any], sought: Sought) -> bool:
        floor = self._log.topics.floor(message["topic"], message["queue_id"])
        return message["topic"] == sought.topic and sought.key in message["keys"] and message["queue_offset"] >= floor

    async def messages(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        """The messages at the positions, at most `READ_AT_ONCE`, from log and lake, newest first."""
        parts = await self._parts(sorted(positions))
        found = await self._cold.run(lambda: [message for part in parts for message in to_dicts(part, self._ids)])
        return sorted(found, key=lambda each: -each["position"])

    async def _parts(self, positions: list[int]) -> list[Slice | ColdSlice]:
        """The messages at the positions, ascending, from log and lake."""
        parts: list[Slice] = []
        hot = [position for position in positions if position >= self._log.min_position]
        plans = await self._plans.rows(hot, self._cold.run)
        while plans:
            found = await self._cold.run(lambda plans=plans: self._reader.read_rows(plans, WINDOW_BYTES))
            found.take_gone(self._log.min_position)
            if found.damaged:
                raise LogDamaged(f"the message at position {found.damaged[0]} can't be read: the log is damaged")
            for part in found.parts:
                parts += [Slice(part.frame, part.run_of(number), number, 1) for number in part.numbers]
            plans = await self._plans.rows(found.left, self._cold.run)
        # What has left the log meanwhile was read from it, or is in the lake: once, in any case.
        read = {part.first_position for part in parts}
        cold = [position for position in positions if position < self._log.min_position and position not in read]
        batch = await self._cold.messages(cold) if cold else None
        return [*parts, *([as_slice(batch)] if batch is not None and batch.num_rows else [])]


def rows_with_key(part: Slice, key: str) -> list[int]:
    """The numbers of the slice's rows that have the key."""
    batch = part.frame.batch
    if "keys" not in batch.schema.names:
        return []
    keys = batch.column("keys").slice(part.row, part.count)
    parents: pa.Array = pc.list_parent_indices(keys)
    return pc.unique(parents.filter(pc.equal(pc.list_flatten(keys), key))).to_pylist()
