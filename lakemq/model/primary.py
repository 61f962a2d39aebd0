"""Which of a broker's replicas is its primary: the one rule that name servers, clients and jobs go by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

PRIMARY, FOLLOWER = "primary", "follower"

R = TypeVar("R")


class Claim(NamedTuple):
    """What a replica says that it is: its number, its role, and the epoch of its log."""

    replica: int
    role: str
    epoch: int


def primary_of(replicas: Iterable[R], claim_of: Callable[[R], Claim]) -> R | None:
    """Of one broker's replicas that say they are the primary, the foremost: one of a lower epoch doesn't know yet that
    it was replaced. None where none says so."""
    return foremost_of((each for each in replicas if claim_of(each).role == PRIMARY), claim_of)


def foremost_of(replicas: Iterable[R], claim_of: Callable[[R], Claim]) -> R | None:
    """The one of the highest epoch, and of several such, that of the lowest number: everybody who asks finds the same
    one, in whatever order they are named. None of none."""

    def rank(replica: R) -> tuple[int, int]:
        claim = claim_of(replica)
        return -claim.epoch, claim.replica

    return min(replicas, key=rank, default=None)
