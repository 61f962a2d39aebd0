"""Messages that could not be sent, and whose sender has not asked: what `close` is still to say."""

from __future__ import annotations

import logging
import threading
from functools import partial

from lakemq.client.outgoing import Message
from lakemq.client.produce.batch import MESSAGE_OVERHEAD_BYTES, Batch, Outcome
from lakemq.model.errors import LakemqError

logger = logging.getLogger(__name__)

MESSAGES_MAX = 1_000
BYTES_MAX = 16 * 1024 * 1024
"""Past either, further messages are only logged. One message is kept however large it is."""


class Unreported:
    """Failed messages in their order, until somebody reads their outcome. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: dict[tuple[int, int], tuple[Batch, Message, LakemqError]] = {}
        self._bytes = 0
        self._full = False

    def keep(self, batch: Batch, outcome: Outcome) -> None:
        """Remember what of a batch failed; before the batch ends, as that lets its messages go."""
        with self._lock:
            batch.when_asked = partial(self._forget, id(batch))
            for number, body in enumerate(batch.bodies):
                error = outcome(number)
                if not isinstance(error, LakemqError):
                    continue
                size = len(body) + MESSAGE_OVERHEAD_BYTES
                if self._failures and (len(self._failures) >= MESSAGES_MAX or self._bytes + size > BYTES_MAX):
                    if not self._full:
                        logger.warning("more messages failed than close() can name; the next one: %s", error)
                    self._full = True
                    return
                message = Message(body=body, **batch.fields(number))
                self._failures[id(batch), number] = batch, message, error
                self._bytes += size

    def _forget(self, batch_id: int, number: int) -> None:
        """Somebody has asked. A batch that has failures here lives, so no other has its id."""
        with self._lock:
            found = self._failures.pop((batch_id, number), None)
            if found is not None:
                self._bytes -= len(found[1].body) + MESSAGE_OVERHEAD_BYTES

    def take(self) -> list[tuple[Message, LakemqError]]:
        """All that nobody has asked for; they are told by this."""
        with self._lock:
            failures = [(message, error) for _, message, error in self._failures.values()]
            self._failures.clear()
            self._bytes = 0
        return failures

    def leave(self) -> None:
        """This is a forked child: whoever held the lock isn't here, and what failed is the parent's."""
        self._lock = threading.Lock()
        self._failures.clear()
        self._bytes = 0
