"""The record of who leads and who is in sync, wherever it is kept."""

from __future__ import annotations

from typing import Protocol

from lakemq.model.in_sync import Record


class Leadership(Protocol):
    """One broker's record. All that asks for it raises `OSError` where it can't be reached; a compare-and-set may be
    done then, or not."""

    async def read(self) -> Record | None:
        """The record that is in force; None: there never was one. What was in force before never is again."""
        ...

    async def compare_and_set(self, record: Record) -> bool:
        """Put the record in force if it is the one that follows what is (`may_replace`); whether it is now. On return
        it survives what the store survives."""
        ...

    async def watch(self, version: int, seconds: float) -> Record | None:
        """The record once its version is another than that, or after so many seconds."""
        ...
