"""What has left a broker's log, read from the lake: by queue and offset, position, time and key.

`held` in all calls is the position up to which the lake must hold the log, which is where the log
begins now: retention takes nothing that is not in the lake. So a lake that is not there, or is of another
broker, or of which a table is away, or holds less, is `LakeUnreadable`: a disk that isn't mounted yet must
not make a consumer pass over its history. Where nothing has left for a lake (`held` is 0), or nobody looked
whether it did (`lake.verify` is false), no lake is `None` in every answer. Rows that were deleted from the
lake are passed over.

All calls take a while and may be made in any thread. They raise `LakeUnreadable`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute

from lakemq.model.errors import LakeUnreadable
from lakemq.storage.lake.bounds import Between, Bounds, OneOf, equal, time_of
from lakemq.storage.lake.cold_rows import LAKE_MESSAGES, ColdSlice, as_cold, as_slice
from lakemq.storage.lake.delta_files import DeltaFiles, Version
from lakemq.storage.lake.row_groups import FileGone, RowGroups, TooMuch, empty
from lakemq.storage.state.message_ids import MessageIds

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute
T = TypeVar("T")

TRIES = 3
"""So often a read begins anew when a file of it was vacuumed meanwhile."""
ROOM = 4
"""What a pull reads takes at most so many times the memory that its bodies may."""
INDEX_SHARE = 4
"""One part in so many of the memory is for the small tables' row groups."""

_NAME = pa.dictionary(pa.int32(), pa.string())
_TIME = pa.timestamp("us", tz="UTC")
CONSUME_QUEUE: pa.Schema = pa.schema(
    [
        ("topic", _NAME),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("broker", _NAME),
        ("position", pa.int64()),
        ("size", pa.int32()),
        ("store_time", _TIME),
    ]
)
MESSAGE_INDEX: pa.Schema = pa.schema(
    [("topic", _NAME), ("key", pa.string()), ("broker", _NAME), ("position", pa.int64()), ("store_time", _TIME)]
)


class ColdPull(NamedTuple):
    """Offsets `begin ≤ o < end` of a queue, the first `messages_max` of them that are there, as far as
    their bodies take about `bytes_max`."""

    topic: str
    queue_id: int
    begin: int
    end: int
    messages_max: int
    bytes_max: int


class First(NamedTuple):
    """A queue's first message of those that are wanted. `stored_ms` None: its row doesn't say."""

    offset: int
    stored_ms: int | None


