"""`lakemq sql`: a statement's rows, from the jobs' Spark where it runs, else from one of its own."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from lakemq.jobs.errors import BrokerUnavailable, InvalidOption, LakeNotFound
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.sql.connect_client import ConnectClient, Result
from lakemq.jobs.sql.formats import WRITERS
from lakemq.settings import Settings, Sql
from lakemq.storage.lake.delta_log import tables_of

if TYPE_CHECKING:  # PySpark takes a second to import: who asks the jobs' server needs none of it
    from pyspark.sql import SparkSession

_LOOK_S = 1.0

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


@contextlib.contextmanager
def embedded_client(settings: Settings, broker_url: str, statement: str) -> Generator[ConnectClient]:
    """A client of a Spark that this process starts, over the lake's tables; it stops with the client.

    Raises `LakeNotFound` when there are none; `BrokerUnavailable` when the statement names live views
    and the gateway does not answer.
    """
    from pyspark.sql import SparkSession

    from lakemq.jobs.session.connect import server_of, token_of

    own = settings.model_copy(update={"sql": Sql(port=0)})
    found = SparkSession.getActiveSession()
    session = open_lake(own, broker_url, needs_live=re.search(r"\blive`?\s*\.", statement, re.IGNORECASE) is not None)
    try:
        with ConnectClient(server_of(session, own), token_of(session)) as client:
            yield client
    finally:
        if found is None:
            session.stop()


def check_lake(settings: Settings) -> None:
    """Raises `LakeNotFound` when there are no tables."""
    if not tables_of(settings.lake.dir):
        raise LakeNotFound(f"there is no lake in {settings.lake.dir}: run `lakemq up` or `lakemq jobs` first")


def open_lake(settings: Settings, broker_url: str | None = None, *, needs_live: bool = False) -> SparkSession:
    """A session of this process in which the lake's tables, views and functions go by their names.

    With `broker_url` the live views too, where the broker answers; with `needs_live` it must, or
    `BrokerUnavailable` is raised. Raises `LakeNotFound` when there is no lake. The caller stops it.
    """
    check_lake(settings)
    if needs_live and broker_url is not None:
        for address in broker_url.split(","):
            LogClient(address, _LOOK_S).end()
    from pyspark.sql import SparkSession

    from lakemq.jobs.session.session import start_session
    from lakemq.jobs.sql.catalog import register_catalog
    from lakemq.jobs.sql.live import LiveViews

    found = SparkSession.getActiveSession()
    session = start_session(settings, "lakemq sql", short_lived=True, server=broker_url is not None)
    if broker_url is None:
        register_catalog(session, settings.lake.dir)
        return session
    try:
        LiveViews(session, settings.lake.dir, lambda: broker_url).register()
    except BrokerUnavailable:
        if needs_live:
            if found is None:
                session.stop()
            raise
    return session
