"""A statement's rows as a chart: the first column along the x axis, the others as lines or bars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from lakemq.jobs.errors import InvalidOption
from lakemq.jobs.sql.result import Result

SUFFIXES = (".png", ".svg", ".pdf")
LINE_ROWS_MAX = 200_000
BARS_MAX = 200

_SIZE_INCHES = (10, 5)
_DPI = 120
_LABELS_LEVEL_MAX = 8


def check_chart_file(file: Path) -> None:
    """Raises `InvalidOption` when the chart can't be of that kind, or nothing here can draw."""
    if file.suffix.lower() not in SUFFIXES:
        raise InvalidOption(f"{file.name}: a chart's name ends with one of {', '.join(SUFFIXES)}")
    try:
        import matplotlib  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        raise InvalidOption("a chart needs matplotlib: install lakemq[notebooks]") from None


def draw_chart(result: Result, file: Path) -> None:
    """Lines over a first column of numbers or times, bars over one of text.

    Raises `InvalidOption` when there is no column of numbers, or there are too many rows to be seen.
    """
    from matplotlib.figure import Figure

    names, kinds = result.schema.names, [field.type for field in result.schema]
    series = [at for at in range(1 if len(names) > 1 else 0, len(names)) if _is_number(kinds[at])]
    if not series:
        raise InvalidOption("a chart needs a column of numbers after the first one")
    over_numbers = len(names) > 1 and (_is_number(kinds[0]) or _is_time(kinds[0]))
    rows_max = LINE_ROWS_MAX if over_numbers or len(names) == 1 else BARS_MAX
    columns = _columns(result, rows_max)
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, layout="constrained")
    axes: Any = figure.add_subplot()
    if len(names) == 1:
        axes.plot(columns[0])
    elif over_numbers:
        for at in series:
            axes.plot(columns[0], columns[at], label=names[at], marker="." if len(columns[0]) <= 100 else None)
    else:
        _draw_bars(axes, columns, names, series)
    axes.set_xlabel("row" if len(names) == 1 else names[0])
    axes.grid(visible=True, axis="y", alpha=0.3)
    if len(series) == 1:
        axes.set_ylabel(names[series[0]])
    else:
        axes.legend()
    figure.savefig(file)


def _draw_bars(axes: Any, columns: list[list[Any]], names: list[str], series: list[int]) -> None:
    places = range(len(columns[0]))
    width = 0.8 / len(series)
    for nth, at in enumerate(series):
        heights = [value or 0 for value in columns[at]]
        axes.bar([place - 0.4 + width * (nth + 0.5) for place in places], heights, width, label=names[at])
    axes.set_xticks(list(places), ["" if value is None else str(value) for value in columns[0]])
    if len(places) > _LABELS_LEVEL_MAX:
        axes.tick_params(axis="x", labelrotation=60 if len(places) <= BARS_MAX // 4 else 90)


def _columns(result: Result, rows_max: int) -> list[list[Any]]:
    """The columns as Python's values: matplotlib knows these."""
    columns: list[list[Any]] = [[] for _ in result.schema]
    for batch in result.batches:
        for column, values in zip(columns, batch.columns, strict=True):
            column.extend((values.cast(pa.float64()) if pa.types.is_decimal(values.type) else values).to_pylist())
        if len(columns[0]) > rows_max:
            raise InvalidOption(f"the chart would have more than {rows_max} rows: group them, or add a LIMIT")
    return columns


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _is_time(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)
