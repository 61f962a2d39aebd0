"""A statement's rows on a stream, or in a file. Nothing of Spark is needed for it."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import BinaryIO, Literal

from lakemq.jobs.errors import InvalidOption
from lakemq.jobs.sql.formats import WRITERS
from lakemq.jobs.sql.result import Result

Format = Literal["table", "json", "csv", "arrow", "parquet"]

_BY_SUFFIX: dict[str, Format] = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".parquet": "parquet",
    ".txt": "table",
}


def format_of(file: Path) -> Format:
    """The format that the file's name asks for; raises `InvalidOption`."""
    found = _BY_SUFFIX.get(file.suffix.lower())
    if found is None:
        raise InvalidOption(f"{file.name}: give --format, or a name with one of {', '.join(_BY_SUFFIX)}")
    return found


def write_rows(result: Result, format: Format, out: BinaryIO) -> None:
    """The rows in that format. `json` is an object a line, `csv` has a header, `arrow` is an IPC
    stream; all but `table` hold a bounded part of the rows at a time."""
    WRITERS[format](result, out)
    out.flush()


def write_file(result: Result, format: Format, file: Path) -> None:
    """The rows as a file, which appears when it is whole."""
    new = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with new.open("wb") as out:
            write_rows(result, format, out)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
