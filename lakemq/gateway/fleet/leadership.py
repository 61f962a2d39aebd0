"""Who leads and who is in sync, and whether the leader lives: one record and one beat, wherever they are kept."""

from __future__ import annotations

from typing import Protocol

from lakemq.model.beat import Beat
from lakemq.model.in_sync import Record


class Superseded(OSError):
    """No sign of life is taken: the record in the store doesn't name that replica as the leader of that epoch."""


class Leadership(Protocol):
    """One broker's record and its leader's beat, in a store that all its replicas ask. On one loop.

    Whatever asks raises `OSError` where the store can't be reached, doesn't answer in time, or answers something else;
    each answer comes within a bounded time, and nothing is asked on the loop. What can't be understood in the store
    raises `LogDamaged`: then who leads isn't known, and nobody may take it for nothing.
    """

    async def read(self) -> Record | None:
        """The record that is in force, as of a moment within the call; None: there never was one. What was in force
        before never is again. Where it fails, nothing has happened."""
        ...

    async def compare_and_set(self, record: Record) -> bool:
        """Put the record in force if it is the one that follows what is (`may_replace`); whether it is now. Of many
        that put the same version one is told True, and none where another's is in force. On return it survives what
        the store survives.

        Where it raises `OSError`, or is cancelled, the record may be in force, may come into force a little later, or
        never: who asks knows when `read` shows its version, or a later one. Then what is read is what counts.
        Asked again with the same record it says False, also where the first attempt did it.
        """
        ...

    async def watch(self, version: int, seconds: float) -> Record | None:
        """The record once its version is another than that, or after so many seconds: as of the last look at the store
        then, which may be a little old. It raises `OSError` only after these seconds, where the last look failed, so
        who asks again and again does no harm."""
        ...

    async def beat(self, beat: Beat) -> None:
        """Let all know that the leader lives. On return the record named that replica as the leader of that epoch at
        some moment since the call. Raises `Superseded` where it doesn't: then others hear nothing of it. After any
        other `OSError` they may have heard it, or may a little later."""
        ...

    async def last_beat(self) -> Beat | None:
        """The last one; None: there never was one. It may be of an epoch before the record's, whose leader is no
        more. Where it fails, nothing has happened."""
        ...

    async def close(self) -> None:
        """Ask no more; what the store has stays. What is under way may still be done, or not."""
        ...
