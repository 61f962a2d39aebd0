"""Notebooks in Databricks' source format, on a lake: what they need here, and what runs them.

On Databricks a notebook finds `spark` and `display`; `lakemq notebook run` gives it both, and
`%sql`. In a plain Python or a Jupyter of one's own they come from here:

    from lakemq.jobs.notebook import display, spark

`spark` is made when it is first asked for, by the settings that the commands have
(`conf/lakemq.toml`, `LAKEMQ_SECTION__KEY`): a session of the running jobs', or else an embedded one.
Under IPython `%sql` and `%%sql` come with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakemq.jobs.notebook.display import display

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    spark: SparkSession

__all__ = ["display", "spark"]


def __getattr__(name: str) -> Any:
    if name != "spark":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lakemq.jobs.notebook.kernel import session_here

    globals()["spark"] = made = session_here()
    return made
