"""`lakemq sql`: Spark SQL over the lake, its tables usable by their bare names."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Literal

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakemq.jobs.errors import InvalidStatement, LakeNotFound
from lakemq.jobs.session import start_session
from lakemq.jobs.sql_formats import WRITERS
from lakemq.settings import Settings

Format = Literal["table", "json", "csv", "arrow"]


def open_lake(settings: Settings) -> SparkSession:
    """A session in which each Delta table of the lake is a view of its folder's name.

    Raises `LakeNotFound` when there is none. The caller stops the session.
    """
    tables = _tables(settings.lake.dir)
    session = start_session(settings, "lakemq sql", short_lived=True)
    for path in tables:
        frame = session.read.format("delta").load(str(path))
        frame.createOrReplaceTempView(path.name)
    return session


def run_sql(settings: Settings, statement: str, format: Format, out: BinaryIO) -> None:
    """Runs one statement and writes its rows to `out`.

    `table` is for people (it reads all rows before the first is written), `json` an object a
    line, `csv` with a header, `arrow` an IPC stream: these three hold a bounded part of the rows
    at a time. Raises `InvalidStatement` with Spark's complaint in one line, `LakeNotFound`.
    """
    found = SparkSession.getActiveSession()
    session = open_lake(settings)
    try:
        write_rows(_run(session, statement), format, out)
    except PySparkException as error:
        raise InvalidStatement(_complaint(error)) from None
    finally:
        if found is None:
            session.stop()


def write_rows(frame: DataFrame, format: Format, out: BinaryIO) -> None:
    """The frame's rows in that format."""
    WRITERS[format](frame, out)
    out.flush()


def _tables(lake: Path) -> list[Path]:
    found = sorted(log.parent.absolute() for log in lake.glob("*/_delta_log"))
    if not found:
        raise LakeNotFound(f"there is no lake in {lake}: run `lakemq up` or `lakemq jobs` first")
    return found


def _run(session: SparkSession, statement: str) -> DataFrame:
    return session.sql(statement.strip().rstrip(";"))


def _complaint(error: PySparkException) -> str:
    """The first line that says something, without Spark's error class and call stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    if text.startswith("[") and "]" in text:
        text = text.partition("]")[2].strip()
    return text.partition(" SQLSTATE")[0].strip() or type(error).__name__
