"""Messages that could not be sent, and whose sender has not asked: what `close` is still to say."""

from __future__ import annotations

import logging
from functools import partial

from lakemq.client.outgoing import Message
from lakemq.client.produce.batch import MESSAGE_OVERHEAD_BYTES, Batch, Outcome
from lakemq.model.errors import LakemqError

logger = logging.getLogger(__name__)

MESSAGES_MAX = 1_000
BYTES_MAX = 16 * 1024 * 1024
"""Past either, further messages are only logged. One message is kept however large it is."""


class Unreported:
    """Failed messages in their order, until somebody reads their outcome: in any thread, maybe in a signal handler, so
    without a lock. All else is the event loop's."""

    def __init__(self) -> None:
        self._failures: dict[tuple[int, int], tuple[Batch, Message, LakemqError]] = {}
        self._full = False

    def keep(self, batch: Batch, outcome: Outcome) -> None:
        """Remember what of a batch failed; before the batch ends, as that lets its messages go."""
        batch.when_asked = partial(self._forget, id(batch))
        kept_bytes = sum(_size(message.body) for _, message, _ in list(self._failures.values()))
        for number, body in enumerate(batch.bodies):
            error = outcome(number)
            if not isinstance(error, LakemqError):
                continue
            kept_bytes += _size(body)
            if self._failures and (len(self._failures) >= MESSAGES_MAX or kept_bytes > BYTES_MAX):
                if not self._full:
                    logger.warning("more messages failed than close() can name; the next one: %s", error)
                self._full = True
                return
            message = Message(body=body, **batch.fields(number))
            self._failures[id(batch), number] = batch, message, error

    def _forget(self, batch_id: int, number: int) -> None:
        """Somebody has asked. A batch that has failures here lives, so no other has its id."""
        self._failures.pop((batch_id, number), None)

    def take(self) -> list[tuple[Message, LakemqError]]:
        """All that nobody has asked for; they are told by this."""
        taken, self._failures = self._failures, {}
        return [(message, error) for _, message, error in list(taken.values())]

    def leave(self) -> None:
        """This is a forked child: what failed is the parent's."""
        self._failures.clear()


def _size(body: bytes) -> int:
    return len(body) + MESSAGE_OVERHEAD_BYTES
