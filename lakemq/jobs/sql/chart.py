"""A statement's rows as a chart: the first column along the x axis, the others as lines or bars."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakemq.jobs.errors import InvalidOption
from lakemq.jobs.sql.result import Result
from lakemq.model.safe_text import one_line
from lakemq.model.series import order_of, split_by_label

SUFFIXES = (".png", ".svg", ".pdf")
LINE_ROWS_MAX = 200_000
BARS_MAX = 200

_SIZE_INCHES = (10, 5)
_DPI = 120
_ROW_INCHES = 0.22
_TICKS_MAX = 10
_LABEL_MAX = 40
_LABEL_CHARACTERS_MAX = 80
"""Characters of a label, and of all labels together where they stand beside each other."""


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
    make_figure(result).savefig(file)


def make_figure(result: Result) -> Any:
    """The same as a figure of matplotlib."""
    from matplotlib.figure import Figure

    names, series = result.schema.names, _series(result)
    first = result.schema[0].type
    over_numbers = len(names) > 1 and (_is_number(first) or _is_time(first))
    columns = _columns(result, LINE_ROWS_MAX if over_numbers or len(names) == 1 else BARS_MAX)
    names, columns, series = _split(result.schema, columns, series)
    if over_numbers:
        order = order_of(columns[0])
        columns = [[column[at] for at in order] for column in columns]
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, layout="constrained")
    axes: Any = figure.add_subplot()
    if len(names) > 1 and not over_numbers:
        _draw_bars(figure, axes, columns, names, series)
    else:
        _draw_lines(axes, columns, names, series, is_time=_is_time(first))
    if len(series) > 1:
        axes.legend()
    return figure


def rows_of_bars(result: Result) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """For a chart in text: of each column of numbers its name, and for each row the first column's text and the number.

    Raises `InvalidOption` as `draw_chart`.
    """
    names, columns, series = _split(result.schema, _columns(result, BARS_MAX), _series(result))
    labels = [_label(value) for value in columns[0]] if len(names) > 1 else [str(at) for at in range(len(columns[0]))]
    for at in series:
        values: list[tuple[str, float]] = []
        for label, value in zip(labels, columns[at], strict=True):
            values.append((f"{label} (NULL)", 0) if value is None else (label, value))
        yield names[at], values


def _series(result: Result) -> list[int]:
    """Which columns are drawn."""
    kinds = [field.type for field in result.schema]
    series = [at for at in range(1 if len(kinds) > 1 else 0, len(kinds)) if _is_number(kinds[at])]
    if not series:
        raise InvalidOption("a chart needs a column of numbers after the first one")
    return series


def _split(
    schema: pa.Schema, columns: list[list[Any]], series: list[int]
) -> tuple[list[str], list[list[Any]], list[int]]:
    """Names, columns and which of them are drawn: where rows are such as a day, a country and an amount, a column of
    numbers for each country."""
    if series == [2] and len(schema) == 3 and pa.types.is_string(schema[1].type):
        labels = [_label(each) or "(empty)" for each in columns[1]]
        if (found := split_by_label(columns[0], labels, columns[2])) is not None:
            return (
                [schema.names[0], *found.series],
                [found.x, *found.series.values()],
                [*range(1, len(found.series) + 1)],
            )
    return schema.names, columns, series


def _draw_lines(axes: Any, columns: list[list[Any]], names: list[str], series: list[int], *, is_time: bool) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    if len(names) == 1:
        axes.plot(columns[0])
    else:
        for at in series:
            axes.plot(columns[0], columns[at], label=names[at], marker="." if len(columns[0]) <= 100 else None)
    if is_time and len(names) > 1:  # a label has only what is new in it, so that none runs into the next
        locator = AutoDateLocator(maxticks=_TICKS_MAX)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(_with_months(ConciseDateFormatter(locator), columns[0]))
    axes.set_xlabel("row" if len(names) == 1 else names[0])
    axes.grid(visible=True, axis="y", alpha=0.3)
    if len(series) == 1:
        axes.set_ylabel(names[series[0]])


def _with_months(formatter: Any, times: list[Any]) -> Any:
    """Days with their month, and the years of the rows at the axis's end. Matplotlib's own labels name one month there:
    that of the last tick, which may be the first of the next month."""
    formatter.formats[2] = formatter.zero_formats[2] = "%b %d"
    years = sorted({each.year for each in times if each is not None})
    formatter.offset_formats[2] = "–".join(str(each) for each in dict.fromkeys((*years[:1], *years[-1:])))
    return formatter


def _draw_bars(figure: Any, axes: Any, columns: list[list[Any]], names: list[str], series: list[int]) -> None:
    """Upright where all labels fit below them, else lying, each label beside its bar."""
    labels = [_label(value) for value in columns[0]]
    lies = max(map(len, labels), default=0) * len(labels) > _LABEL_CHARACTERS_MAX
    thick = 0.8 / len(series)
    for nth, at in enumerate(series):
        places = [place - 0.4 + thick * (nth + 0.5) for place in range(len(labels))]
        (axes.barh if lies else axes.bar)(places, [value or 0 for value in columns[at]], thick, label=names[at])
    if lies:
        axes.set_yticks(range(len(labels)), labels)
        axes.invert_yaxis()
        figure.set_figheight(max(_SIZE_INCHES[1], _ROW_INCHES * len(labels) + 1))
    else:
        axes.set_xticks(range(len(labels)), labels)
    axes.grid(visible=True, axis="x" if lies else "y", alpha=0.3)
    (axes.set_ylabel if lies else axes.set_xlabel)(names[0])
    if len(series) == 1:
        (axes.set_xlabel if lies else axes.set_ylabel)(names[series[0]])


def _label(value: Any) -> str:
    return "" if value is None else one_line(str(value), _LABEL_MAX)


def _columns(result: Result, rows_max: int) -> list[list[Any]]:
    """The columns as Python's values: matplotlib knows these."""
    columns: list[list[Any]] = [[] for _ in result.schema]
    for batch in result.batches:
        for column, values in zip(columns, batch.columns, strict=True):
            column.extend((values.cast(pa.float64()) if pa.types.is_decimal(values.type) else values).to_pylist())
        if len(columns[0]) > rows_max:
            raise InvalidOption(f"the chart would have more than {rows_max} rows: group them, or add a LIMIT")
    if not columns[0]:
        raise InvalidOption("the statement has no rows, so there is nothing to draw")
    return columns


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _is_time(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)
