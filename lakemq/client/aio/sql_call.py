"""`sql`: `read_sql` with the units of the HTTP contract."""

from __future__ import annotations

from typing import Unpack, cast

from lakemq.client.aio.admin import AdminOptions
from lakemq.client.aio.frames import read_sql
from lakemq.client.frame import Frame


class SqlOptions(AdminOptions, total=False):
    """Options of `sql`: those of `AdminOptions`, and these."""

    rows_max: int | None
    """So many rows at most. Default: as the jobs are set (`sql_http.rows`)."""
    timeout_ms: int | None
    """Then the statement is cancelled. Default: as the jobs are set (`sql_http.timeout_ms`)."""


async def sql(statement: str, **options: Unpack[SqlOptions]) -> Frame:
    """The same as `read_sql`, but for the unit of its timeout."""
    rows_max, timeout_ms = options.pop("rows_max", None), options.pop("timeout_ms", None)
    timeout_s = None if timeout_ms is None else timeout_ms / 1000
    where = cast("AdminOptions", options)
    return await read_sql(statement, rows_max=rows_max, timeout_s=timeout_s, **where)
