"""A topic's own Delta table as statements name it: `topic_orders`."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from lakemq.jobs.sql.catalog import find_table, place_of
from lakemq.jobs.tables.table_log import TableLog
from lakemq.jobs.tables.topic_table import TOPIC
from lakemq.model.topic_table import PREFIX

_NAME = re.compile(f"{PREFIX}[a-z0-9_]+")


def is_own_name(name: tuple[str, ...]) -> bool:
    """Whether it is that of a topic's own table, if there is one."""
    return len(name) == 1 and _NAME.fullmatch(name[0]) is not None


def own_names(session: SparkSession, most: int) -> list[str]:
    """Of the tables whose names are such, the first by name."""
    found = (row["tableName"] for row in session.sql(f"SHOW TABLES IN default LIKE '{PREFIX}*'").collect())
    return sorted(name for name in found if is_own_name((name,)))[:most]


def topic_of_own(session: SparkSession, name: str) -> str | None:
    """Of which topic the table with such a name is; None: there is none, or it is somebody else's.

    By the table's own log: `SHOW TBLPROPERTIES` hides values that look like secrets, and a topic's name may.
    """
    table = find_table(session, name)
    if table is None or table.tableType().name() == "VIEW":
        return None
    found = TableLog(session, place_of(session, table)).look().metadata().configuration().get(TOPIC)
    return str(found.get()) if found.isDefined() else None
