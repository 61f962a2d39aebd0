"""Who reads far behind the end of the log, and at which follower: RocketMQ's `slaveReadEnable`,
`accessMessageInMemoryMaxRatio` and `suggestWhichBrokerId`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Readable(NamedTuple):
    """A follower that clients reach at `address`, and that has the positions `first ≤ p < end` on its disk."""

    address: str
    first_position: int
    end_position: int


def is_far(behind_bytes: int, bound_bytes: int) -> bool:
    """Whether a reader that has so many bytes of the log before it is to read at a follower. With a bound of 0
    nobody is."""
    return 0 < bound_bytes < behind_bytes


def place_to_read(followers: Sequence[Readable], first: int, last: int, turn: int) -> str:
    """The address of a follower that has the positions from `first` to `last`; empty: none has them. Of several the
    one whose `turn` it is: the same for the same number, while they are the same."""
    having = [each.address for each in followers if each.first_position <= first and last < each.end_position]
    return having[turn % len(having)] if having else ""
