"""The ids of a broker's messages: they say which log and epoch gave the position."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow carries no types)
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from lakemq.model.errors import MessageNotFound
from lakemq.model.ids import POSITION_DIGITS_MAX, format_message_id, parse_message_id
from lakemq.storage.state.log_identity import LogIdentity

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute


class MessageIds:
    """Makes and reads the ids of one broker's messages, once its log is open."""

    def __init__(self, broker: str) -> None:
        self.broker = broker
        self.prefix = ""
        """What the ids of messages that are stored now begin with; the position follows."""
        self.prefix_bytes = b""
        self._identity = LogIdentity()
        self._prefixes: dict[int, str] = {}
        self._current_from = 0

    def open(self, identity: LogIdentity) -> None:
        """The log is open, and of this identity."""
        self._identity = identity
        tag = identity.now.log_id.hex()[:12]
        epochs = [epoch for epoch, _ in identity.epochs]
        self._prefixes = {epoch: format_message_id(self.broker, tag, epoch, 0)[:-1] for epoch in epochs}
        self._current_from = identity.epochs[-1][1] if len(epochs) > 1 else 0
        self.prefix = self._prefixes[epochs[-1]]
        self.prefix_bytes = self.prefix.encode()

    def prefix_of(self, position: int) -> str:
        """What the id of the message at `position` begins with."""
        if position >= self._current_from:
            return self.prefix
        return self._prefixes[self._identity.epoch_of(position)]

    def of(self, position: int) -> str:
        """The id of the message at `position`."""
        return f"{self.prefix_of(position)}{position}"

    def texts(self, positions: Sequence[int]) -> list[str]:
        """The ids of the messages at these positions: for a request's few. `column` begins slowly and is fast
        from some hundreds on."""
        if positions and min(positions) < self._current_from:
            return [self.of(position) for position in positions]
        prefix = self.prefix
        return [f"{prefix}{position}" for position in positions]

    def column(self, positions: pa.Array) -> pa.Array:
        """The ids of the messages at these positions."""
        prefix: pa.Scalar | pa.Array = pa.scalar(self.prefix)
        if len(self._prefixes) > 1 and (pc.min(positions).as_py() or 0) < self._current_from:
            epochs = self._identity.epochs
            number = pa.repeat(pa.scalar(0), len(positions))
            for _, first in epochs[1:]:
                number = pc.add(number, pc.greater_equal(positions, first).cast(pa.int64()))
            prefix = pa.array([self._prefixes[epoch] for epoch, _ in epochs]).take(number)
        return pc.binary_join_element_wise(prefix, positions.cast(pa.string()), "")

    def find(self, message_id: str) -> int | None:
        """The position that an id of this broker's log says; None for all other text."""
        digits = message_id[message_id.rfind(".") + 1 :]
        if not (digits.isascii() and digits.isdigit()) or len(digits) > POSITION_DIGITS_MAX:
            return None
        position = int(digits)
        return position if message_id == f"{self.prefix_of(position)}{position}" else None

    def position(self, message_id: str) -> int:
        """The position that the id says; raises `MessageNotFound` for what is none of this broker's log."""
        position = self.find(message_id)
        if position is None:
            broker = parse_message_id(message_id).broker
            if broker != self.broker:
                raise MessageNotFound(f"message {message_id!r} is of broker {broker!r}; this is {self.broker!r}")
            raise MessageNotFound(f"message {message_id!r} is of another log of the broker, or of a lost part of this")
        return position
