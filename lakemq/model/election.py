"""Who leads next: the rules by which a replica takes the lead, and by which it gives it up. docs/fleet.md, "The
switch", has them with what they guarantee.

Whoever is in the record has all that is confirmed on its own disk. So any of them may lead, and nobody else; and it
takes the lead by the compare-and-set that the leader before it would need to let it go.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from lakemq.model.beat import Beat
from lakemq.model.in_sync import Member, Record, with_members

FIRST_REPLICA = 0
"""Who begins where there is no record yet. No other does: one that had an older log would put it in the newer one's
place."""
DELAY_PART = 5
"""A candidate waits for up to this part of the lease before it proposes, so that two seldom do at once."""


class Seal(NamedTuple):
    """What a candidate has promised before it proposed the record of that version: to serve no epoch below this one."""

    epoch: int
    version: int

    def holds(self, record: Record | None) -> bool:
        """Whether what was proposed is in force, or may still come into force: nothing of that version, or of a later
        one, is."""
        return record is None or record.version < self.version


class Own(NamedTuple):
    """What a replica knows of itself. `lives`: the incarnations that its folder has been; `epoch`: the highest that it
    saw in force; `log_id`: empty where it has no log."""

    replica: int
    lives: Collection[str]
    epoch: int
    log_id: str


class Standing(Enum):
    """What a replica is by the record."""

    FIRST = "first"
    """There is no record, and it begins one."""
    MEMBER = "member"
    """It may lead."""
    OUTSIDE = "outside"
    """It has to follow until it is in sync."""
    WAITING = "waiting"
    """There is no record, and another begins it."""
    REFUSING = "refusing"
    """The record is older than what it saw in force: whoever goes by it would undo what was confirmed since."""


def standing_of(own: Own, record: Record | None) -> Standing:
    """What the replica is by that record."""
    if (record.epoch if record is not None else 0) < own.epoch:
        return Standing.REFUSING
    if record is None:
        return Standing.FIRST if own.replica == FIRST_REPLICA else Standing.WAITING
    return Standing.MEMBER if may_lead(own, record) else Standing.OUTSIDE


def may_lead(own: Own, record: Record) -> bool:
    """Whether the replica's disk has all that is confirmed: it is a member, and its folder is still that member's."""
    if own.log_id != record.log_id:
        return False
    return any(each.replica == own.replica and each.incarnation in own.lives for each in record.members)


def elected(record: Record, member: Member) -> Record:
    """What a candidate proposes: it leads in the next epoch, with those who were members, but for the leader before it,
    which is in sync again when it follows."""
    gone = (member.replica, record.leader)
    return _led_by(record, member, [each for each in record.members if each.replica not in gone])


def switched(record: Record, to: Member) -> Record:
    """What a leader proposes that hands over to a member which has all that there is: all stay in sync."""
    return _led_by(record, to, [each for each in record.members if each.replica != to.replica])


def forced(record: Record, member: Member, epoch: int) -> Record:
    """What is put in force by order, where nobody may lead: that replica leads with what it has, alone. `epoch`: the
    highest that it knows of."""
    return _led_by(record, member, [])._replace(epoch=max(record.epoch, epoch) + 1)


def _led_by(record: Record, member: Member, others: list[Member]) -> Record:
    led = with_members(record, sorted([*others, member]))
    return led._replace(leader=member.replica, epoch=record.epoch + 1)


def leads_by(record: Record, own: Record) -> bool:
    """Whether it is `own` that is in force, or was until others came in sync, or were let go, since: the same member
    leads in the same epoch."""
    return _lead(record) == _lead(own)


def _lead(record: Record) -> object:
    # With the incarnation: two that are taken for the same replica may both begin with the first epoch.
    leads = [each for each in record.members if each.replica == record.leader]
    return record.leader, record.epoch, record.log_id, leads


def delay_ms(chance: float, lease_ms: int) -> int:
    """So long a candidate waits before it proposes; `chance` is from 0 to 1."""
    return int(chance * lease_ms / DELAY_PART)


@dataclass
class Pulse:
    """Whether a leader lives, as who hears its beats knows it: by its own clock, in ms, and nobody else's."""

    lease_ms: int
    _seen: tuple[Record | None, Beat | None] | None = None
    _since_ms: int = 0
    _looked_ms: int = 0

    def see(self, record: Record | None, beat: Beat | None, now_ms: int, read_ms: int | None = None) -> None:
        """These were found in the store by a look that began at `now_ms`, and had read them by `read_ms`: a beat that
        is new was sent before that. Who stood still itself begins to count anew: the leader may have stood still with
        it."""
        seen = record, beat if beat is not None and beat.is_of(record) else None
        gap_ms, self._looked_ms = now_ms - self._looked_ms, now_ms
        if _what(seen) != _what(self._seen) or gap_ms > self.lease_ms:
            self._since_ms = now_ms if read_ms is None else read_ms
        self._seen = seen

    @property
    def silent_ms(self) -> int:
        """So long nothing was heard, as of the last look."""
        return 0 if self._seen is None else self._looked_ms - self._since_ms

    def is_dead(self) -> bool:
        """Whether nothing was heard for as long as the leader may lead without a beat."""
        return self.silent_ms >= self.lease_ms


def _what(seen: tuple[Record | None, Beat | None] | None) -> object:
    """Of a record only who leads: that others are in sync may have been written by a leader that is dead now."""
    if seen is None:
        return None
    record, beat = seen
    return None if record is None else (record.leader, record.epoch, beat)


def serves_from_ms(
    judged: Beat | None, found: Beat | None, epoch: int, read_ms: int, lease_ms: int, comes_back: bool
) -> int:
    """From when on a successor may acknowledge what no follower has, by its own clock: the leader before it may have a
    lease still. `judged`: the last beat by which that one was held for dead; `found`: the one that the store had, and
    this one had read by `read_ms`, after the record was in force by which it leads, in `epoch`, and before it beat
    itself. `comes_back`: the record named it when it started, so it held nobody for dead.

    A leader's beat renews its lease only where the record named it still, as read after the beat had arrived. So a beat
    that renewed a lease had arrived before the successor's record came into force, and is found; and it was sent before
    it was read. Unless one who led before, and stood still as it was to beat, has put its own in that one's place: a
    beat of another epoch than the last says nothing. Who comes back may have crashed between its record and that look,
    or after it, before the lease was over; a beat of its own says nothing of that, as it beats while it waits.
    """
    says_it = found is None or found.epoch == epoch - 1
    return read_ms if found == judged and says_it and not comes_back else read_ms + lease_ms


@dataclass
class Lease:
    """For how long a leader may take for granted that nobody leads in its place, by the clock that it counts beats by,
    in ms. A follower counts from when it first saw the last beat, which was sent before."""

    lease_ms: int
    _sent_ms: int | None = None

    def renew(self, sent_ms: int) -> None:
        """The beat that was sent then has arrived, and the record named this leader still when it was read then."""
        self._sent_ms = sent_ms if self._sent_ms is None else max(self._sent_ms, sent_ms)

    def is_renewed_since(self, since_ms: int) -> bool:
        """Whether a beat that was sent then or later has arrived."""
        return self._sent_ms is not None and self._sent_ms >= since_ms

    def holds(self, now_ms: int) -> bool:
        """Whether it still does."""
        return self._sent_ms is not None and now_ms - self._sent_ms < self.lease_ms
