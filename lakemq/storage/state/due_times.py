"""When each scheduled message is due: what a listing says, and what a wide slot of the index is sorted by.

The log says it too, beside the bodies: here it is found without a look at them. 8 bytes a message, 12 where the due
times of neighbours in the log are more than 49 days apart.
"""

from __future__ import annotations

import base64
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain, islice, takewhile
from typing import Any, NamedTuple

from pyroaring import BitMap64

from lakemq.storage.segment.large_json import to_base64

CHUNK = 4_096
"""So few that to make one holds up the loop for less than a millisecond."""
TIDIED_MAX = 8
LOOKED_MAX = 128
"""So many chunks are written anew in one `tidy`, and so many are looked at: it holds up the loop."""
NOT_KNOWN = 0
"""The due time of what nobody noted: at once, as who reads the message finds when it is due."""
_NARROW, _WIDE = "I", "Q"


class Chunk(NamedTuple):
    """Positions, ascending, and when each is due: both as distances from the least. Nothing in it is ever changed."""

    first: int
    positions: array[int]
    base_ms: int
    dues: array[int]
    span_ms: int
    """The greatest of `dues`."""

    @property
    def last(self) -> int:
        return self.first + self.positions[-1]

    def set(self) -> BitMap64:
        return BitMap64([self.first + at for at in self.positions])

    def rows(self) -> Iterator[tuple[int, int]]:
        """`(position, due)` of each."""
        first, base_ms = self.first, self.base_ms
        return ((first + at, base_ms + due) for at, due in zip(self.positions, self.dues, strict=True))


