"""What an election asks of the follower of the moment."""

from __future__ import annotations

from typing import Protocol


class Following(Protocol):
    """The follower of the moment."""

    @property
    def unwritable(self) -> str | None:
        """Why its log takes nothing now: then it doesn't want to lead."""
        ...

    @property
    def epoch(self) -> int:
        """The one that its log ends with."""
        ...

    async def pause(self) -> None:
        """Follow no more: nothing is said of this disk from now on, and what has come is written."""
        ...

    async def forget(self) -> None:
        """It is to lead though it may lack what is confirmed: what rests on its having all of that holds no more."""
        ...

    def start(self) -> None:
        """Follow again."""
        ...

    async def turn(self) -> None:
        """Another leads now."""
        ...
