"""CSV for people, who open it in a spreadsheet: that runs what looks like a formula, whoever wrote it. Pure.

In many countries a spreadsheet separates by `;`, also a file with commas. For it only a line's first cell can be in
quotes: all others are cut at each `;` and at each line's end, and what follows begins a cell of its own. Nothing in a
file that is read by commas would keep it from that, so `'` is put before what it would run there too.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""What begins so a spreadsheet would run."""
_NUMBER = r"-[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"
_NEGATIVE = re.compile(_NUMBER)
_SEPARATORS = frozenset(";\t\r\n")
_WITHIN = re.compile(r'(?<![\s";])[\s";]++(?=[=+\-@])')
"""What may stand before a formula within a cell; a whole run of it, as its parts would be looked through again and
again."""
_PLAIN = re.compile(r"[\w .:-]*")
"""With a negative number and a comma before it, this is no formula that does anything."""
_FIELD_MAX = 2**31 - 1


def as_text(text: str) -> str:
    """The text of a cell so that it is shown, and not run. Negative numbers stay numbers."""
    inside = _WITHIN.sub(lambda found: found[0] if _is_harmless(found) else f"{found[0]}'", text)
    return f"'{inside}" if text.startswith(_FORMULAS) and not _NEGATIVE.fullmatch(text) else inside


def _is_harmless(found: re.Match[str]) -> bool:
    """Whether no cell begins there, or one that is a negative number and nothing else, by whatever it is separated."""
    separators = _SEPARATORS.intersection(found[0])
    number = _NEGATIVE.match(found.string, found.end())
    if not separators or number is None:
        return not separators
    after = found.string[number.end() : number.end() + 1]
    return after != "" and (after in "\r\n" or separators - set("\r\n") == frozenset(after))


def csv_of(rows: Iterable[Sequence[str]]) -> str:
    """Rows of cells that are `as_text`. A number that begins a line becomes text where a spreadsheet that separates by
    `;` would read on, into a formula: `-1,5+…`."""
    written = io.StringIO(newline="")
    csv.writer(written).writerows(_row(row) for row in rows)
    return written.getvalue()


def _row(row: Sequence[str]) -> Sequence[str]:
    is_read_on = bool(row) and row[0].startswith("-") and not all(map(_PLAIN.fullmatch, row[1:]))
    return [f"'{row[0]}", *row[1:]] if is_read_on else row


def without_formulas(content: bytes) -> bytes:
    """The CSV with each cell, those of the header too, `as_text`; in UTF-8."""
    csv.field_size_limit(_FIELD_MAX)  # of the process: by default a cell of 128 KiB is an error
    rows = csv.reader(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline=""), strict=True)
    return csv_of([as_text(cell) for cell in row] for row in rows).encode()
