"""What is left of a table whose first commit was never made: a power cut, or a kill, after its folder was."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from lakemq.jobs.tables.table_log import java_class
from lakemq.objects.path import is_object
from lakemq.storage.lake.delta_log import FOLDER, all_of_log, half_written, is_made

STAGED = "_staged_commits"
"""A folder in the log, which Delta makes with it."""


def clear_begun(session: SparkSession, path: Path) -> None:
    """Removes the empty log of a table that isn't made: Delta says of it that a table is there already, and that there
    is none to read. Raises `OSError`, `Py4JError` where anything else is in it, unless another has made the table."""
    try:
        if is_object(path):
            _remove_markers(session, path / FOLDER)
        else:
            _remove_folders(path)
    except (OSError, Py4JError):
        if not is_made(path):
            raise


def _remove_folders(path: Path) -> None:
    for each in half_written(all_of_log(path)):
        each.unlink(missing_ok=True)
    for folder in (path / FOLDER / STAGED, path / FOLDER):
        with suppress(FileNotFoundError):
            folder.rmdir()


def _remove_markers(session: SparkSession, log: Path) -> None:
    """A bucket has no folders, but S3A leaves an empty object for one."""
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    java_session: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    for folder in (log / STAGED, log):
        place = java_class(jvm, "org.apache.hadoop.fs.Path")(str(folder))
        place.getFileSystem(java_session.sessionState().newHadoopConf()).delete(place, False)
