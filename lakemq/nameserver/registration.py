"""What the replicas of one broker say of themselves, and what of it clients are shown. Pure rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lakemq.model.primary import FOLLOWER, PRIMARY, Claim, foremost_of, primary_of


class Share(NamedTuple):
    """What a broker has of a topic. `permission`: `rw`, `r` or `w`."""

    queues: int
    permission: str


class Registration(NamedTuple):
    """What one replica says. `permission` is the broker's, for all topics."""

    cluster: str
    address: str
    role: str
    epoch: int
    log_id: str
    permission: str
    topics: Mapping[str, Share]


class ShownReplica(NamedTuple):
    """A replica, as clients are shown it: at most one of a broker's is its primary."""

    replica: int
    address: str
    role: str
    epoch: int


class Shown(NamedTuple):
    """A broker, as clients are shown it. Equal ones are the same to every client."""

    cluster: str
    replicas: tuple[ShownReplica, ...]
    topics: Mapping[str, Share]


def show(replicas: Mapping[int, Registration]) -> Shown:
    """What clients are shown of a broker with these replicas, of which there is one at least.

    For the broker speaks its primary, and without one the foremost: what there is to read is there.
    """
    primary = primary_of(replicas.items(), _claim_of)
    speaker = primary or foremost_of(replicas.items(), _claim_of)
    assert speaker is not None
    shown = tuple(
        ShownReplica(number, told.address, PRIMARY if primary and number == primary[0] else FOLLOWER, told.epoch)
        for number, told in sorted(replicas.items())
    )
    told = speaker[1]
    return Shown(told.cluster, shown, narrowed(told.topics, told.permission))


def _claim_of(item: tuple[int, Registration]) -> Claim:
    return Claim(item[0], item[1].role, item[1].epoch)


def narrowed(topics: Mapping[str, Share], permission: str) -> Mapping[str, Share]:
    """The topics, each with what the broker's permission leaves of its own; without those of which it leaves nothing:
    nobody has anything to do with them there."""
    if permission == "rw":
        return topics
    return {
        topic: Share(queues, left)
        for topic, (queues, own) in topics.items()
        if (left := "".join(each for each in own if each in permission))
    }