class History:
    """The lake in a folder, as far as it is one broker's."""

    def __init__(
        self,
        lake: Path,
        ids: MessageIds,
        cache_bytes: int,
        log_id: Callable[[], str] | None = None,
        is_verified: bool = True,
    ) -> None:
        """`log_id`: which log of the broker's; None: whichever the tables are of. `is_verified`: what left the log was
        seen in this lake before."""
        self._ids = ids
        self._lake, self._is_verified = lake, is_verified
        broker = self._broker = ids.broker
        self._messages = DeltaFiles(lake / "messages", broker, log_id)
        self._consume_queue = DeltaFiles(lake / "consume_queue", broker, log_id)
        self._message_index = DeltaFiles(lake / "message_index", broker, log_id)
        self._bodies = RowGroups(cache_bytes - cache_bytes // INDEX_SHARE)
        self._index = RowGroups(cache_bytes // INDEX_SHARE)

    def forget(self) -> None:
        """Keep nothing: what was read may have been erased since."""
        for table in (self._messages, self._consume_queue, self._message_index):
            table.forget()
        self._bodies.forget()
        self._index.forget()

    def _version(self, table: DeltaFiles, held: int) -> Version | None:
        version = table.version(held)
        if version is not None:
            return version
        if any(each.version(0) for each in (self._messages, self._consume_queue, self._message_index)):
            raise LakeUnreadable(
                f"the lake's table in {table.folder} is missing, or does not reach the log's beginning at {held}"
            )
        if held and self._is_verified:
            raise LakeUnreadable(
                f"no lake of this broker is in {self._lake}, which had everything below position {held}: is its disk"
                " mounted, is lake.dir right?"
            )
        return None

    # By queue --------------------------------------------------------------------------------

    def pull(self, wanted: ColdPull, held: int) -> tuple[list[ColdSlice], int] | None:
        """The messages, ascending, and the offset to go on with: above `begin`."""
        return self._anew(lambda: self._pull(wanted, held))

    def _pull(self, wanted: ColdPull, held: int) -> tuple[list[ColdSlice], int] | None:
        places, bodies = self._version(self._consume_queue, held), self._version(self._messages, held)
        if places is None or bodies is None:
            return None
        queue = self._queue(wanted.topic, wanted.queue_id)
        last = min(wanted.end, wanted.begin + wanted.messages_max) - 1
        found = self._places(places, queue | {"queue_offset": Between(wanted.begin, last)})
        if not found.num_rows:
            following = self._first(places, queue | {"queue_offset": Between(last + 1, wanted.end - 1)})
            return [], wanted.end if following is None else following.offset
        count = _fitting(found.column("size"), wanted.bytes_max)
        offsets, positions = found.column("queue_offset"), found.column("position")
        reached = last + 1 if count == found.num_rows else offsets[count - 1].as_py() + 1
        bounds = queue | {
            "position": Between(positions[0].as_py(), positions[count - 1].as_py()),
            "queue_offset": Between(offsets[0].as_py(), offsets[count - 1].as_py()),
        }
        try:
            batch = self._read(bodies, bounds, "queue_offset", ROOM * wanted.bytes_max if count > 1 else None)
        except TooMuch:  # not their bodies are large, but what else they have
            return self._pull(wanted._replace(messages_max=(count + 3) // 4), held)
        return ([as_slice(batch)] if batch.num_rows else []), reached

    def first(self, topic: str, queue_id: int, between: Between, held: int, time_ms: int = 0) -> First | None:
        """The queue's first message within the bounds that was stored at or after that time."""
        bounds: Bounds = {"queue_offset": between}
        if time_ms:
            bounds = {**bounds, "store_time": Between(time_of(time_ms), None)}

        def first() -> First | None:
            version = self._version(self._consume_queue, held)
            return None if version is None else self._first(version, self._queue(topic, queue_id) | bounds)

        return self._anew(first)

    def _queue(self, topic: str, queue_id: int) -> dict[str, Between | OneOf]:
        return {"topic": equal(topic), "broker": equal(self._broker), "queue_id": equal(queue_id)}

    def _places(self, version: Version, bounds: Bounds) -> pa.RecordBatch:
        batches = [
            batch.select(["queue_offset", "position", "size"])
            for file in version.files(bounds, "queue_offset")
            for batch in self._index.rows(file.path, CONSUME_QUEUE, bounds)
        ]
        schema = pa.schema([CONSUME_QUEUE.field(name) for name in ("queue_offset", "position", "size")])
        return _sorted(batches, schema, "queue_offset")

    def _first(self, version: Version, bounds: Bounds) -> First | None:
        """That of the least offset within the bounds. Files come in the order of what they may have least."""
        found: First | None = None
        for file in version.files(bounds, "queue_offset"):
            if found is not None and file.least is not None and file.least >= found.offset:
                break
            for batch in self._index.rows(file.path, CONSUME_QUEUE, bounds):
                offsets = batch.column("queue_offset")
                least = pc.min(offsets).as_py()
                if found is None or least < found.offset:
                    found = First(least, _stored_ms(batch, pc.index(offsets, least).as_py()))
        return found

    # By position and key ---------------------------------------------------------------------

    def messages(self, positions: Sequence[int], held: int) -> pa.RecordBatch | None:
        """The messages at these positions, ascending, at least one, as `COLD`; those that are there."""

        def read() -> pa.RecordBatch | None:
            version = self._version(self._messages, held)
            if version is None:
                return None
            bounds: Bounds = {"broker": equal(self._broker), "position": OneOf(positions)}
            return self._read(version, bounds, "position")

        return self._anew(read)

    def stretch(self, begin: int, end: int, held: int, bytes_max: int) -> tuple[pa.RecordBatch, int] | None:
        """The messages at positions `begin ≤ p < end`, ascending, as `COLD`, as far as they take about so many
        bytes of memory; and the position to go on with, above `begin`."""

        def read() -> tuple[pa.RecordBatch, int] | None:
            version, reached = self._version(self._messages, held), end
            if version is None:
                return None
            while True:
                bounds: Bounds = {"broker": equal(self._broker), "position": Between(begin, reached - 1)}
                try:
                    limit = bytes_max if reached - begin > 1 else None
                    return self._read(version, bounds, "position", limit), reached
                except TooMuch:
                    reached = begin + (reached - begin + 3) // 4

        return self._anew(read)

    def positions_of_key(
        self, topic: str, key: str, times: tuple[int, int], messages_max: int, held: int
    ) -> tuple[list[int], int] | None:
        """The positions of the newest messages of the topic with that key, descending, stored at
        `times[0] ≤ t ≤ times[1]` (ms); and the position up to which the index holds the log."""
        bounds: Bounds = {
            "topic": equal(topic),
            "broker": equal(self._broker),
            "key": equal(key),
            "store_time": Between(time_of(times[0]), time_of(times[1])),
        }

        def read() -> tuple[list[int], int] | None:
            version = self._version(self._message_index, held)
            if version is None:
                return None
            found: list[int] = []
            for file in version.files(bounds, "position"):
                for batch in self._index.rows(file.path, MESSAGE_INDEX, bounds):
                    found += batch.column("position").to_pylist()
                if len(found) > 2 * messages_max:
                    found = sorted(found, reverse=True)[:messages_max]
            return sorted(found, reverse=True)[:messages_max], version.held

        return self._anew(read)

    # -----------------------------------------------------------------------------------------

    def _read(self, version: Version, bounds: Bounds, order: str, bytes_max: int | None = None) -> pa.RecordBatch:
        """The table's rows within the bounds, as `COLD`, ascending; raises `LakeUnreadable` when two
        are the same message, and `TooMuch`."""
        batches: list[pa.RecordBatch] = []
        left = bytes_max
        for file in version.files(bounds, "position"):
            for batch in self._bodies.rows(file.path, LAKE_MESSAGES, bounds, left):
                batches.append(batch)
                left = None if left is None else max(left - batch.nbytes, 0)
        batch = as_cold(_sorted(batches, LAKE_MESSAGES, order), self._ids)
        positions = batch.column("position")
        if pc.count_distinct(positions).as_py() != batch.num_rows:
            raise LakeUnreadable(f"version {version.number} of {version.folder} has messages twice")
        return batch

    def _anew(self, read: Callable[[], T]) -> T:
        """What `read` returns; it begins anew when files that it wanted were vacuumed."""
        try:
            for _ in range(TRIES - 1):
                try:
                    return read()
                except FileGone:
                    self.forget()
            return read()
        except FileGone as gone:
            raise LakeUnreadable(f"the lake's file {gone} is missing") from None
        except (pa.ArrowException, TypeError, ValueError, KeyError, AttributeError) as error:
            raise LakeUnreadable(f"the lake's tables aren't as they are written: {error}") from None


def _stored_ms(batch: pa.RecordBatch, row: int) -> int | None:
    time = batch.column("store_time").slice(row, 1).cast(pa.timestamp("ms", tz="UTC"), safe=False)
    return time.cast(pa.int64())[0].as_py()


def _fitting(sizes: pa.Array, bytes_max: int) -> int:
    """How many messages of such sizes have about so many bytes together, at least one."""
    sums = pc.cumulative_sum(pc.fill_null(sizes, 0).cast(pa.int64()))
    return max(pc.sum(pc.less_equal(sums, bytes_max)).as_py() or 0, 1)


def _sorted(batches: list[pa.RecordBatch], schema: pa.Schema, by: str) -> pa.RecordBatch:
    """All rows in one batch, ascending."""
    if not batches:
        return empty(schema)
    if len(batches) == 1:
        batch = batches[0]
    else:
        found = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()
        if len(found) > 1:
            raise LakeUnreadable("messages of more than 2 GiB together were asked for")
        batch = found[0]
    keys = batch.column(by)
    if pc.all(pc.less(keys.slice(0, len(keys) - 1), keys.slice(1))).as_py() is not False:
        return batch
    return batch.take(pc.sort_indices(keys))
