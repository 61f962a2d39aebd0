"""What is left of a table whose first commit was never made: a power cut, or a kill, after its folder was."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakemq.jobs.tables.table_log import java_class
from lakemq.objects.path import is_object
from lakemq.storage.lake.delta_log import FOLDER, all_of_log, half_written


def clear_begun(session: SparkSession, path: Path) -> None:
    """Removes the empty log of a table that isn't made: Delta says of it that a table is there already, and that there
    is none to read. Raises `OSError`, `Py4JError` where anything else is in it."""
    if is_object(path):
        _remove_marker(session, str(path / FOLDER))
        return
    for each in half_written(all_of_log(path)):
        each.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        (path / FOLDER).rmdir()  # if another has made the table since, it isn't empty


def _remove_marker(session: SparkSession, url: str) -> None:
    """A bucket has no folders, but S3A leaves an empty object for one."""
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    java_session: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    place = java_class(jvm, "org.apache.hadoop.fs.Path")(url)
    place.getFileSystem(java_session.sessionState().newHadoopConf()).delete(place, False)
