"""Which requests with an idempotency key were stored, for as long as the window is open.

The log is the truth: a key, its payload's digest and the request's result stand in the notes of the
frame that holds its messages. Here is only where to find them.
"""

from __future__ import annotations

import hashlib
import json
import logging
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable
from zlib import crc32

from crc32c import crc32c

from lakemq.model.errors import IdempotencyMismatch, LogDamaged, MessageNotFound, PositionGone
from lakemq.model.message import Placed
from lakemq.storage.log.appends import Key
from lakemq.storage.log.receiver import Stored
from lakemq.storage.read.plans import Aside, Plans
from lakemq.storage.read.reader import PositionPlan, Reader
from lakemq.storage.segment.segment_index import Note

logger = logging.getLogger(__name__)


LARGE_BYTES = 64 * 1024


def make_key(topic: str, key: str, *payload: bytes, user: str = "") -> Key:
    """The key of a request to `topic` by that user (empty: by nobody in particular), and the digest of all that makes
    its payload.

    For a large part stand its length and two CRCs: 64 bits against a key that is used twice by mistake,
    and whoever forges them fools nobody but himself. A digest of it all was a third of what the gateway
    spent on a batch.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in payload:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part if len(part) < LARGE_BYTES else _checksums(part))
    former = hashlib.blake2b(f"{topic}\0{key}".encode(), digest_size=16)
    # Set apart, as a key may hold anything: none of these names is a former one.
    name = hashlib.blake2b(f"{topic}\0{user}\0{key}".encode(), digest_size=16, person=b"of a user")
    return Key(name.hexdigest(), digest.hexdigest(), former.hexdigest())


def _checksums(part: bytes) -> bytes:
    return crc32(part).to_bytes(4, "little") + crc32c(part).to_bytes(4, "little")


class IdempotencyTable:
    """Keys of the last `window_ms`, at most `keys_max`: past that the oldest is forgotten early. What time it is
    now is steady time: a clock that jumps ahead must not make it forget."""

    def __init__(self, window_ms: int, keys_max: int) -> None:
        self._window_ms = window_ms
        self._keys_max = keys_max
        self._notes: OrderedDict[str, Note] = OrderedDict()
        self.forgotten_early = 0

    def add(self, notes: Iterable[Note]) -> None:
        """Enter notes of a frame, in the log's order."""
        for note in notes:
            self._notes.pop(note.key, None)
            self._notes[note.key] = note
        while len(self._notes) > self._keys_max:
            self._notes.popitem(last=False)
            self.forgotten_early += 1

    def load(self, reader: Reader, now_ms: int) -> None:
        """Enter what the log's segments hold of the window."""
        for segment in reader.segments():
            if segment.last_store_time_ms >= now_ms - self._window_ms:
                self.add(reader.index(segment).notes)
        self.expire(now_ms)

    def expire(self, now_ms: int) -> None:
        """Forget what is older than the window."""
        while self._notes:
            oldest = next(iter(self._notes.values()))
            if oldest.store_time_ms >= now_ms - self._window_ms:
                return
            del self._notes[oldest.key]

    def known(self, key: Key, now_ms: int) -> Note | None:
        """That the same request was stored; raises `IdempotencyMismatch` when the key came with another payload."""
        note = self._notes.get(key.key) or self._notes.get(key.former)
        if note is None or note.store_time_ms < now_ms - self._window_ms:
            return None
        if note.payload != key.payload:
            raise IdempotencyMismatch("this Idempotency-Key was used before, with another payload")
        return note


async def plan_result(note: Note, plans: Plans, aside: Aside) -> PositionPlan | None:
    """What to read for the result of the request; None when its messages have left the log. Raises `LogDamaged`,
    `Busy`."""
    try:
        return await plans.message(note.position, aside)
    except (MessageNotFound, PositionGone):
        return None


def read_result(
    note: Note, plan: PositionPlan, reader: Reader, floor: Callable[[str, int], int] = lambda topic, queue_id: 0
) -> Stored | None:
    """The request's result, or None when retention took its messages, or they were deleted with their topic, as is what
    is below a queue's `floor`; raises `LogDamaged` when it is lost: to store the request twice would be worse. In any
    thread."""
    try:
        frame = reader.read_message(plan).frame
    except (MessageNotFound, PositionGone):
        return None
    placed = json.loads(frame.meta.notes)[note.number]["placed"] if frame.meta.notes else None
    if placed is None:
        raise LogDamaged("this request was stored before; what it was answered is lost to damage of the log")
    stored = [Placed(*where) for where in placed]
    runs = frame.meta.runs
    for queue_id, offset, position in stored:
        run = runs[bisect_right(runs, position - frame.meta.first_position, key=lambda run: run.row) - 1]
        if offset < floor(run.topic, queue_id):
            return None
    return Stored(stored, frame.meta.store_time_ms)
