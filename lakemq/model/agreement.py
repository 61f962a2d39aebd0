"""Up to which position two logs of one id are the same, by the epochs of their lives.

An epoch has one writer, which goes on where the log that it has ends: so who has a frame of an epoch has all that was
there as the frame was written, and two logs that both have an epoch are the same up to where the first of them leaves
it. That is the rule by which followers of Apache Kafka cut their logs: KIP-101 ("OffsetsForLeaderEpoch"), and KIP-279,
which has the follower walk down the epochs until it comes to one that its leader has too. There the follower asks for
one epoch at a time. Here both have the whole list, so it is read from its beginning: who has begun an epoch of the same
number at another position, which no election lets happen, has agreed only on what was before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

Epoch = tuple[int, int]
"""Its number, and its first position."""


class History(NamedTuple):
    """A log's epochs, ascending in both numbers, and the position that follows its last message. The oldest ones may
    be left out; there is one at least."""

    epochs: tuple[Epoch, ...]
    end: int

    def end_of(self, number: int) -> int:
        """The position with which the epoch at that place of the list ends."""
        return self.epochs[number + 1][1] if number + 1 < len(self.epochs) else self.end


def agreed(own: History, its: History) -> int | None:
    """The position up to which both are the same log, one of them ends or goes on otherwise there. None: their lists
    don't tell, as the oldest epoch that both should have isn't in both."""
    oldest = max(own.epochs[0], its.epochs[0])
    if oldest not in own.epochs or oldest not in its.epochs:
        return None
    at, its_at = own.epochs.index(oldest), its.epochs.index(oldest)
    while own.epochs[at + 1 : at + 2] == its.epochs[its_at + 1 : its_at + 2] != ():
        at, its_at = at + 1, its_at + 1
    return min(own.end_of(at), its.end_of(its_at))


def goes_on(epochs: Sequence[Epoch], epoch: int, end: int) -> bool:
    """Whether another log, which ends there in that epoch, is the beginning of the one with these epochs. True also
    where all of them are later, and so don't tell, and in the last of them beyond its end: that is known otherwise."""
    at = bisect_right(epochs, (epoch, end)) - 1
    if at < 0:
        return True
    return epochs[at][0] == epoch and (at + 1 == len(epochs) or end <= epochs[at + 1][1])


def may_share(epochs: Sequence[Epoch], epoch: int, end: int) -> Epoch:
    """For another log that ends there in that epoch, and doesn't go on (`goes_on`) in the one with these epochs: the
    last epoch that both may share, and the position up to which they may, at most `end`. The other one leaves what it
    has after that, or of later epochs, and asks once more."""
    at = bisect_right(epochs, (epoch, end)) - 1
    while at > 0 and epochs[at][1] > end:
        at -= 1
    return epochs[at][0], min(end, epochs[at + 1][1]) if at + 1 < len(epochs) else end
