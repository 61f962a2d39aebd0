"""Shows where a statement of SQL has its mistake."""

from __future__ import annotations

from rich.cells import cell_len

from lakemq.cli.output import fail, note
from lakemq.model.errors import InvalidSql

_SHOWN_MAX = 100
_BEFORE_MAX = 60
"""Characters of a long line that are shown, and how many of them stand before the mistake at most."""


def fail_statement(statement: str, error: InvalidSql) -> int:
    """Say what is wrong, then show the line of the statement with a caret below the place. Returns the exit code."""
    code = fail(str(error))
    lines = statement.split("\n")
    if error.line is None or error.column is None or not 1 <= error.line <= len(lines):
        return code
    line, at = lines[error.line - 1], error.column - 1
    if not 0 <= at <= len(line):
        return code
    begin = max(at - _BEFORE_MAX, 0)
    # One space for each character that doesn't print, or the caret would stand elsewhere.
    shown = "".join(each if each.isprintable() else " " for each in line[begin : begin + _SHOWN_MAX])
    note(f"  {shown}".rstrip())
    note(" " * (2 + cell_len(shown[: at - begin])) + "^")
    return code
