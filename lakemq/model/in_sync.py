"""Who of a broker's replicas is in sync: one record, changed by compare-and-set, and the rules by which its leader
changes it. docs/fleet.md, "Synchronous replication", has them with what they guarantee.

A member has all that is confirmed on its own disk, and confirmed is what all members have. So the set shrinks before
anything is confirmed without the member, and whoever is to join counts before it is a member: what is confirmed
meanwhile it has, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

NEAR_PART = 10
"""Who is behind by less than this part of the time after which a member is let go may join: so long at most those who
wait for what is confirmed may wait for it."""
RETIRED_MAX = 16
"""So many incarnations of a replica that were replaced are remembered."""


class Member(NamedTuple):
    """A replica, in one stretch of its life: what it says counts for that one alone."""

    replica: int
    incarnation: str


class Record(NamedTuple):
    """Who leads, under which epoch, and who is in sync: the leader is one of `members`, which ascend. All of that is
    about the log of that id. `missing`: the replicas, ascending, that were members, aren't, and may come back; no
    promise rests on it, and versions that don't know it leave it out."""

    leader: int
    epoch: int
    version: int
    members: tuple[Member, ...]
    log_id: str
    missing: tuple[int, ...] = ()

    @property
    def replicas(self) -> list[int]:
        """Those of its members."""
        return [each.replica for each in self.members]


def record_of(fields: Mapping[str, Any]) -> Record:
    """The record whose fields JSON gave back. Raises `ValueError`."""
    try:
        members = tuple(Member(int(replica), str(incarnation)) for replica, incarnation in fields["members"])
        numbers = int(fields["leader"]), int(fields["epoch"]), int(fields["version"])
        missing = tuple(int(replica) for replica in fields.get("missing", ()))
        return Record(*numbers, members, str(fields["log_id"]), missing)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"this is no record of who leads: {error!r}") from None


def grown(record: Record, member: Member) -> Record:
    """The record with one member more."""
    return with_members(record, sorted([*record.members, member]))


def shrunk(record: Record, gone: Iterable[Member]) -> Record:
    """The record without these members; never without its leader."""
    left = set(gone)
    return with_members(record, [each for each in record.members if each not in left or each.replica == record.leader])


def begun(record: Record | None, leader: Member, epoch: int, log_id: str) -> Record:
    """The record as its leader begins with it and its log, in an epoch and as an incarnation of its own."""
    if record is None:
        return Record(leader.replica, epoch, 0, (leader,), log_id)
    others = [each for each in record.members if each.replica != leader.replica]
    return with_members(record, sorted([*others, leader]))._replace(leader=leader.replica, epoch=epoch, log_id=log_id)


def forgotten(record: Record, replicas: Iterable[int]) -> Record:
    """The record in which these aren't missing any more: they won't be back."""
    missing = tuple(each for each in record.missing if each not in set(replicas))
    return record._replace(version=record.version + 1, missing=missing)


def with_members(record: Record, members: Iterable[Member]) -> Record:
    """The record of the next version, with these members; who was one and isn't is missing."""
    left = tuple(members)
    missing = {*record.missing, *record.replicas}.difference(each.replica for each in left)
    return record._replace(version=record.version + 1, members=left, missing=tuple(sorted(missing)))


def may_replace(new: Record, current: Record | None) -> bool:
    """Whether a compare-and-set puts the new record in the current one's place: nobody else has changed it."""
    return current is None or new.version == current.version + 1


def confirmed(before: int, end: int, bound: int | None) -> int:
    """What is confirmed, where the leader's disk has the log up to `end` and those of all others that count have it
    up to `bound`; None: there are none. It never goes back."""
    return max(before, end if bound is None else min(end, bound))


@dataclass
class _Follower:
    """What is known of a replica."""

    member: Member
    heard_ms: int
    target: int
    """Where the leader's log ended when this one last had all that there was before: at `since_ms`."""
    since_ms: int
    durable: int = 0
    near: bool = False
    has_left: bool = False
    """It said that it stops, and was not heard since."""

    def look(self, end: int, now_ms: int) -> None:
        """It has its target, or not yet."""
        if self.durable >= self.target:
            self.target, self.since_ms = end, now_ms


