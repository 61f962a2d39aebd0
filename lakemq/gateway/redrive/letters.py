"""Dead letters as they are listed: what a row of the view `dead_letters` says of each, without its body."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute

from lakemq.model.columns import READABLE
from lakemq.model.failure import FAILURE_CLASS, FAILURE_TEXT, cause_of, failure
from lakemq.storage.segment.slice import Slice
from lakemq.storage.slices.messages import to_batches
from lakemq.storage.state.message_ids import MessageIds

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

KEYS_MAX = 500
"""So many characters of a letter's keys are listed."""

_COLUMNS = (
    *("position", "queue_offset", "store_time_ms", "born_time_ms", "reconsume_times"),
    *("real_topic", "origin_message_id", "tag", "keys"),
)
_SCHEMA = pa.schema([READABLE[name] for name in (*_COLUMNS, "properties")])


class Letter(NamedTuple):
    """A dead letter, at its place in `%DLQ%{group}`. All but that is None of one that is stored no more."""

    queue_offset: int
    position: int | None = None
    store_time_ms: int | None = None
    born_time_ms: int | None = None
    reconsume_times: int | None = None
    topic: str | None = None
    origin_message_id: str | None = None
    tag: str | None = None
    keys: Sequence[str] = ()
    more_keys: int = 0
    failure_class: str | None = None
    failure_text: str | None = None

    def describe(self, state: str, ids: MessageIds) -> dict[str, Any]:
        """As it is answered."""
        return {
            "message_id": None if self.position is None else ids.of(self.position),
            "queue_offset": self.queue_offset,
            "state": state,
            "failed_ms": self.store_time_ms,
            "deliveries": None if self.reconsume_times is None else self.reconsume_times + 1,
            "failure_class": self.failure_class,
            "failure_text": self.failure_text,
            "topic": self.topic,
            "tag": self.tag,
            "keys": list(self.keys),
            **({"more_keys": self.more_keys} if self.more_keys else {}),
            "born_time_ms": self.born_time_ms,
            "origin_message_id": self.origin_message_id,
        }


class Wanted(NamedTuple):
    """Which letters: whose failure's class or text has `reason` in it, in any case; that were first sent to `topic`;
    that died at `begin_ms ≤ t ≤ end_ms`; of that `cause`. None: whichever."""

    reason: str | None = None
    topic: str | None = None
    begin_ms: int | None = None
    end_ms: int | None = None
    cause: str | None = None

    @property
    def everything(self) -> bool:
        """Whether nothing is asked of what is stored of a letter."""
        return self == _ALL

    def has(self, letter: Letter) -> bool:
        """Whether it is one of them; of what is stored no more nobody knows."""
        at = letter.store_time_ms
        if at is None:
            return self.everything
        if not (self.begin_ms or 0) <= at or (self.end_ms is not None and at > self.end_ms):
            return False
        if self.topic is not None and letter.topic != self.topic:
            return False
        if self.cause is not None and cause_of(letter.failure_class, letter.failure_text) != self.cause:
            return False
        return self.reason is None or any(
            self.reason.casefold() in text.casefold() for text in (letter.failure_class, letter.failure_text) if text
        )


_ALL = Wanted()


def to_letters(parts: Iterable[Slice], ids: MessageIds) -> list[Letter]:
    """The slices' messages. For any thread."""
    found: list[Letter] = []
    for batch in to_batches(parts, ids, _SCHEMA):
        columns = [batch.column(name).to_pylist() for name in _COLUMNS]
        properties = batch.column("properties")
        why = [
            pc.map_lookup(properties, pa.scalar(name), "first").to_pylist() for name in (FAILURE_CLASS, FAILURE_TEXT)
        ]
        found += [_letter(*row) for row in zip(*columns, *why, strict=True)]
    return found


def _letter(position: int, offset: int, *values: Any) -> Letter:
    stored, born, reconsumed, topic, origin, tag, keys, name, text = values
    why = failure(name, text)  # what was kept is bounded; here all that is shown is
    return Letter(
        *(offset, position, stored, born, reconsumed or 0, topic, origin),
        tag,
        *_fitting(keys or ()),
        *((None, None) if why is None else why),
    )


def _fitting(keys: Sequence[str]) -> tuple[Sequence[str], int]:
    """As many of the keys as fit, and how many others there are."""
    left = KEYS_MAX
    for number, key in enumerate(keys):
        left -= len(key)
        if left < 0:
            return keys[:number], len(keys) - number
    return keys, 0
