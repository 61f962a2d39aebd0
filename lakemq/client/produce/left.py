"""What a producer still holds as it is closed."""

from __future__ import annotations

from collections.abc import Iterable

from lakemq.client.outgoing import Message
from lakemq.client.produce.batch import Batch, until_ended
from lakemq.client.produce.lane import Lane
from lakemq.model.errors import LakemqError


class Left:
    """These messages, until somebody is told their outcome: a close that is interrupted tells nobody."""

    def __init__(self) -> None:
        self._held: list[tuple[Batch, Batch]] = []

    def hold(self, lanes: Iterable[Lane]) -> None:
        """Remember what is in these lanes, but for what nobody is told of: a batch that ends lets its messages go."""
        self._held += [
            (batch, batch.part(0, len(batch.bodies)))
            for lane in lanes
            if not lane.kind.oneway
            for batch in lane.batches()
        ]

    async def ended(self) -> None:
        """Wait until the outcome of each is known."""
        for batch, _ in self._held:
            await until_ended(batch)

    def take(self) -> list[tuple[Message, LakemqError]]:
        """Those that were not stored; they are told by this."""
        held, self._held = self._held, []
        failures: list[tuple[Message, LakemqError]] = []
        for batch, kept in held:
            assert batch.outcome is not None
            for number, message in enumerate(kept.messages()):
                result = batch.outcome(number)
                if isinstance(result, LakemqError):
                    failures.append((message, result))
        return failures
