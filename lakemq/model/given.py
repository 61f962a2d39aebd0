"""Beyond which positions a new leader begins, so that it gives none that somebody was told of by a leader before it.

Who leads under synchronous replication tells nobody of what isn't confirmed, and what is confirmed is on the disks of
all members. So a member that takes its place has all that was told: it may go on where its own log ends. It has to know
that by the leader of its log's last epoch, and for certain, so it keeps in a file in which epoch it was told so.

Of leaders in later epochs it needs to know nothing: each serves only once the first frame of its epoch is on the disks
of all members, and a member that has no such frame knows by that that nobody was told of anything. Of leaders before
that epoch neither: its first frame lies beyond all that they told.

Followers tell too, and what one of them has another may lack. So under synchronous replication they show nothing beyond
what is confirmed: no message, and no hole, after which every queue would seem to go on far beyond. And a leader that
waits for nobody may be followed by a member that takes its place without its first frame: until that is confirmed its
followers show no more than that either.

Whoever leads by order is no member, and may lack what was told. So it forgets what it was told first.
"""

from __future__ import annotations


def is_own_end_enough(epoch: int, confirming: int | None, is_elected: bool) -> bool:
    """Whether nobody was told of a position at or beyond the end of a log whose last frames are of that epoch, where it
    was another that gave them. `confirming`: the epoch whose leader is known to tell nobody of what isn't confirmed.
    `is_elected`: this replica leads by the record of which it was a member, or has forgotten `confirming`."""
    return is_elected and confirming == epoch


def may_show_all(waits: bool, first_position: int | None, confirmed: int) -> bool:
    """Whether a follower may show all that it has, and not only what is confirmed. `waits`: its leader tells nobody of
    what isn't. `first_position`: that of its leader's epoch; None: this log isn't in that epoch yet."""
    return not waits and first_position is not None and confirmed > first_position
