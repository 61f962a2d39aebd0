"""`sql`: `read_sql` with the units of the HTTP contract."""

from __future__ import annotations

from typing import Unpack, cast

from lakemq.client.aio.admin import AdminOptions
from lakemq.client.aio.frames import read_sql
from lakemq.client.frame import Frame


class SqlOptions(AdminOptions, total=False):
    """Options of `sql`: those of `AdminOptions`, and these."""

    rows_max: int | None
    """The most rows. Default: the setting of the jobs (`sql_http.rows`)."""
    timeout_ms: int | None
    """After this time the statement is cancelled. Default: the setting of the jobs (`sql_http.timeout_ms`)."""


async def sql(statement: str, **options: Unpack[SqlOptions]) -> Frame:
    """Like `read_sql`, except for the unit of its timeout."""
    rows_max, timeout_ms = options.pop("rows_max", None), options.pop("timeout_ms", None)
    timeout_s = None if timeout_ms is None else timeout_ms / 1000
    where = cast("AdminOptions", options)
    return await read_sql(statement, rows_max=rows_max, timeout_s=timeout_s, **where)
