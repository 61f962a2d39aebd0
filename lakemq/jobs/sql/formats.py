"""How a statement's rows are written for people and for programs."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from lakemq.jobs.sql.result import Result
from lakemq.jobs.sql.variant import read_variant
from lakemq.model.safe_text import escaped, safe_json

CELL_CHARACTERS_MAX = 60
TABLE_ROWS_MAX = 10_000
"""A table is for people, and its columns are as wide as all rows need: no more are shown."""

_IN_A_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_ROW_GROUP_ROWS = 100_000
_ROW_GROUP_BYTES = 64 * 1024 * 1024


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes are text when they are UTF-8, else base64; times ISO 8601."""
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return base64.b64encode(bytes(value)).decode()
    if isinstance(value, datetime):
        return _in_utc(value).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date | Decimal | timedelta):
        return str(value)
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {str(plain(name)): plain(each) for name, each in pairs}
    if hasattr(value, "asDict"):  # a Row of Spark's, which is a tuple too
        return {name: plain(each) for name, each in value.asDict().items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in cast("list[Any]", value)]
    return value


def _in_utc(value: datetime) -> datetime:
    """Spark gives times as local ones, without a zone; Arrow gives them with one."""
    return value.astimezone(UTC)


def rows_of(result: Result) -> Iterator[tuple[Any, ...]]:
    """The rows, each value as JSON has it; a batch is held at a time."""
    readers = [_reader(field.type) for field in result.schema]
    for batch in result.batches:
        columns = [[read(value) for value in _values(batch.column(at))] for at, read in enumerate(readers)]
        yield from zip(*columns, strict=True) if columns else ()


