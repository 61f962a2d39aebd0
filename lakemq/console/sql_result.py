"""What a page shows of a statement's rows: as a table, and as what a chart is drawn from. Both are bounded, and say
what they leave out. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from lakemq.model.series import split_by_label

ROWS_SHOWN_MAX = 500
COLUMNS_SHOWN_MAX = 100
CELLS_SHOWN_MAX = 10_000
CELL_CHARACTERS_MAX = 300
PLOT_ROWS_MAX = 5_000
PLOT_COLUMNS_MAX = 12
PLOT_VALUES_MAX = 30_000
PLOT_LABEL_MAX = 40
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_LABELS = ("string", "boolean")


class Cell(NamedTuple):
    """`text` None: the value is null. `cut`: there is more of it."""

    text: str | None
    cut: bool = False


class Column(NamedTuple):
    """`kind`: number, time, label, or empty where a chart has no use for it."""

    name: str
    type: str
    kind: str


class Result(NamedTuple):
    """`found`: so many rows came; `truncated`: there are more than came. `plot`: columns of a chart as JSON, empty
    where there is none of numbers; `plotted`: so many rows are in it."""

    columns: list[Column]
    rows: list[list[Cell]]
    found: int
    more_columns: int
    truncated: bool
    plot: str
    plotted: int

    @property
    def cut(self) -> bool:
        """Whether a value has more than is shown."""
        return any(cell.cut for row in self.rows for cell in row)


def result_of(answer: Mapping[str, Any]) -> Result:
    """Of an answer of `POST /v1/sql` in JSON."""
    every = [Column(each["name"], each["type"], kind_of(each["type"])) for each in answer["columns"]]
    columns, values = every[:COLUMNS_SHOWN_MAX], answer["rows"]
    most = min(ROWS_SHOWN_MAX, max(CELLS_SHOWN_MAX // max(len(columns), 1), 1))
    rows = [[cell_of(value) for value in row[: len(columns)]] for row in values[:most]]
    plot, plotted = plot_of(every, values)
    return Result(columns, rows, len(values), len(every) - len(columns), bool(answer["truncated"]), plot, plotted)


def kind_of(type_name: str) -> str:
    """What a chart can do with a column of that type of Spark's."""
    plain = type_name.partition("(")[0]
    if plain in _NUMBERS:
        return "number"
    if plain in _TIMES:
        return "time"
    return "label" if plain in _LABELS else ""


def cell_of(value: Any) -> Cell:
    """As text."""
    if value is None:
        return Cell(None)
    if isinstance(value, bool):
        return Cell("true" if value else "false")
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
    if len(text) <= CELL_CHARACTERS_MAX:
        return Cell(text)
    return Cell(f"{text[: CELL_CHARACTERS_MAX - 1]}…", cut=True)


def plot_of(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> tuple[str, int]:
    """The columns of a chart as JSON, and how many rows it has."""
    used = [(at, each) for at, each in enumerate(columns) if each.kind][:PLOT_COLUMNS_MAX]
    if not rows or not any(each.kind == "number" for _, each in used):
        return "", 0
    most = min(PLOT_ROWS_MAX, PLOT_VALUES_MAX // len(used))
    made = [
        {"name": each.name, "kind": each.kind, "values": [_READ[each.kind](row[at]) for row in rows[:most]]}
        for at, each in used
    ]
    return json.dumps(_split(made), ensure_ascii=False), min(most, len(rows))


def _split(columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A column of numbers for each label, where rows are such as a day, a country and an amount."""
    if [each["kind"] for each in columns[1:]] != ["label", "number"]:
        return columns
    found = split_by_label(*(each["values"] for each in columns))
    if found is None:
        return columns
    more = [{"name": name or "(empty)", "kind": "number", "values": values} for name, values in found.series.items()]
    return [columns[0] | {"values": found.x}, *more]


def _number(value: Any) -> float | None:
    try:
        number = None if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number is not None and math.isfinite(number) else None


def _seconds(value: Any) -> float | None:
    """Since the epoch; what has no zone is UTC."""
    try:
        time = datetime.fromisoformat(str(value))
        return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _label(value: Any) -> str:
    return "null" if value is None else (cell_of(value).text or "")[:PLOT_LABEL_MAX]


_READ = {"number": _number, "time": _seconds, "label": _label}
