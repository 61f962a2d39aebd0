"""`sql` for programs without asyncio."""

from __future__ import annotations

from typing import Unpack

from lakemq.client.aio.sql_call import SqlOptions
from lakemq.client.aio.sql_call import sql as ask_sql
from lakemq.client.frame import Frame
from lakemq.client.loop import background


def sql(statement: str, **options: Unpack[SqlOptions]) -> Frame:
    """Like `read_sql`, except for the unit of its timeout."""
    return background().run(ask_sql(statement, **options))
