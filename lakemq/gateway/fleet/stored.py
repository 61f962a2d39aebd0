"""Record and beat as a store has them: JSON."""

from __future__ import annotations

import json
from typing import NamedTuple
from uuid import uuid4

from lakemq.model.beat import Beat, beat_of
from lakemq.model.errors import LogDamaged
from lakemq.model.in_sync import Record, record_of


class Stored(NamedTuple):
    """A record, and the attempt that put it there: who lost the answer to an attempt knows its own by that."""

    record: Record
    attempt: str

    def to_bytes(self) -> bytes:
        """As the store has it."""
        return json.dumps({**self.record._asdict(), "attempt": self.attempt}).encode()


def attempted(record: Record) -> Stored:
    """The record in an attempt of its own."""
    return Stored(record, uuid4().hex)


def stored_of(data: bytes, whose: str) -> Stored:
    """The record in the store. Raises `LogDamaged`."""
    try:
        fields = json.loads(data)
        return Stored(record_of(fields), str(fields.get("attempt")))
    except (ValueError, TypeError) as error:
        raise LogDamaged(f"can't read the record of the leader in {whose}: {error}") from None


def beat_to_bytes(beat: Beat) -> bytes:
    """As the store has it."""
    return json.dumps(beat._asdict()).encode()


def beat_of_bytes(data: bytes | None) -> Beat | None:
    """The beat in the store. What can't be understood, such as what a power cut left of it, is no sign of life."""
    try:
        return None if data is None else beat_of(json.loads(data))
    except (ValueError, TypeError):
        return None
