"""Dead letters as a file: lines of JSON, or CSV. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakemq.console.shown import moment
from lakemq.console.spreadsheet import as_text, csv_of

FORMS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl"}
"""By the end of a file's name, its type."""
COLUMNS = (
    *("message_id", "queue_offset", "state", "failed_ms", "deliveries", "failure_class", "failure_text", "topic"),
    *("tag", "keys", "more_keys", "born_time_ms", "origin_message_id"),
)


class LetterFile:
    """A file that is written piece by piece."""

    def __init__(self, form: str) -> None:
        self._is_csv = form == "csv"

    @property
    def head(self) -> bytes:
        """Its first line; empty where it has none."""
        return _csv([COLUMNS]) if self._is_csv else b""

    def rows(self, letters: Iterable[Mapping[str, Any]]) -> bytes:
        """The letters, a line each."""
        if self._is_csv:
            return _csv([_cell(name, letter.get(name)) for name in COLUMNS] for letter in letters)
        return b"".join(json.dumps(letter, ensure_ascii=False).encode() + b"\n" for letter in letters)

    def cut(self, rows: int) -> bytes:
        """The last line of a file that doesn't have all."""
        text = f"cut after {rows} dead letters: narrow the filter"
        return _csv([[text]]) if self._is_csv else json.dumps({"cut": text}).encode() + b"\n"


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.endswith("_ms"):
        return moment(value)
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return as_text(text)


def _csv(rows: Iterable[Sequence[str]]) -> bytes:
    return csv_of(rows).encode(errors="replace")
