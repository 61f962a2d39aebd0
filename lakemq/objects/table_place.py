"""Where a table or a folder of the lake is, as delta-rs, Spark's SQL and Spark's readers take it.

Each of them reads more into a path than a file system does. What a name can be used with is asked here, and quoted
here, and nowhere else.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from lakemq.model.errors import SettingsError
from lakemq.model.spark_sql import quoted
from lakemq.objects.path import is_object

_UNFIT = re.compile(r"[\x00-\x1f\x7f\\\[\]^|]|%[0-9A-Fa-f]{2}|[\ud800-\udfff]")
"""delta-rs takes `%20` for a space, and `\\` for `/`: it would read and write another folder. Of the others it panics
as it writes, or says that they are illegal. It does so with URLs too."""
AS_IT_IS = {"__globPaths__": "false"}
"""The option by which Spark's readers of files take a path as it is, as its writers, its checkpoints and Delta do. By
themselves they look for what fits `{a,b}`, and not for that folder; and with a `:` they can't, however it is quoted."""


def delta_place(path: Path) -> str:
    """As delta-rs takes a table's folder. Raises `SettingsError` for one that it can't be given."""
    where = str(path if is_object(path) else path.absolute())
    # delta-rs itself follows links first.
    found = _UNFIT.search(where if is_object(path) else os.path.realpath(path))
    if found is not None:
        raise SettingsError(
            f"no lake can be in {ascii(where)[:1000]}: Delta's library can't open a folder with {found[0]!a} in "
            "its path (lake.dir). Name it otherwise, without [ ] ^ | \\, control characters and % before two hex digits"
        )
    return where


def check_fit(lake: Path) -> None:
    """Raises `SettingsError` for a folder whose path no lake can have."""
    delta_place(lake)


def sql_place(path: Path) -> str:
    """The table in a folder, as a statement of Spark's names it."""
    return f"delta.{quoted(str(path))}"