def _values(column: pa.Array) -> list[Any]:
    """As Python has them. Arrow and Spark know times and dates that Python doesn't; these come as text."""
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):
        return [_value(scalar) for scalar in column]


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        kind = scalar.type
    if pa.types.is_struct(kind):
        return {name: _value(each) for name, each in scalar.items()}
    if pa.types.is_map(kind):
        return [(_value(each["key"]), _value(each["value"])) for each in scalar.values]
    if pa.types.is_list(kind):
        return [_value(each) for each in scalar.values]
    if pa.types.is_date(kind):
        return _far_day(int(scalar.value) if kind.bit_width == 32 else scalar.value // 86_400_000)
    seconds, part = divmod(scalar.value, _IN_A_SECOND[kind.unit])
    days, second = divmod(seconds, 86_400)
    clock = (
        f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{part * 1000 // _IN_A_SECOND[kind.unit]:03d}"
    )
    return f"{_far_day(days)}T{clock}{'' if kind.tz is None else 'Z'}"


def _far_day(days: int) -> str:
    """By days since 1970: the calendar comes again every 400 years."""
    ages, left = divmod(days, 146_097)
    day = date(1970, 1, 1) + timedelta(left)
    return f"{day.year + 400 * ages:04d}-{day.month:02d}-{day.day:02d}"


def _reader(kind: pa.DataType) -> Callable[[Any], Any]:
    """From what Arrow gives for a value of that type to what JSON has."""
    read: Callable[[Any], Any] = plain
    if pa.types.is_map(kind):
        key, item = _reader(kind.key_type), _reader(kind.item_type)
        read = lambda pairs: {str(key(name)): item(value) for name, value in pairs}  # noqa: E731
    elif pa.types.is_list(kind):
        element = _reader(kind.value_type)
        read = lambda values: [element(value) for value in values]  # noqa: E731
    elif pa.types.is_struct(kind) and is_variant(kind):
        read = _read_variant
    elif pa.types.is_struct(kind):
        fields = {field.name: _reader(field.type) for field in kind}
        read = lambda row: {name: each(row[name]) for name, each in fields.items()}  # noqa: E731
    elif pa.types.is_timestamp(kind) and kind.tz is None:
        read = lambda value: value if isinstance(value, str) else value.isoformat(timespec="milliseconds")  # noqa: E731
    return lambda value: None if value is None else read(value)


def is_variant(kind: pa.DataType) -> bool:
    """Whether a struct is what Arrow has for Spark's VARIANT."""
    names = [field.name for field in kind]
    return names == ["value", "metadata"] and bool((kind.field(1).metadata or {}).get(b"variant"))


def _read_variant(value: dict[str, bytes]) -> Any:
    return plain(read_variant(value["value"], value["metadata"]))


def write_json(result: Result, out: BinaryIO) -> None:
    """An object a line."""
    names = _distinct(result.schema.names)
    for row in rows_of(result):
        content = dict(zip(names, row, strict=True))
        out.write(safe_json(json.dumps(content, ensure_ascii=False)).encode() + b"\n")


def _distinct(names: list[str]) -> list[str]:
    """The second `a` is `a_2`: an object has each name once."""
    found: list[str] = []
    for name in names:
        nth, distinct = 1, name
        while distinct in found or (nth > 1 and distinct in names):
            nth += 1
            distinct = f"{name}_{nth}"
        found.append(distinct)
    return found


def write_csv(result: Result, out: BinaryIO) -> None:
    """A header and a line for each row; lists and maps as JSON, null as nothing."""
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(result.schema.names)
    for row in rows_of(result):
        writer.writerow(cell(value) for value in row)
    text.detach()


def write_table(result: Result, out: BinaryIO) -> None:
    """Columns under their names; numbers to the right, long cells cut; a bounded number of rows."""
    names = [escaped(name) for name in result.schema.names]
    rows = list(islice(rows_of(result), TABLE_ROWS_MAX + 1))
    more = len(rows) > TABLE_ROWS_MAX
    rows = rows[:TABLE_ROWS_MAX]
    cells = [[_cut(cell(value)) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(names)]
    right = [
        any(_is_number(row[at]) for row in rows) and all(_is_number(row[at]) or row[at] is None for row in rows)
        for at in range(len(names))
    ]
    lines = [_line(names, widths, right), "  ".join("-" * width for width in widths)]
    lines += [_line(row, widths, right) for row in cells]
    end = "row" if len(rows) == 1 else "rows"
    lines.append(f"(the first {len(rows)} {end}; --format csv has all)" if more else f"({len(rows)} {end})")
    out.write(("\n".join(lines) + "\n").encode())


def write_arrow(result: Result, out: BinaryIO) -> None:
    """An Arrow IPC stream; times in UTC."""
    with pa.ipc.new_stream(out, result.schema) as writer:
        for batch in result.batches:
            writer.write_batch(batch)


def write_parquet(result: Result, out: BinaryIO) -> None:
    """A Parquet file; a row group is held at a time."""
    with pq.ParquetWriter(_Forward(out), result.schema, compression="zstd") as writer:
        held: list[pa.RecordBatch] = []
        for batch in result.batches:
            held.append(batch)
            full = sum(each.num_rows for each in held) >= _ROW_GROUP_ROWS
            if full or sum(each.nbytes for each in held) >= _ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(held))
                held = []
        if held:
            writer.write_table(pa.Table.from_batches(held))


class _Forward(io.RawIOBase):
    """Counts what it passes on: a pipe does not say how far it is, and Parquet asks."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._count = out, 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._out.write(data)
        self._count += len(data)
        return len(data)

    def tell(self) -> int:
        return self._count


def cell(value: Any) -> str:
    """A value as CSV has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def _cut(text: str) -> str:
    line = escaped(text[: CELL_CHARACTERS_MAX + 1])
    return line if len(line) <= CELL_CHARACTERS_MAX else line[: CELL_CHARACTERS_MAX - 1] + "…"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _line(cells: list[str], widths: list[int], right: list[bool]) -> str:
    padded = [
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(padded).rstrip()


WRITERS: dict[str, Callable[[Result, BinaryIO], None]] = {
    "table": write_table,
    "json": write_json,
    "csv": write_csv,
    "arrow": write_arrow,
    "parquet": write_parquet,
}
