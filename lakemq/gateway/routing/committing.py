"""Who is told of a commit that nothing had to wait for."""

from __future__ import annotations

from collections.abc import Callable

from lakemq.storage.log.receiver import Receiver, Stored


class Committing:
    """Takes the place of an append's future. `ended` is told whether it was stored, before `waiting` is."""

    __slots__ = ("_ended", "_waiting")

    def __init__(self, ended: Callable[[bool], None], waiting: Receiver[Stored]) -> None:
        self._ended = ended
        self._waiting = waiting

    def done(self) -> bool:
        """Never: the claim is given back whoever still waits."""
        return False

    def set_result(self, result: Stored, /) -> None:
        """It was."""
        self._ended(True)
        if not self._waiting.done():
            self._waiting.set_result(result)

    def set_exception(self, error: Exception, /) -> None:
        """It wasn't."""
        self._ended(False)
        if not self._waiting.done():
            self._waiting.set_exception(error)
