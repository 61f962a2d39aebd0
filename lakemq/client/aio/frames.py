"""Topics, backlogs and statements as frames, and frames into topics, for programs with asyncio."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (pyarrow carries no types)

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Unpack

from lakemq.client.aio.admin import Admin, AdminOptions, brokers_of
from lakemq.client.aio.producer import Producer, SendFuture
from lakemq.client.consume.subscription import make_subscription
from lakemq.client.durations import Seconds
from lakemq.client.errors import RowsNotSent
from lakemq.client.frame import Frame
from lakemq.client.manage import reading
from lakemq.client.manage.bodies import Body, check_body
from lakemq.client.manage.reading import BYTES_MAX, ROWS_MAX
from lakemq.client.manage.rows import check_columns, columns_of, messages_of, table_of
from lakemq.client.manage.spans import Place
from lakemq.client.outgoing import check_topic
from lakemq.client.produce.options import ProducerOptions
from lakemq.model.errors import LakemqError

WINDOW = 5_000
"""So many rows are on their way together."""
ERRORS_MAX = 100


async def read_topic(
    topic: str,
    *,
    begin: Place | None = None,
    end: Place | None = None,
    tags: str = "*",
    sql: str | None = None,
    body: Body = "bytes",
    rows_max: int = ROWS_MAX,
    bytes_max: int = BYTES_MAX,
    **options: Unpack[AdminOptions],
) -> Frame:
    """The messages that a topic has now, oldest first, with the columns of the lake's table `messages`.

    `begin`, `end`: the range, by store time or by offset, `begin ≤ o < end`. `tags`, `sql`: filters, as for consumers.
    `body`: `bytes`; `text`; or `json`, which replaces the body with a column for each field of the bodies' objects. At
    most `rows_max` rows, and about `bytes_max` bytes; `truncated` says whether there are more. No group is involved,
    and nothing is committed. Raises `TopicNotFound`, `InvalidFilter`, `InvalidRequest`.
    """
    check_body(body)
    wanted = make_subscription(check_topic(topic), tags, sql)
    async with brokers_of(options) as asked:
        return await reading.read_topic(asked, topic, begin, end, wanted, body, rows_max, bytes_max)


async def read_backlog(
    group: str,
    topic: str | None = None,
    *,
    body: Body = "bytes",
    rows_max: int = ROWS_MAX,
    bytes_max: int = BYTES_MAX,
    **options: Unpack[AdminOptions],
) -> Frame:
    """The messages that a group has yet to consume, oldest first, in all its topics or in one, including its retries,
    whose topic is `%RETRY%{group}`. Otherwise like `read_topic`. Raises `GroupNotFound`, `InvalidRequest`."""
    check_body(body)
    async with brokers_of(options) as asked:
        return await reading.read_backlog(asked, group, topic, body, rows_max, bytes_max)


async def read_sql(
    statement: str, *, rows_max: int | None = None, timeout_s: Seconds | None = None, **options: Unpack[AdminOptions]
) -> Frame:
    """The rows of one statement that only reads, like `Admin.sql`. Raises `InvalidSql`, and `Unreachable` if no jobs
    answer."""
    async with Admin(**options) as admin:
        return await admin.sql(statement, rows_max=rows_max, timeout_s=timeout_s)


async def write_topic(
    topic: str,
    frame: Any,
    *,
    key: str | Sequence[str] | None = None,
    tag: str | None = None,
    ordering_key: str | None = None,
    properties: Sequence[str] = (),
    body: str | None = None,
    **options: Unpack[AdminOptions],
) -> int:
    """Send each row of a frame as a message. Returns the number of stored messages, which is that of all rows.

    `frame`: a pandas or Polars DataFrame, an Arrow table, or a dict of columns. `key`, `tag`, `ordering_key`,
    `properties`: the names of the columns with these values, as text. `body`: the column of bodies; without it the body
    is a JSON object of all columns that aren't named by another argument. Rows are sent in order, in batches. Raises
    `RowsNotSent` with the numbers of the rows that were not stored, `InvalidRequest` for unknown columns.
    """
    table = table_of(frame)
    columns = columns_of(key, tag, ordering_key, properties, body)
    check_columns(table, columns)
    stored, next_row = 0, 0
    failed: list[tuple[int, LakemqError]] = []
    window: list[tuple[int, SendFuture]] = []
    producers: ProducerOptions = {"token": options.get("token"), "routes": options.get("routes")}
    producers["nameservers"] = options.get("nameservers")
    async with Producer(options.get("brokers"), **producers) as producer:
        for message in messages_of(table, columns):
            number, next_row = next_row, next_row + 1
            if isinstance(message, LakemqError):
                failed.append((number, message))
                break
            try:
                window.append((number, await producer.send_async(check_topic(topic), message)))
            except LakemqError as error:
                failed.append((number, error))
                break
            if len(window) >= WINDOW:
                stored += await _settle(window, failed)
                if failed:
                    break
        stored += await _settle(window, failed)
    if failed:
        raise _not_sent(failed, next_row, stored)
    return stored


def _not_sent(failed: list[tuple[int, LakemqError]], next_row: int, stored: int) -> RowsNotSent:
    failed.sort(key=lambda each: each[0])
    number, error = failed[0]
    more = f", and {len(failed) - 1:,} more rows" if len(failed) > 1 else ""
    detail = f"row {number}: {error.detail}{more}; {stored:,} rows are stored"
    return RowsNotSent(detail, failed[:ERRORS_MAX], next_row, stored)


async def _settle(window: list[tuple[int, SendFuture]], failed: list[tuple[int, LakemqError]]) -> int:
    """Wait for all that is on its way; how many are stored."""
    stored = 0
    for number, future in window:
        try:
            await future
            stored += 1
        except LakemqError as error:
            failed.append((number, error))
        if number % 100 == 0:
            await asyncio.sleep(0)
    window.clear()
    return stored
