"""What of a statement's text is looked at before Spark's parser sees it."""

from __future__ import annotations

import re

from lakemq.jobs.errors import NotServed
from lakemq.model.errors import InvalidSql

DEPTH_MAX = 64
"""Brackets within brackets: Spark's parser goes as deep as they do."""
TYPES_MAX = 32
_NESTED_TYPE = re.compile(r"\b(?:array|map|struct)\s*<", re.IGNORECASE)
_OPEN, _CLOSE = "([{", ")]}"


def check_text(statement: str, characters_max: int) -> None:
    """Raises `InvalidSql` for what is too long, too deep, or would have Spark put settings into it."""
    if len(statement) > characters_max:
        raise InvalidSql(f"a statement has {characters_max} characters at most")
    if not statement.strip():
        raise InvalidSql("the statement is empty")
    if "${" in statement:
        raise NotServed("a statement has no ${...} in it", *place_of(statement, statement.index("${")))
    if "\x00" in statement or any("\ud800" <= each <= "\udfff" for each in statement):
        raise InvalidSql("a statement is text: it has no NUL and no half of a character")
    if len(_NESTED_TYPE.findall(statement)) > TYPES_MAX:
        raise InvalidSql(f"more than {TYPES_MAX} types of arrays, maps and structs")
    depth = 0
    for at, each in enumerate(statement):  # those in literals count too: nobody needs so many
        if each in _OPEN:
            depth += 1
            if depth > DEPTH_MAX:
                raise InvalidSql(f"more than {DEPTH_MAX} brackets within each other", *place_of(statement, at))
        elif each in _CLOSE:
            depth = max(depth - 1, 0)


def place_of(statement: str, at: int) -> tuple[int, int]:
    """Line and column, both from 1."""
    before = statement[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
