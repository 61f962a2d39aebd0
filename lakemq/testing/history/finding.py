"""What the checker reports."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What a sound broker never shows."""

    LOST = "lost"
    INVENTED = "invented"
    CORRUPT = "corrupt"
    TWO_VALUES = "two values at a position"
    TWO_MEANINGS = "an id that means two messages"
    STORED_TWICE = "stored twice"
    DISORDER = "disorder"
    SEEN_BEFORE_COMMIT = "a half seen before its commit"
    SEEN_AFTER_ROLLBACK = "a half seen after its rollback"
    EARLY = "delivered early"
    DELAY_LOST = "a delay that never came"
    RETRY_LOST = "a retry that never came"
    WRONG_ATTEMPTS = "wrong number of attempts"
    WRONG_DEAD_LETTERS = "wrong dead letters"
    WRONG_RECEIPT = "a receipt that should not have worked"
    RECEIPT_LOST = "a receipt that should have worked"
    OFFSET_WENT_BACK = "an offset went back"
    OFFSET_AHEAD = "an offset that nobody committed"
    TWO_OWNERS = "a queue with two owners"
    LAKE_MISSING = "a row missing in the lake"
    LAKE_DOUBLE = "a row double in the lake"
    LAKE_DIFFERS = "a row of the lake differs from the log"
    SILENT_GAP = "a silent gap"


class Finding(NamedTuple):
    """One broken promise: what it is, in words, and the numbers of the operations that prove it."""

    kind: Kind
    what: str
    operations: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.kind}: {self.what} (operations {', '.join(map(str, self.operations))})"
