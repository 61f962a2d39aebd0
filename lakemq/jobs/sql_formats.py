"""How rows are written for people and for programs."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, BinaryIO, cast

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.pandas.types import to_arrow_schema

CELL_CHARACTERS_MAX = 60
ROWS_PER_BATCH = 4096


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes are text when they are UTF-8, else base64; times ISO 8601."""
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return base64.b64encode(bytes(value)).decode()
    if isinstance(value, datetime):
        return _in_utc(value).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date | Decimal):
        return str(value)
    if isinstance(value, Row):
        return {name: plain(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {str(plain(name)): plain(each) for name, each in pairs}
    if isinstance(value, list | tuple):
        return [plain(each) for each in cast("list[Any]", value)]
    return value


def _in_utc(value: datetime) -> datetime:
    """Spark gives times as local ones, without a zone."""
    return value.astimezone(UTC)


def write_json(frame: DataFrame, out: BinaryIO) -> None:
    """An object a line."""
    names = frame.columns
    for row in frame.toLocalIterator():
        content = dict(zip(names, (plain(value) for value in row), strict=True))
        out.write(json.dumps(content, ensure_ascii=False).encode() + b"\n")


def write_csv(frame: DataFrame, out: BinaryIO) -> None:
    """A header and a line for each row; lists and maps as JSON, null as nothing."""
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(frame.columns)
    for row in frame.toLocalIterator():
        writer.writerow(_cell(value) for value in row)
    text.detach()


def write_table(frame: DataFrame, out: BinaryIO) -> None:
    """Columns under their names; numbers to the right, long cells cut."""
    names = frame.columns
    rows = [tuple(row) for row in frame.toLocalIterator()]
    cells = [[_cut(_cell(value)) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(names)]
    right = [
        any(_is_number(row[at]) for row in rows) and all(_is_number(row[at]) or row[at] is None for row in rows)
        for at in range(len(names))
    ]
    lines = [_line(names, widths, right), "  ".join("-" * width for width in widths)]
    lines += [_line(row, widths, right) for row in cells]
    lines.append(f"({len(rows)} row{'' if len(rows) == 1 else 's'})")
    out.write(("\n".join(lines) + "\n").encode())


def write_arrow(frame: DataFrame, out: BinaryIO) -> None:
    """An Arrow IPC stream; times in UTC."""
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    with pa.ipc.new_stream(out, schema) as writer:
        for batch in _batches(frame, schema):
            writer.write_batch(batch)


def _batches(frame: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of one partition after another, so that only one is held at a time."""
    rows: list[Row] = []
    for row in frame.toLocalIterator():
        rows.append(row)
        if len(rows) == ROWS_PER_BATCH:
            yield _batch(rows, schema)
            rows = []
    if rows:
        yield _batch(rows, schema)


def _batch(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    arrays = [
        pa.array([_arrow_value(value) for value in column], field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _arrow_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return _in_utc(value)
    if isinstance(value, dict):
        return list(cast("dict[Any, Any]", value).items())
    if isinstance(value, Row):
        return {name: _arrow_value(each) for name, each in value.asDict().items()}
    return value


def _cell(value: Any) -> str:
    shown = plain(value)
    if shown is None:
        return ""
    if isinstance(shown, bool):
        return "true" if shown else "false"
    return json.dumps(shown, ensure_ascii=False) if isinstance(shown, dict | list) else str(shown)


def _cut(text: str) -> str:
    line = text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return line if len(line) <= CELL_CHARACTERS_MAX else line[: CELL_CHARACTERS_MAX - 1] + "…"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _line(cells: list[str], widths: list[int], right: list[bool]) -> str:
    padded = [
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(padded).rstrip()


WRITERS: dict[str, Callable[[DataFrame, BinaryIO], None]] = {
    "table": write_table,
    "json": write_json,
    "csv": write_csv,
    "arrow": write_arrow,
}
