"""One statement of SQL, as a user, for programs without asyncio."""

from __future__ import annotations

from typing import Unpack

from lakemq.client.aio.sql_call import SqlOptions
from lakemq.client.aio.sql_call import sql as ask_sql
from lakemq.client.loop import background
from lakemq.client.results import SqlRows


def sql(statement: str, **options: Unpack[SqlOptions]) -> SqlRows:
    """The rows of one statement that reads, as far as this user may see them, from the jobs that say to a broker where
    they answer. It takes neither Spark nor a lake here.

    Raises `InvalidSql`, `Forbidden`, `OverQuota`, `RequestTimeout`; `Unreachable` where no jobs answer.
    """
    return background().run(ask_sql(statement, **options))
