"""What a request for SQL says, and the forms in which it is answered."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakemq.contract.forms import ARROW, JSON
from lakemq.jobs.served.catalog import Table
from lakemq.jobs.served.packed import first_within
from lakemq.jobs.served.statement import Found
from lakemq.jobs.sql.formats import cell, is_variant, rows_of
from lakemq.jobs.sql.result import Result
from lakemq.model.errors import InvalidRequest, InvalidSql
from lakemq.settings import SqlHttp
from lakemq.web.problems import Answer

FORMATS = ("json", "csv", "arrow", "parquet")
_FIELDS = ("statement", "format", "rows_max", "timeout_ms")
_TRUNCATED = b"lakemq-truncated"
PARQUET_STEPS = 5
"""To come nearer once some rows have room."""
_PIECE_VALUES = 10_000
"""So many values are made of Arrow at once: other threads wait meanwhile."""
PARQUET = "application/vnd.apache.parquet"
_ARROW_END = 8
"""Bytes at the end of a stream."""


@dataclass(frozen=True)
class Wanted:
    """What a request wants."""

    statement: str
    format: str
    rows_max: int
    timeout_ms: int


def parse_wanted(body: bytes, limits: SqlHttp) -> Wanted:
    """What the body says. Raises `InvalidRequest`."""
    try:
        said: object = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidRequest("the body is no JSON") from None
    if not isinstance(said, dict):
        raise InvalidRequest("the body is an object with a statement")
    fields = cast("dict[str, object]", said)
    if unknown := fields.keys() - set(_FIELDS):
        raise InvalidRequest(f"there is no field {min(unknown)[:100]!r}; there are {', '.join(_FIELDS)}")
    statement, form = fields.get("statement"), fields.get("format", FORMATS[0])
    if not isinstance(statement, str):
        raise InvalidRequest("statement is text")
    if form not in FORMATS:
        raise InvalidRequest(f"format is one of {', '.join(FORMATS)}")
    rows_max = _number(fields, "rows_max", limits.rows, limits.rows_max)
    return Wanted(
        statement, str(form), rows_max, _number(fields, "timeout_ms", limits.timeout_ms, limits.timeout_ms_max)
    )


def _number(fields: dict[str, object], name: str, default: int, most: int) -> int:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InvalidRequest(f"{name} is a number from 1 to {most}")
    return value


def answer_of(found: Found, form: str, bytes_max: int) -> Answer:
    """The rows in that form, as many of them as have `bytes_max` bytes in it together with what stands around them.
    Raises `InvalidStatement` for types that have no form."""
    kind, encode = _ENCODERS[form]
    body, is_cut = encode(found, bytes_max)
    truncated = b"true" if found.truncated or is_cut else b"false"
    return Answer(200, [(b"content-type", kind.encode()), (_TRUNCATED, truncated)], body)


def tables_answer(tables: Sequence[Table], complete: bool, limits: SqlHttp) -> Answer:
    """These, whether the jobs have made all that there are, and the bounds of statements."""
    said = {
        "tables": [
            {
                "table": ".".join(each.parts),
                "columns": [{"name": name, "type": kind} for name, kind in each.columns],
            }
            for each in tables
        ],
        "complete": complete,
        "bounds": {
            "rows": limits.rows,
            "rows_max": limits.rows_max,
            "bytes_max": limits.bytes_max,
            "timeout_ms": limits.timeout_ms,
            "timeout_ms_max": limits.timeout_ms_max,
            "statement_characters_max": limits.statement_characters_max,
        },
    }
    return Answer(200, [(b"content-type", JSON.encode())], orjson.dumps(said))


def _json(found: Found, bytes_max: int) -> tuple[bytes, bool]:
    columns = [{"name": name, "type": kind} for name, kind in zip(found.schema.names, found.types, strict=True)]
    head = b'{"columns":' + orjson.dumps(columns) + b',"rows":['
    room = _Room(bytes_max - len(head) - len(b'],"truncated":false}'))
    rows: list[bytes] = []
    for row in _rows(found, room):
        encoded = orjson.dumps(row, default=str, option=orjson.OPT_NON_STR_KEYS)
        if not room.take(len(encoded) + (1 if rows else 0)):
            break
        rows.append(encoded)
    is_cut = room.is_full
    tail = b'],"truncated":' + (b"true" if found.truncated or is_cut else b"false") + b"}"
    return b"".join((head, b",".join(rows), tail)), is_cut


def _csv(found: Found, bytes_max: int) -> tuple[bytes, bool]:
    out = io.BytesIO()
    line = io.StringIO(newline="")
    writer = csv.writer(line)

    def encoded(values: Iterable[Any]) -> bytes:
        line.seek(0)
        line.truncate()
        writer.writerow(values)
        return line.getvalue().encode()

    out.write(encoded(found.schema.names))
    room = _Room(bytes_max - out.tell())
    for row in _rows(found, room):
        each = encoded([cell(value) for value in row])
        if not room.take(len(each)):
            break
        out.write(each)
    return out.getvalue(), room.is_full


def _arrow(found: Found, bytes_max: int) -> tuple[bytes, bool]:
    out = io.BytesIO()
    is_cut = False
    with pa.ipc.new_stream(out, found.schema) as writer:
        for batch in found.batches:
            # The schema is written with the first batch.
            room = bytes_max - (out.tell() or found.schema.serialize().size) - _ARROW_END
            part = first_within(batch, room, pa.ipc.get_record_batch_size)
            if part.num_rows:
                writer.write_batch(part)
            if part.num_rows < batch.num_rows:
                is_cut = True
                break
    return out.getvalue(), is_cut


def _parquet(found: Found, bytes_max: int) -> tuple[bytes, bool]:
    """About as many rows as have room: how large Parquet is shows only when it is written, so some are written anew."""
    table = pa.Table.from_batches(found.batches, found.schema)
    written = _write_parquet(table)
    if len(written) <= bytes_max:
        return written, False
    least, most, steps, fits = 0, table.num_rows, PARQUET_STEPS, b""
    while most - least > 1 and steps:
        count = (least + most) // 2
        written = _write_parquet(table.slice(0, count))
        if len(written) <= bytes_max:
            fits, least = written, count
        else:
            most = count
        steps -= 1 if fits else 0
    return fits or _write_parquet(table.slice(0, 0)), True


def _write_parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    try:
        pq.write_table(table, out, compression="zstd")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise InvalidSql(f"Parquet can't hold these rows: {str(error).splitlines()[0]}") from None
    return out.getvalue()


@dataclass
class _Room:
    """How many bytes there is room for, and whether something had none."""

    left: int
    is_full: bool = False

    def take(self, size: int) -> bool:
        """Whether there was so much."""
        self.is_full = self.is_full or size > self.left
        self.left -= 0 if self.is_full else size
        return not self.is_full


def _rows(found: Found, room: _Room) -> Iterator[tuple[Any, ...]]:
    """One after the other; never more are made of Arrow than there may be room for."""
    return rows_of(Result(found.schema, _pieces(found, room)))


def _pieces(found: Found, room: _Room) -> Iterator[pa.RecordBatch]:
    most = max(_PIECE_VALUES // max(len(found.schema), 1), 1)
    for batch in found.batches:
        at = 0
        while at < batch.num_rows:
            piece = batch.slice(at, most)
            while (size := sum(map(_least, piece.columns))) > room.left and piece.num_rows > 1:
                piece = piece.slice(0, piece.num_rows // 2)
            if size > room.left:
                room.is_full = True
                return
            at += piece.num_rows
            yield piece


def _least(array: Any) -> int:
    """So many bytes its values have at least, as JSON or as CSV: names of fields stand there with each value."""
    kind, count = array.type, len(array) - array.null_count
    if pa.types.is_struct(kind):
        if is_variant(kind):
            return _least(array.field(0))
        fields: list[pa.Field] = list(kind)
        each = sum(len(field.name.encode()) for field in fields)
        return count * each + sum(map(_least, array.drop_null().flatten()))
    if pa.types.is_map(kind):
        entries = array.drop_null()
        start, stop = (entries.offsets[0].as_py(), entries.offsets[-1].as_py()) if len(entries) else (0, 0)
        return sum(_least(side.slice(start, stop - start)) for side in (entries.keys, entries.items))
    if pa.types.is_list(kind):
        return _least(array.flatten())
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        lengths: Any = pc.call_function("binary_length", [array])
        return pc.call_function("sum", [lengths]).as_py() or 0
    return len(array)


_ENCODERS: dict[str, tuple[str, Callable[[Found, int], tuple[bytes, bool]]]] = {
    "json": (JSON, _json),
    "csv": ("text/csv; charset=utf-8", _csv),
    "arrow": (ARROW, _arrow),
    "parquet": (PARQUET, _parquet),
}
