"""Rows as a table for people: in HTML and in plain text."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any

from lakemq.jobs.sql.formats import plain

CELL_CHARACTERS_MAX = 200


class Table:
    """Rows under their names; long cells are cut, bodies are text where they are UTF-8.

    `more` says that there are further rows, which are not shown.
    """

    def __init__(self, names: Sequence[str], rows: Sequence[Sequence[Any]], *, more: bool = False) -> None:
        self._names = list(names)
        self._cells = [[_text(value) for value in row] for row in rows]
        self._right = [_numbers([row[at] for row in rows]) for at in range(len(names))]
        count = len(rows)
        self._note = f"the first {count:,} rows" if more else f"{count:,} row{'' if count == 1 else 's'}"

    def html(self) -> str:
        """A table in HTML: whatever stands in a message, it is shown and never interpreted."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._names)
        body = "\n".join(f"<tr>{''.join(self._html_cells(row))}</tr>" for row in self._cells)
        return (
            f'<table class="lakemq"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>\n'
            f"<p><small>{self._note}</small></p>"
        )

    def text(self) -> str:
        """The same in lines of equal columns."""
        cells = [[_one_line(cell) for cell in row] for row in self._cells]
        widths = [max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(self._names)]
        lines = [self._line(self._names, widths), "  ".join("-" * width for width in widths)]
        return "\n".join([*lines, *(self._line(row, widths) for row in cells), f"({self._note})"])

    def _html_cells(self, row: list[str]) -> list[str]:
        sides = ["right" if right else "left" for right in self._right]
        return [
            f'<td style="text-align: {side}">{html.escape(cell)}</td>' for side, cell in zip(sides, row, strict=True)
        ]

    def _line(self, row: list[str], widths: list[int]) -> str:
        columns = zip(row, widths, self._right, strict=True)
        return "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in columns).rstrip()


def _text(value: Any) -> str:
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False, default=str)
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= CELL_CHARACTERS_MAX else text[: CELL_CHARACTERS_MAX - 1] + "…"


def _one_line(text: str) -> str:
    """Nothing in it steers a terminal or breaks the line."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def _numbers(values: list[Any]) -> bool:
    kinds = {type(value) for value in values if value is not None}
    return bool(kinds) and kinds <= {int, float}
