"""`display`: shows a value in a notebook as Databricks does, and on a terminal as text."""

from __future__ import annotations

import sys
from typing import Any

ROWS_MAX = 1_000


def display(value: Any = None) -> None:
    """Show a frame as a table of its first 1,000 rows; anything else as the notebook shows its like.

    A frame that streams has no rows yet: its columns are shown. Without IPython, text goes to stdout.
    """
    shell = shell_here()
    if _is_frame(value):
        _show(shell, *_of_frame(value))
    elif shell is not None:
        data, metadata = shell.display_formatter.format(value)
        shell.display_pub.publish(data=data, metadata=metadata)
    else:
        sys.stdout.write(f"{value}\n")


def shell_here() -> Any:
    """IPython's shell, if the program runs in one."""
    found = sys.modules.get("IPython")
    return None if found is None else found.get_ipython()


def _show(shell: Any, text: str, html: str) -> None:
    if shell is None:
        sys.stdout.write(text + "\n")
    else:
        shell.display_pub.publish(data={"text/plain": text, "text/html": html})


def _is_frame(value: Any) -> bool:
    """A DataFrame of Spark's, classic or Connect's: they share no class that costs no import."""
    return type(value).__name__ == "DataFrame" and type(value).__module__.startswith("pyspark.sql.")


def _of_frame(frame: Any) -> tuple[str, str]:
    """The frame in text and in HTML."""
    from lakemq.jobs.notebook.table import Table

    if frame.isStreaming:
        table = Table(["column", "type"], [(name, kind) for name, kind in frame.dtypes])
        return f"a stream of\n{table.text()}", f"<p>a stream of</p>{table.html()}"
    rows = frame.limit(ROWS_MAX + 1).collect()
    table = Table(frame.columns, rows[:ROWS_MAX], more=len(rows) > ROWS_MAX)
    return table.text(), table.html()
