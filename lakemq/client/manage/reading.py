"""Messages as a table: of a topic, or of what a group has yet to consume."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUnknownLambdaType=false
# (pyarrow carries no types)

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakemq.client.consume.fetch import fetch
from lakemq.client.consume.subscription import Subscription
from lakemq.client.frame import Frame
from lakemq.client.manage.ask import Brokers
from lakemq.client.manage.bodies import Body, with_bodies
from lakemq.client.manage.spans import Place, Span, spans_of
from lakemq.client.outgoing import check_group, check_topic
from lakemq.client.routes import Cluster
from lakemq.contract import routes
from lakemq.model.errors import InvalidRequest
from lakemq.model.message_queue import MessageQueue
from lakemq.model.pull_limit import MESSAGES_PER_PULL_MAX

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX = 100_000
BYTES_MAX = 256 * 1024 * 1024
"""A frame has so much at most, unless it is asked otherwise."""
BYTES_MOST = 1024 * 1024 * 1024
"""A column of an Arrow table holds not much more."""


class _Reader:
    """Reads one queue's span page by page."""

    def __init__(self, cluster: Cluster, span: Span, wanted: Subscription) -> None:
        self._cluster = cluster
        self._span = span
        self._params: dict[str, str | int] = dict(wanted.params())
        self._offset = span.begin
        self.ended = False
        self.reached_ms = -1
        """The store time of the last message that was read."""

    async def page(self, count_max: int) -> tuple[pa.Table, int]:
        """The next messages, and how many bytes they are."""
        left = self._span.end - self._offset
        found = await fetch(self._cluster, self._span.queue, self._offset, min(count_max, left), 0.0, self._params)
        table = found.table
        if table.num_rows:
            inside = sum(offset < self._span.end for offset in table.column("queue_offset").to_pylist())
            table = table.slice(0, inside)
        if table.num_rows:
            self.reached_ms = table.column("store_time_ms")[table.num_rows - 1].as_py()
        self.ended = found.next_offset >= self._span.end or found.next_offset <= self._offset
        self._offset = found.next_offset
        return table, found.bytes


async def read_topic(
    brokers: Brokers,
    topic: str,
    begin: Place | None,
    end: Place | None,
    wanted: Subscription,
    body: Body,
    rows_max: int,
    bytes_max: int,
) -> Frame:
    """The oldest messages of these places, as they were stored one after the other."""
    spans = await spans_of(brokers.cluster, check_topic(topic), begin, end)
    return await _read(brokers.cluster, spans, wanted, body, rows_max, bytes_max)


async def read_backlog(
    brokers: Brokers, group: str, topic: str | None, body: Body, rows_max: int, bytes_max: int
) -> Frame:
    """The oldest messages that the group has yet to consume, in one topic or in all, its retries included."""
    target = routes.GROUP.at(check_group(group))
    found = await brokers.each(lambda asked: asked.get(target))
    spans: list[Span] = []
    for name, content in found.items():
        for entry in content["lag"]:
            if topic is None or entry["topic"] == topic:
                offset = max(entry["max_offset"] - (entry["lag"] or 0), entry["min_offset"])
                begin = max(entry["offset"], entry["min_offset"]) if entry["offset"] is not None else offset
                queue = MessageQueue(entry["topic"], name, entry["queue_id"])
                spans.append(Span(queue, begin, entry["max_offset"]))
    there = [span for span in spans if span.begin < span.end]
    return await _read(brokers.cluster, there, Subscription(topic or group), body, rows_max, bytes_max)


async def _read(
    cluster: Cluster, spans: Sequence[Span], wanted: Subscription, body: Body, rows_max: int, bytes_max: int
) -> Frame:
    """Always continues with the queue that is furthest behind. So it reads no more than the caller takes, except for
    one page of each queue."""
    import pyarrow as pa

    if rows_max < 1 or not 1 <= bytes_max <= BYTES_MOST:
        raise InvalidRequest(f"rows_max is at least 1, and bytes_max 1 to {BYTES_MOST:,}")
    open_readers = [_Reader(cluster, span, wanted) for span in spans]
    tables: list[pa.Table] = []
    rows = size = 0
    while open_readers:
        reader = min(open_readers, key=lambda each: each.reached_ms)
        is_enough = size >= bytes_max or (rows > rows_max and _count_to(tables, reader.reached_ms) > rows_max)
        if is_enough and reader.reached_ms >= 0:
            break
        table, bytes_read = await reader.page(min(MESSAGES_PER_PULL_MAX, rows_max + 1))
        rows, size = rows + table.num_rows, size + bytes_read
        tables.append(table)
        open_readers = [each for each in open_readers if not each.ended]
    if not tables:
        return Frame(with_bodies(_empty(), body), False)
    table = pa.concat_tables(tables)
    order = [("store_time_ms", "ascending"), ("topic", "ascending"), ("queue_id", "ascending")]
    table = table.take(_sorted(table, [*order, ("queue_offset", "ascending")]))
    truncated = bool(open_readers) or table.num_rows > rows_max
    if open_readers:  # later ones of a queue that was read further would stand where others are missing
        table = table.slice(0, _count_to([table], min(each.reached_ms for each in open_readers)))
    return Frame(with_bodies(table.slice(0, rows_max), body), truncated)


def _count_to(tables: Sequence[pa.Table], time_ms: int) -> int:
    """So many messages were stored before that time or then."""
    pc = _compute()
    return sum(pc.sum(pc.less_equal(each.column("store_time_ms"), time_ms)).as_py() or 0 for each in tables)


def _sorted(table: pa.Table, order: list[tuple[str, str]]) -> pa.Array:
    return _compute().sort_indices(table, sort_keys=order)


def _compute() -> Any:
    """Its functions are made at run time, unknown to type checkers."""
    import pyarrow.compute

    return pyarrow.compute


def _empty() -> pa.Table:
    from lakemq.model.columns import MESSAGE

    return MESSAGE.empty_table()
