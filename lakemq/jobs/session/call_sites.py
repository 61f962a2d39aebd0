"""What PySpark notes for its errors: which line of Python each part of a plan comes from.

For each method of a column that is called, it asks Java five times more, which was two thirds of all calls that a plan
of the jobs takes. No user's Python runs in this process, and its own tracebacks name the lines.
"""

from __future__ import annotations

from pyspark.errors import utils

CALL_SITES = "spark.python.sql.dataFrameDebugging.enabled"
"""PySpark's own switch. A client of Spark Connect goes by it too, so it stays as it is: its errors name its lines."""


def note_none() -> None:
    """None are noted in this process."""
    utils._enable_debugging_cache = False  # pyright: ignore[reportPrivateUsage]