class DueTimes:
    """Due times in ms by position. It may hold some that wait no more: who takes from it says what waits."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._tidied = 0
        # The newest.
        self._positions = array("q")
        self._dues = array("q")

    def __len__(self) -> int:
        return sum(len(chunk.dues) for chunk in self._chunks) + len(self._dues)

    def add(self, first: int, dues_ms: Sequence[int]) -> None:
        """The positions from `first` on, which are beyond all others, are due then."""
        for begin in range(0, len(dues_ms), CHUNK):
            some = dues_ms[begin : begin + CHUNK]
            self._extend(range(first + begin, first + begin + len(some)), some)

    def _extend(self, positions: Sequence[int], dues_ms: Sequence[int]) -> None:
        self._positions.extend(positions)
        self._dues.extend(dues_ms)
        if len(self._dues) >= CHUNK:
            self._seal()

    def _seal(self) -> None:
        self._chunks += self._newest()
        self._positions, self._dues = array("q"), array("q")

    def _newest(self) -> list[Chunk]:
        if not self._dues:
            return []
        base_ms = min(self._dues)
        positions, dues = _packed(self._positions, self._positions[0]), _packed(self._dues, base_ms)
        return [Chunk(self._positions[0], positions, base_ms, dues, max(dues))]

    def of(self, position: int) -> int:
        """When that one is due, or `NOT_KNOWN`."""
        if self._positions and position >= self._positions[0]:
            at = bisect_left(self._positions, position)
            return self._dues[at] if self._positions[at : at + 1] == array("q", [position]) else NOT_KNOWN
        number = bisect_left(self._chunks, position, key=lambda chunk: chunk.last)
        if number == len(self._chunks) or position < self._chunks[number].first:
            return NOT_KNOWN
        first, positions, base_ms, dues, _ = self._chunks[number]
        at = bisect_left(positions, position - first)
        return base_ms + dues[at] if positions[at] == position - first else NOT_KNOWN

    def between(self, after: int, begin_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
        """`(position, due)` of those beyond `after` that are due then, before `end_ms`, ascending by position."""
        for chunk in chain(self._chunks, self._newest()):
            low, high = begin_ms - chunk.base_ms, end_ms - chunk.base_ms
            if chunk.last <= after or high <= 0 or low > chunk.span_ms:
                continue
            for at, due in zip(chunk.positions, chunk.dues, strict=True):
                if low <= due < high and chunk.first + at > after:
                    yield chunk.first + at, chunk.base_ms + due

    def chunks(self) -> Iterator[Chunk]:
        """All of it, for who looks at all: of a copy, in a thread."""
        return chain(self._chunks, self._newest())

    # Keeping ---------------------------------------------------------------------------------

    def tidy(self, waiting: BitMap64) -> None:
        """Forget what waits no more, where that is most of a chunk: of some chunks, and of others the next time."""
        begin = self._tidied if self._tidied < len(self._chunks) else 0
        end = begin + LOOKED_MAX
        is_last = end >= len(self._chunks)
        tidied = DueTimes()
        written = 0
        for chunk in self._chunks[begin:end]:
            left = waiting.range_cardinality(chunk.first, chunk.last + 1)
            if left and (2 * left >= len(chunk.dues) or written == TIDIED_MAX):
                tidied._take(chunk)
            elif left:
                written += 1
                kept = set(chunk.set() & waiting)
                rows = [(position, due) for position, due in chunk.rows() if position in kept]
                if rows:
                    tidied._extend(*zip(*rows, strict=True))
        if tidied._dues:
            tidied._seal()
        self._chunks[begin:end] = tidied._chunks
        # From the front again after the last: new ones come all the time, and the first would never be looked at else.
        self._tidied = 0 if is_last else begin + len(tidied._chunks)

    def _take(self, chunk: Chunk) -> None:
        """Have the chunk, which is beyond all others, too."""
        if len(chunk.dues) < CHUNK // 2:
            self._extend(*zip(*chunk.rows(), strict=True))
        else:
            self._seal()
            self._chunks.append(chunk)

    def copy(self) -> DueTimes:
        """All as it is now."""
        copied = DueTimes()
        copied._chunks, copied._positions, copied._dues = self._chunks[:], self._positions[:], self._dues[:]
        return copied

    def dump(self, waiting: BitMap64) -> list[list[Any]]:
        """When each of `waiting` is due, in their order, as JSON values."""
        dumped: list[list[Any]] = []
        begin = 0
        for chunk in chain(self._chunks, self._newest()):
            count = waiting.range_cardinality(begin, chunk.last + 1)
            if count == len(chunk.dues) and chunk.set() <= waiting:
                dumped.append(_dumped(chunk.base_ms, chunk.dues))
            elif count:
                known = dict(chunk.rows())
                dumped.append(_dumped_of([known.get(each, NOT_KNOWN) for each in _range(waiting, begin, chunk.last)]))
            begin = chunk.last + 1
        beyond = [NOT_KNOWN for _ in waiting.iter_equal_or_larger(begin)] if waiting and waiting.max() >= begin else []
        return [*dumped, _dumped_of(beyond)] if beyond else dumped

    def restore(self, dumped: list[list[Any]], waiting: BitMap64) -> None:
        """Become what `dump` said of `waiting`."""
        self.__init__()
        positions = iter(waiting)
        for base_ms, width, text in dumped:
            dues = array(_WIDE if width == array(_WIDE).itemsize else _NARROW)
            dues.frombytes(base64.b64decode(text))
            own = array("q", islice(positions, len(dues)))
            self._take(Chunk(own[0], _packed(own, own[0]), base_ms, dues, max(dues)))

    def restore_coarsely(self, index: Iterator[tuple[int, BitMap64]], waiting: BitMap64) -> None:
        """Become what an index knows, as `(begin of a slot in ms, positions in it)`, where a state is from before there
        was this."""
        self.__init__()
        begins = {position: begin_ms for begin_ms, positions in index for position in positions}
        for position in waiting:
            self._extend((position,), (begins.get(position, NOT_KNOWN),))


def _range(waiting: BitMap64, begin: int, last: int) -> Iterator[int]:
    return takewhile(lambda position: position <= last, waiting.iter_equal_or_larger(begin))


def _packed(numbers: Sequence[int], base: int) -> array[int]:
    width = _NARROW if max(numbers) - base < 2**32 else _WIDE
    return array(width, [number - base for number in numbers])


def _dumped_of(dues: list[int]) -> list[Any]:
    base_ms = min(dues)
    return _dumped(base_ms, _packed(dues, base_ms))


def _dumped(base_ms: int, dues: array[int]) -> list[Any]:
    return [base_ms, dues.itemsize, to_base64(dues.tobytes())]
