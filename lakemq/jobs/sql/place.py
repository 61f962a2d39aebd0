"""Where in a statement Spark sees a mistake, as its errors say."""

from __future__ import annotations

import re

_STATED = re.compile(r"SQLSTATE: \w{5}(?:; line (\d{1,6}) pos (\d{1,6})| \(line (\d{1,6}), pos (\d{1,6})\))")
"""Of the parser and the analyzer: columns from 0."""
_FRAGMENT = re.compile(r"^== SQL \(line (\d{1,6}), position (\d{1,6})\) ==$", re.MULTILINE)
"""Of an error in a row: columns from 1. A fragment of a view has another head, and isn't looked for."""


def place_in(text: str) -> tuple[int, int] | tuple[None, None]:
    """Line and column, both from 1, where the error's text has them."""
    if (found := _STATED.search(text)) is not None:
        line, column = (int(each) for each in found.groups() if each is not None)
        return line, column + 1
    if (found := _FRAGMENT.search(text)) is not None:
        return int(found[1]), int(found[2])
    return None, None
