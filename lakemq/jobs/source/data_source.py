"""`format("lakemq")`: the log as a stream and as a table, for jobs and users alike.

Every message of the subscription comes exactly once and in the order of its log position (within
a partition). What the log has lost is an error, and passed over only where `failOnDataLoss` is
false. docs/lake.md has the options.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lakemq.jobs.errors import BrokerUnavailable, InvalidOption
from lakemq.jobs.log_client import LogClient, LogEnd, Subscription, find_brokers
from lakemq.jobs.sink.options import SinkOptions, check_columns, parse_sink_options
from lakemq.jobs.sink.writer import BatchSink, StreamSink
from lakemq.jobs.source.bounds import Brokers, begin_of, check_begin, check_log, end_of
from lakemq.jobs.source.columns import arrow_schema_of, log_columns, schema_of, tick_batch, to_batch
from lakemq.jobs.source.frames import read_frames
from lakemq.jobs.source.options import TICK_MS_MAX, SourceOptions, parse_options
from lakemq.jobs.source.plan import LogPartition, QueueBounds, StreamOffset, share, split
from lakemq.jobs.source.wait import EndWatch
from lakemq.model.columns import READABLE
from lakemq.model.errors import PositionGone
from lakemq.model.wheel import listed_until

logger = logging.getLogger(__name__)
pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers
_QUEUE_COLUMNS = ("topic", "queue_id", "queue_offset")


class LakemqDataSource(DataSource):
    """The entry point that Spark makes of the options; register it once a session."""

    @classmethod
    def name(cls) -> str:
        return "lakemq"

    def schema(self) -> StructType:
        return schema_of(list(parse_options(self.options).columns))

    def reader(self, schema: StructType) -> LogReader:
        return LogReader(_source_options(self.options), schema.fieldNames())

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: N802 (Spark's name)
        return LogStreamReader(_source_options(self.options), schema.fieldNames())

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        if overwrite:
            raise InvalidOption("a topic can't be overwritten: write with mode('append')")
        check_columns(schema)
        return BatchSink(_sink_options(self.options, streaming=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: N802 (Spark's name)
        # `overwrite` is outputMode("complete"): each batch has all rows, and each is sent, as to any log.
        # (Spark itself refuses "update" for every sink in Python.)
        check_columns(schema)
        return StreamSink(_sink_options(self.options, streaming=True))


def _source_options(given: Mapping[str, str]) -> SourceOptions:
    options = parse_options(given)
    if not options.nameservers:
        return options
    found = find_brokers(options.nameservers, options.retry_s)
    if not found:
        raise BrokerUnavailable("the name servers know no broker")
    return replace(options, brokers=tuple(found.values()))


def _sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    options = parse_sink_options(given, streaming)
    if not options.nameservers:
        return options
    address = find_brokers(options.nameservers, options.retry_s).get(options.broker)
    if address is None:
        raise BrokerUnavailable(f"the name servers know no broker {options.broker!r}")
    return replace(options, broker=address, name=options.broker)


class LogReader(DataSourceReader):
    """A batch read: from `startingOffsets` (default earliest) to `endingOffsets` (latest)."""

    def __init__(self, options: SourceOptions, columns: list[str]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[LogPartition]:
        brokers = Brokers(self._options)
        begin = begin_of(self._options, brokers, "earliest")
        end, ends = end_of(self._options, brokers)
        planned = plan(brokers, begin, end, self._options.partitions, ends)
        brokers.close()
        return planned

    def read(self, partition: LogPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        return read_partition(partition, self._options, self._columns)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream: from `startingOffsets` (default latest) on.

    Its offset holds a position by broker and the batch's clock, which is later from batch to batch.
    While nothing new is in the subscription, the latest offset is the start offset, text for text,
    and Spark plans no batch. A stream with ticks begins with a batch at once, and plans one with the
    same positions and a later clock every `tick_ms` while its timer is over, and every `TICK_MS_MAX` in any case.
    """

    def __init__(self, options: SourceOptions, columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._brokers = Brokers(options)
        self._watch: EndWatch | None = None
        self._targets: dict[str, int] | None = None
        self._checked = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        begin = begin_of(self._options, self._brokers, "latest")
        begin = replace(begin, logs={name: client.end().log_id for name, client in self._brokers.by_name().items()})
        return (begin if self._options.tick_ms is None else replace(begin, clock_ms=0)).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        limit = self._options.messages_per_trigger_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        self._targets = {name: end.end_position for name, end in self._brokers.ends().items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begin = StreamOffset.from_json(start)
        self._check_not_ahead(begin)
        limit_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        rows = share(limit_rows, len(self._brokers.by_name()))
        found = self._latest(begin, rows)
        return start if found is None else found.to_json()

    def _latest(self, begin: StreamOffset, rows: int | None) -> StreamOffset | None:
        """Where the next batch ends; None when there shall be none yet."""
        options, watch = self._options, self._watching()
        first = options.tick_ms is not None and begin.clock_ms == 0
        held = self._targets is None and not first
        ends = watch.ends(begin.positions, rows, options.wait_ms if held else 0)
        found = self._advanced(begin, ends)
        if first or found.positions != begin.positions:
            return found
        if options.tick_ms is None or not held:
            return None
        if not watch.is_over(found.clock_ms):
            return found if found.clock_ms >= begin.clock_ms + TICK_MS_MAX else None
        pause_ms = begin.clock_ms + options.tick_ms - found.clock_ms
        if pause_ms > 0:
            found = self._advanced(begin, watch.ends_without_timer(begin.positions, rows, pause_ms))
        ticked = found.clock_ms >= begin.clock_ms + options.tick_ms
        return found if ticked or found.positions != begin.positions else None

    def _advanced(self, begin: StreamOffset, ends: dict[str, LogEnd]) -> StreamOffset:
        """`begin` with what these brokers have said; its clock is later in any case."""
        positions, clock_ms = dict(begin.positions), begin.clock_ms + 1
        logs, clocks = dict(begin.logs), dict(begin.clocks)
        for name, end in ends.items():
            check_log(name, logs.setdefault(name, end.log_id), end.log_id)
            position = positions.get(name, end.begin_position)
            check_begin(end, position, self._options)
            positions[name] = max(position, self._up_to_target(name, end.end_position))
            clock_ms = max(clock_ms, end.clock_ms)
            if self._options.tick_ms is not None:
                clocks[name] = max(clocks.get(name, 0), end.clock_ms)
        return StreamOffset(positions, clock_ms, begin.begins, logs, clocks)

    def _watching(self) -> EndWatch:
        if self._watch is None:
            addresses = {name: client.address for name, client in self._brokers.by_name().items()}
            self._watch = EndWatch(self._options, addresses)
        return self._watch

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[LogPartition]:
        begin, until = StreamOffset.from_json(start), StreamOffset.from_json(end)
        planned = plan(self._brokers, begin, until, self._options.partitions, {})
        return planned if self._options.tick_ms is None else self._with_ticks(planned, begin, until)

    def read(self, partition: LogPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        return read_partition(partition, self._options, self._columns)

    def stop(self) -> None:
        self._brokers.close()
        if self._watch is not None:
            self._watch.close()

    def _with_ticks(self, planned: list[LogPartition], begin: StreamOffset, until: StreamOffset) -> list[LogPartition]:
        """The same tasks, of which the first of each broker whose clock has gone on also gives its tick: a task of its
        own would cost."""
        ticking = {name for name, now in until.clocks.items() if now > begin.clocks.get(name, 0)}
        tasks: list[LogPartition] = []
        for part in planned + self._empty(ticking.difference(part.broker for part in planned), begin, until):
            clocks = until.clocks.get(part.broker, 0), begin.clocks.get(part.broker, 0)
            tick = part.broker in ticking
            ticking.discard(part.broker)
            tasks.append(self._listing(replace(part, tick=tick, broker_ms=clocks[0], broker_before_ms=clocks[1])))
        return tasks

    def _listing(self, part: LogPartition) -> LogPartition:
        """The task, which lists too what comes next, when the broker's clock has come so far."""
        due_to_ms = listed_until(part.broker_ms)
        due_from_ms = listed_until(part.broker_before_ms) if part.broker_before_ms else 0
        if not part.tick or not self._options.pending or due_from_ms == due_to_ms:
            return part
        return replace(part, pending=self._options.pending, due_from_ms=due_from_ms, due_to_ms=due_to_ms)

    def _empty(self, names: set[str], begin: StreamOffset, until: StreamOffset) -> list[LogPartition]:
        """Tasks of brokers that have no news."""
        clients = self._brokers.by_name()
        clocks = until.clock_ms, begin.clock_ms
        tasks = [
            LogPartition(name, clients[name].address, 0, 0, clocks[0], {}, {}, clocks[1]) for name in sorted(names)
        ]
        return [replace(each, log_id=until.logs.get(each.broker, "")) for each in tasks]

    def _up_to_target(self, name: str, position: int) -> int:
        return position if self._targets is None else min(position, self._targets.get(name, 0))

    def _check_not_ahead(self, begin: StreamOffset) -> None:
        """Once a run: a log that ends before what was read of it is not the log that was read."""
        if self._checked:
            return
        for name, client in self._brokers.by_name().items():
            check_log(name, begin.logs.get(name), client.end().log_id)
            last = client.end_of_log()
            position = begin.positions.get(name, 0)
            if position > last:
                raise PositionGone(f"the stream has read {name} up to {position}, but its log ends at {last}")
        self._checked = True


def plan(
    brokers: Brokers, begin: StreamOffset, end: StreamOffset, partitions: int, ends: QueueBounds
) -> list[LogPartition]:
    """The tasks that read from `begin` to `end`: all brokers, each range in even parts.

    A broker that `begin` does not name is read from its log's begin.
    """
    tasks: list[LogPartition] = []
    for name, client in brokers.by_name().items():
        if name not in end.positions:
            continue
        first = begin.positions.get(name)
        if first is None:
            first = client.end().begin_position
        for low, high in split(first, end.positions[name], partitions):
            part = LogPartition(name, client.address, low, high, end.clock_ms, begin.begins, ends, begin.clock_ms)
            tasks.append(replace(part, log_id=end.logs.get(name, "")))
    return tasks


def read_partition(partition: LogPartition, options: SourceOptions, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The partition's rows, a batch a page; runs in a worker of Spark."""
    schema = arrow_schema_of(columns)
    wanted = log_columns(columns)
    bounded = bool(partition.begins or partition.ends)
    asked = list(dict.fromkeys([*wanted, *_QUEUE_COLUMNS])) if bounded else wanted
    with closing(LogClient(partition.address, options.retry_s, token=options.token)) as client:
        for table in _tables(client, partition, options, asked):
            rows = _within(table, partition.begins, partition.ends) if bounded else table
            if rows.num_rows:
                yield to_batch(rows, schema, partition)
        for kind in partition.pending:
            for table in client.pending(kind, partition.due_from_ms, partition.due_to_ms, partition.log_id):
                if table.num_rows:
                    yield to_batch(_with_nulls(table, wanted), schema, partition)
    if partition.tick:
        yield tick_batch(schema, partition)


def _with_nulls(table: pa.Table, wanted: list[str]) -> pa.Table:
    """The table with those of its columns, too, that it lacks."""
    for name in wanted:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, READABLE[name].type))
    return table


def _tables(
    client: LogClient, partition: LogPartition, options: SourceOptions, columns: list[str]
) -> Iterator[pa.Table]:
    """The partition's rows, in tables of some MiB."""
    position = partition.begin
    while position < partition.end:
        try:
            for table, following in _pages(client, partition, options, columns, position):
                position = following
                yield table
        except PositionGone:
            if options.fail_on_data_loss:
                raise
            position = _pass_over(client, position, partition.end)


def _pages(
    client: LogClient, partition: LogPartition, options: SourceOptions, columns: list[str], position: int
) -> Iterator[tuple[pa.Table, int]]:
    """Who wants whole messages of all topics gets the log's frames, and makes rows of them itself; rows of some topics
    or without bodies are less to send, and the gateway makes them."""
    end, log_id = partition.end, partition.log_id
    if options.subscription == Subscription() and "body" in columns:
        return read_frames(client, partition.broker, position, end, columns, log_id)
    return iter([client.messages(position, end, options.subscription, columns, log_id)])


def _pass_over(client: LogClient, position: int, end: int) -> int:
    """Where to go on: the log begins there by now."""
    begin = max(min(client.end().begin_position, end), position)
    logger.warning("%s no longer has positions %d to %d: skipping them", client.address, position, begin - 1)
    return begin


def _within(table: pa.Table, begins: QueueBounds, ends: QueueBounds) -> pa.Table:
    """Without the rows of a queue below its begin, and from its end on."""
    out = [_beyond(table, topic, queue, pc.less, at) for topic, queue, at in _flat(begins)]
    out += [_beyond(table, topic, queue, pc.greater_equal, at) for topic, queue, at in _flat(ends)]
    return table.filter(pc.invert(reduce(pc.or_, out))) if out else table


def _beyond(table: pa.Table, topic: str, queue: int, compare: Any, at: int) -> Any:
    of_queue = pc.and_(pc.equal(table["topic"], topic), pc.equal(table["queue_id"], queue))
    return pc.and_(of_queue, compare(table["queue_offset"], at))


def _flat(bounds: QueueBounds) -> Iterator[tuple[str, int, int]]:
    for topic, queues in bounds.items():
        for queue, at in queues.items():
            yield topic, queue, at
