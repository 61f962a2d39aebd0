"""CSV for people, who open it in a spreadsheet: that runs what looks like a formula, whoever wrote it. Pure."""

from __future__ import annotations

import csv
import io
import re

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""What begins so a spreadsheet would run."""
_NEGATIVE = re.compile(r"-[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_FIELD_MAX = 2**31 - 1


def as_text(text: str) -> str:
    """The text of a cell so that it is shown, and not run. Negative numbers stay numbers."""
    return f"'{text}" if text.startswith(_FORMULAS) and not _NEGATIVE.fullmatch(text) else text


def without_formulas(content: bytes) -> bytes:
    """The CSV with each cell, those of the header too, `as_text`; in UTF-8."""
    csv.field_size_limit(_FIELD_MAX)  # of the process: by default a cell of 128 KiB is an error
    written = io.StringIO(newline="")
    rows = csv.reader(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline=""), strict=True)
    csv.writer(written).writerows(map(as_text, row) for row in rows)
    return written.getvalue().encode()