class InSync:
    """The set of one leader: `record` is in force, `proposed` may be, and `joining` is to be proposed. Times are ms
    of a clock that nobody sets; `end` is how far the leader's own disk has the log."""

    def __init__(self, record: Record, silent_ms: int, now_ms: int) -> None:
        """Members that aren't heard of for `silent_ms`, or lack what the leader had so long ago, are let go."""
        self.record = record
        self.proposed: Record | None = None
        self.joining: Member | None = None
        self._silent_ms = silent_ms
        self._followers = {
            each.replica: _Follower(each, now_ms, 0, now_ms) for each in record.members if each.replica != record.leader
        }
        self._retired: dict[int, deque[str]] = {}
        self._forgotten: set[int] = set()

    # What followers say ----------------------------------------------------------------------

    def hear(self, member: Member, epoch: int, durable: int, end: int, now_ms: int) -> bool:
        """The member has the log up to `durable` on its disk, in that epoch. False where that counts for nothing: the
        replica has come back as another since, or it claims what the leader doesn't have."""
        replica, incarnation = member
        if replica == self.record.leader or incarnation in self._retired.get(replica, ()) or durable > end:
            return False
        known = self._followers.get(replica)
        if known is None or known.member != member:
            if known is not None:
                self._retired.setdefault(replica, deque(maxlen=RETIRED_MAX)).append(known.member.incarnation)
            known = self._followers[replica] = _Follower(member, now_ms, end, now_ms)
        known.heard_ms, known.has_left = now_ms, False
        if epoch == self.record.epoch:
            known.durable = max(known.durable, durable)
            is_quick = now_ms - known.since_ms <= self._silent_ms // NEAR_PART
            known.near = known.durable >= end or (known.durable >= known.target and is_quick)
            known.look(end, now_ms)
        return True

    def leave(self, member: Member, epoch: int, end: int) -> bool:
        """The member stops, with a log that ends there: it is let go as one is that has fallen silent, and counts until
        then as that one does. False where that is said in another life than its current one, in another epoch, or was
        long on its way, as more of its log was heard of since: it counts for nothing."""
        known = self._followers.get(member.replica)
        if known is None or known.member != member or epoch != self.record.epoch or end < known.durable:
            return False
        known.has_left = True
        return True

    def excuse(self, gap_ms: int, now_ms: int) -> None:
        """The leader itself stood still for so long, until now: nobody could be heard."""
        for each in self._followers.values():
            each.heard_ms = min(each.heard_ms + gap_ms, now_ms)
            each.since_ms = min(each.since_ms + gap_ms, now_ms)

    def forget(self, replica: int) -> None:
        """It isn't a member, and won't be back; when it is heard all the same, it is as if for the first time."""
        if replica not in self.record.replicas and (self.proposed is None or replica not in self.proposed.replicas):
            self._forgotten.update({replica}.intersection(self.record.missing))
            self._followers.pop(replica, None)
            if self.joining is not None and self.joining.replica == replica:
                self.joining = None

    @property
    def missing(self) -> list[int]:
        """The replicas that were members, aren't, and weren't forgotten."""
        return [each for each in self.record.missing if each not in self._forgotten]

    def knows(self, member: Member) -> bool:
        """Whether it is the replica's current incarnation."""
        known = self._followers.get(member.replica)
        return known is not None and known.member == member

    def heard_last(self, now_ms: int) -> Member | None:
        """The member beside the leader that was heard of last, and is well; None: there is none."""
        others = [each for each in self.record.members if each.replica != self.record.leader]
        well = [each for each in others if self._is_well(each, now_ms)]
        return max(well, key=lambda each: self._followers[each.replica].heard_ms, default=None)

    # What is confirmed -----------------------------------------------------------------------

    def bound(self) -> int | None:
        """How far all others that count have the log on disk: members, also of a set that is only proposed, and who
        is joining. None: there are none."""
        return min((self.durable(each) for each in self._counted()), default=None)

    @property
    def others(self) -> set[Member]:
        """Who counts beside the leader."""
        return self._counted()

    def _counted(self) -> set[Member]:
        counted = set(self.record.members)
        if self.proposed is not None:
            counted.update(self.proposed.members)
        if self.joining is not None:
            counted.add(self.joining)
        return {each for each in counted if each.replica != self.record.leader}

    def durable(self, member: Member) -> int:
        """How far a follower has the log on disk, as it said; 0: nothing is known of it."""
        known = self._followers.get(member.replica)
        return known.durable if known is not None and known.member == member else 0

    # Changing the set ------------------------------------------------------------------------

    def propose(self, end: int, confirmed_position: int, now_ms: int) -> Record | None:
        """The record that is to be in force next, to be given to a compare-and-set; None: it is as it should be. What
        was proposed stays so until `settle` says what became of it."""
        for each in self._followers.values():
            each.look(end, now_ms)
        if self.proposed is None:
            gone = [each for each in self._counted() if each != self.joining and not self._is_well(each, now_ms)]
            self.proposed = shrunk(self.record, gone) if gone else self._growth(confirmed_position, now_ms)
        if self.proposed is None and self._forgotten:
            self.proposed = forgotten(self.record, self._forgotten)
        return self.proposed

    def _growth(self, confirmed_position: int, now_ms: int) -> Record | None:
        if self.joining is not None and not self._is_well(self.joining, now_ms):
            self.joining = None  # it was never proposed
        if self.joining is None:
            self.joining = self._candidate(now_ms)
        if self.joining is None or self.durable(self.joining) < confirmed_position:
            return None
        joining, self.joining = self.joining, None
        return grown(self.record, joining)

    def _candidate(self, now_ms: int) -> Member | None:
        members = self.record.members
        found = (each.member for each in self._followers.values() if each.near and each.member not in members)
        return next((each for each in found if self._is_well(each, now_ms)), None)

    def _is_well(self, member: Member, now_ms: int) -> bool:
        known = self._followers.get(member.replica)
        if known is None or known.member != member or known.has_left:
            return False
        return max(now_ms - known.heard_ms, now_ms - known.since_ms) <= self._silent_ms

    @property
    def is_alone(self) -> bool:
        """Whether nobody else may be a member."""
        return len(self.record.members) == 1 and (self.proposed is None or len(self.proposed.members) == 1)

    def is_own(self, record: Record) -> bool:
        """Whether it is of the same leader, in the same epoch: who was replaced goes by no record any more."""
        return (record.leader, record.epoch) == (self.record.leader, self.record.epoch)

    def settle(self, record: Record) -> None:
        """This record, which `is_own`, is in force for certain."""
        self.record = record
        self._forgotten.intersection_update(record.missing)
        if self.proposed is not None and record.version >= self.proposed.version:
            self.proposed = None
