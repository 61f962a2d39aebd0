"""Topics, backlogs and statements as frames, and frames into topics, for programs without asyncio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from lakemq.client.aio import frames
from lakemq.client.aio.admin import AdminOptions
from lakemq.client.durations import Seconds
from lakemq.client.frame import Frame
from lakemq.client.loop import background
from lakemq.client.manage.bodies import Body
from lakemq.client.manage.reading import BYTES_MAX, ROWS_MAX
from lakemq.client.manage.spans import Place


def read_topic(
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
    return background().run(
        frames.read_topic(
            topic,
            begin=begin,
            end=end,
            tags=tags,
            sql=sql,
            body=body,
            rows_max=rows_max,
            bytes_max=bytes_max,
            **options,
        )
    )


def read_backlog(
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
    return background().run(
        frames.read_backlog(group, topic, body=body, rows_max=rows_max, bytes_max=bytes_max, **options)
    )


def read_sql(
    statement: str, *, rows_max: int | None = None, timeout_s: Seconds | None = None, **options: Unpack[AdminOptions]
) -> Frame:
    """The rows of one statement that only reads, like `Admin.sql`. Raises `InvalidSql`, and `Unreachable` if no jobs
    answer."""
    return background().run(frames.read_sql(statement, rows_max=rows_max, timeout_s=timeout_s, **options))


def write_topic(
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
    return background().run(
        frames.write_topic(
            topic, frame, key=key, tag=tag, ordering_key=ordering_key, properties=properties, body=body, **options
        )
    )
