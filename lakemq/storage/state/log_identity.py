"""Which log this is, and the epochs of its life: what tells its positions from all others."""

from __future__ import annotations

import secrets
from bisect import bisect_right
from typing import Any
from uuid import UUID, uuid4

from lakemq.model.errors import LogVersion
from lakemq.storage.segment.frame import LogEpoch, Meta

FIRST_EPOCH = 1
KEY_BYTES = 32


def new_log_id() -> bytes:
    """The UUID of a log that begins now."""
    return uuid4().bytes


class LogIdentity:
    """A log's UUID, and at which position each of its epochs began, ascending.

    A position that was given to a message is never given to another one, so a log's UUID and a
    position name a message for ever; the epoch says which stretch of the log's life gave it.
    """

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._first_positions: list[int] = []
        self.now = LogEpoch(bytes(16), 0)
        """What the log's frames carry from here on."""
        self.key = secrets.token_bytes(KEY_BYTES)
        """What the nonces of the log's receipts and transactions are made with; a log has one for all its life."""

    @property
    def log_id(self) -> str:
        """The log's UUID in its usual form."""
        return str(UUID(bytes=self.now.log_id))

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """Each epoch and its first position, ascending."""
        return list(zip(self._epochs, self._first_positions, strict=True))

    def begin(self, log: LogEpoch, first_position: int) -> None:
        """From that position on frames are of this log and epoch."""
        if log.log_id != self.now.log_id:
            self._epochs, self._first_positions = [], []
        self.now = log
        self._epochs.append(log.epoch)
        self._first_positions.append(first_position)

    def apply(self, meta: Meta) -> None:
        """Take note of the epoch that the frame is of."""
        if meta.log != self.now:
            self.begin(meta.log, meta.first_position)

    def epoch_of(self, position: int) -> int:
        """The epoch that gave the position. What is older than all that is known counts as the first."""
        return self._epochs[max(bisect_right(self._first_positions, position) - 1, 0)]

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {"id": self.log_id, "key": self.key.hex(), "epochs": [list(pair) for pair in self.epochs]}

    def restore(self, dumped: dict[str, Any]) -> None:
        """Become what `dump` said. Raises `LogVersion` for a log without a key, as those of before have none."""
        if "key" not in dumped:
            raise LogVersion(
                "the log was begun by a lakemq of before receipts and transactions had nonces: let that one bring it"
                " to the lake, then begin a new log by moving the folder away"
            )
        self.key = bytes.fromhex(dumped["key"])
        self._epochs = [epoch for epoch, _ in dumped["epochs"]]
        self._first_positions = [position for _, position in dumped["epochs"]]
        self.now = LogEpoch(UUID(dumped["id"]).bytes, self._epochs[-1])
