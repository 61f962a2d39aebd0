"""The lake query: the log into Delta tables, continuously, each message once in each table.

The tables are the truth, the checkpoint is scratch. Each table says how far it holds each broker's
log (`delta_writer`). A start takes the least of these, begins a new checkpoint there, and gives to
each table only what it lacks. So a driver killed at any instant, a checkpoint that was deleted and
a table that was put back from a copy are all the same case.

Spark says when there is a batch, and which range of the log it is; that is read once for all tables (`one_read`).
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakemq.jobs.errors import BrokerUnavailable, LakeNotOnDisk, LakeOutOfStep
from lakemq.jobs.lake.batch_gate import BatchGate
from lakemq.jobs.lake.first_begin import check_first_begin
from lakemq.jobs.lake.healing import Alone, heal_lake
from lakemq.jobs.lake.merging import Merging
from lakemq.jobs.lake.one_read import WriteRange
from lakemq.jobs.lake.topic_tables_kept import TopicTablesKept
from lakemq.jobs.log_client import LogClient, check_same_log
from lakemq.jobs.source.options import SourceOptions
from lakemq.jobs.source.plan import LogPartition, StreamOffset, split
from lakemq.jobs.sql.live import LIVE_TABLES, LiveViews
from lakemq.jobs.tables.delta_writer import DeltaWriter, forget_cached_logs
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.holes import DROPPED, Hole, append_holes
from lakemq.jobs.tables.scheduled import SCHEDULED
from lakemq.jobs.tables.scheduled_writer import ScheduledWriter
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.tables import MESSAGES, TABLES
from lakemq.model.errors import LakemqError, LogReplaced
from lakemq.objects.path import beside
from lakemq.settings import Settings
from lakemq.storage.lake.prove import prove
from lakemq.storage.log.dropped import covers
from lakemq.traces.batches import NO_BATCHES, BatchSpans

CHECKPOINTS = "_checkpoints"
"""The folder in the lake that holds checkpoints; Delta's readers pass over names like this."""

_COMPACTED_RETRY_S = 1.0
_OWNED = re.compile(r"([0-9]{1,18})\.[0-9a-f]{32}")

logger = logging.getLogger(__name__)


class LakeQuery:
    """One run of the query, from what the tables hold to `stop` or a failure."""

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        address: str,
        views: LiveViews | None = None,
        *,
        driver: Driver,
        alone: Alone | None = None,
        observe_batch: Callable[[float], None] = lambda took_s: None,
        spans: BatchSpans = NO_BATCHES,
    ) -> None:
        """`views` are made when it starts, and follow its commits. `driver`: the same for all runs of a process.
        `alone`: keeps others of the process from writing, where there are any. `observe_batch` is told how many seconds
        each batch took."""
        self._observe_batch = observe_batch
        self._spans = spans
        self._driver = driver
        self._alone = alone
        self._session = session
        self._settings = settings
        self._options = SourceOptions(brokers=tuple(address.split(",")))
        self._clients: dict[str, LogClient] = {}
        self._held: dict[str, dict[str, int]] = {}
        self._positions: dict[str, int] = {}
        self._views = views
        self._gate = BatchGate()
        self._threads = ThreadPoolExecutor(len(TABLES), "lake")
        self._merging: Merging | None = None
        self._topic_tables: TopicTablesKept | None = None
        self._query: StreamingQuery | None = None
        self._failure: Exception | None = None
        self.topics = ()
        self.reached: StreamOffset | None = None
        """How far every table holds each broker's log."""
        self.batches = 0

    def start(self) -> StreamingQuery:
        """Puts back what a power cut has torn, makes the tables where there are none, and starts to write
        from what they hold.

        Raises `LakeOutOfStep` when the log has lost what a table, or a lake that is not there, lacks, or ends before
        what a table holds; `LakeDamaged` where it has lost what would have to be written again;
        `BrokerUnavailable` when a broker does not answer; `LakeTaken` when another driver has taken the lake since
        an earlier run; `LakemqError` where something of such a run goes on; `OSError`.
        """
        lake = self._settings.lake.dir
        if self._driver.left_writing:
            raise LakemqError("something of an earlier run writes the lake still, which nobody may put back meanwhile")
        self._clients = self._connect()
        forget_cached_logs(self._session)
        self._driver.check_now()
        heal_lake(lake, lambda: ",".join(self._options.brokers), self._alone)
        forget_cached_logs(self._session)
        ends = {broker: client.end() for broker, client in self._clients.items()}
        check_first_begin(lake, self._clients, ends, may_lack_older=self._settings.lake.may_lack_older)
        for table in TABLES:
            table.create(self._session, lake)
        self._driver.take()
        self._logs = {broker: end.log_id for broker, end in ends.items()}
        self._writers = {table.name: _writer(self._session, table, lake, self._logs, self._driver) for table in TABLES}
        self._held = {table.name: self._begin_of_table(table) for table in TABLES}
        self._positions = {broker: min(held[broker] for held in self._held.values()) for broker in self._clients}
        self.reached = StreamOffset(self._positions, 0)
        if self._views is not None:
            self._views.register()
        self._put_compacted()
        checkpoint = _new_checkpoint(lake, self._driver.number)
        self._merging = Merging(self._session, self._settings.lake, self._driver)
        self._merging.start()
        self._keep_topic_tables()
        query = self._stream(checkpoint)
        self._query = query
        return query

    def _keep_topic_tables(self) -> None:
        """Of the topics that the views know of: they ask the brokers for schemas."""
        views, merging = self._views, self._merging
        if views is not None and merging is not None:
            self._topic_tables = TopicTablesKept(
                self._session,
                self._settings.lake.dir,
                self._driver,
                views.kept_topics,
                lambda: self._writers[MESSAGES.name].progress,
                views.tables_made,
                merging.topic_table_written,
            )
            views.on_schemas = self._topic_tables.wake
            self._topic_tables.start()

    def failure(self) -> Exception | None:
        """What a batch failed with, as it was raised; None when none did."""
        return self._failure

    def stop(self, grace_s: float = 20.0) -> None:
        """Lets the batch that is under way finish, within `grace_s`, and stops: all of it, whatever of it fails, which
        is raised then. `driver.left_writing` says where something of it goes on."""
        with ExitStack() as stops:  # the last first
            for client in self._clients.values():
                stops.callback(client.close)
            if self._merging is not None:
                stops.callback(self._end, self._merging.stop)
            if self._topic_tables is not None:
                stops.callback(self._end, self._topic_tables.stop)
            stops.callback(self._threads.shutdown, wait=False, cancel_futures=True)
            if self._views is not None:
                stops.callback(self._views.stop_following)
            stops.callback(self._end, lambda: self._gate.close(0.0))
            if self._query is not None:
                stops.callback(self._end, self._query.stop)
            self._gate.close(grace_s)

    def _end(self, stop: Callable[[], bool | None]) -> None:
        """Of what commits. False: it has not ended."""
        try:
            if stop() is False:
                logger.warning("part of the lake query is still running: the lake's lock is kept until its Java ends")
                self._driver.left_writing = True
        except BaseException:
            self._driver.left_writing = True
            raise

    def _connect(self) -> dict[str, LogClient]:
        clients = [LogClient(each, self._options.retry_s) for each in self._options.brokers]
        return {client.end().broker: client for client in clients}

    def _begin_of_table(self, table: LakeTable) -> dict[str, int]:
        """Where the table goes on in each broker's log, checked against what the log holds."""
        begins: dict[str, int] = {}
        for broker, held in self._writers[table.name].held(self._clients).items():
            client = self._clients[broker]
            self._check_log(table, broker, self._logs[broker])
            first, last = client.end().begin_position, client.end_of_log()
            if held is None:
                if first > 0:
                    logger.warning(
                        "the new table %s begins at position %d of %s: the log has nothing older",
                        table.name, first, broker,
                    )  # fmt: skip
                begins[broker] = first
                continue
            if held < first and covers(client.dropped(), held, first):
                self._pass_over(table, broker, held, first)
                begins[broker] = first
                continue
            if held < first:
                raise LakeOutOfStep(
                    f"table {table.name} holds {broker} up to position {held}, but the log begins "
                    f"at {first}: messages between are lost to it. Put the table back from a copy, "
                    "or move it away to begin a new one"
                )
            if held > last:
                raise LakeOutOfStep(
                    f"table {table.name} holds {broker} up to position {held}, but the log ends at "
                    f"{last}: this is another log than the lake's. Give one of them another name"
                )
            begins[broker] = held
        return begins

    def _pass_over(self, table: LakeTable, broker: str, held: int, first: int) -> None:
        """Let the table go on where the log begins, and write down what it lacks: that is gone for good."""
        logger.error(
            "table %s permanently lacks positions %d to %d of %s: its log was full, and dropped them "
            "(storage.when_full)",
            *(table.name, held, first - 1, broker),
        )
        append_holes(self._settings.lake.dir, broker, [Hole(held, first - 1)], DROPPED)
        prove(self._settings.lake.dir)  # else a power cut could leave a table that goes on, and no word of the hole
        self._writers[table.name].append([], {broker: first}, 0)
        self.batches += 1  # it got on, though it has to begin anew with each drop

    def _check_log(self, table: LakeTable, broker: str, log_id: str) -> None:
        mark = self._writers[table.name].progress.logs.get(broker)
        if mark is not None and mark.log_id != log_id:
            raise LogReplaced(
                f"table {table.name} holds the log {mark.log_id} of {broker}, whose log is {log_id} now: its positions "
                "mean other messages. `lakemq lake adopt` keeps those of the old log under another broker's name "
                "and goes on with this one; or give the jobs a new folder with --lake"
            )

    def _stream(self, checkpoint: Path) -> StreamingQuery:
        lake = self._settings.lake
        reader = self._session.readStream.format("lakemq").options(
            broker=",".join(self._options.brokers),
            startingOffsets=json.dumps({"positions": self._positions}),
            columns="position",
            partitions="1",
            maxMessagesPerTrigger=str(lake.messages_per_trigger_max),
        )

        def write(_: DataFrame, epoch: int) -> None:
            self._gate.run(lambda: self._write_batch(epoch, checkpoint))

        writer = reader.load().writeStream.queryName("lake").foreachBatch(write)
        writer = writer.trigger(processingTime=f"{lake.trigger_ms} milliseconds")
        return writer.option("checkpointLocation", str(checkpoint)).start()

    def _write_batch(self, epoch: int, checkpoint: Path) -> None:
        began_s = perf_counter()
        try:
            with self._spans.batch("lake") as batch:
                end = end_of_batch(checkpoint, epoch)
                batch.rows = sum(max(at - self._positions[broker], 0) for broker, at in end.positions.items())
                self._write_to(end, epoch, checkpoint.parent)
        except OSError as error:
            self._failure = LakeNotOnDisk(f"the lake can't be brought to disk: {error}")
            raise self._failure from error
        except Exception as error:
            self._failure = error
            raise
        self._observe_batch(perf_counter() - began_s)
        if self._merging is not None:
            self._merging.batch_written()
        if self._topic_tables is not None:
            self._topic_tables.wake()

    def _write_to(self, end: StreamOffset, epoch: int, scratch: Path) -> None:
        """Brings each table to the batch's end, all at once; then tells the brokers.

        What was planned and read is of the logs that the end names, or it could not be read; so what is committed is
        of those too that the commits name.
        """
        for broker, log_id in self._logs.items():
            check_same_log(self._clients[broker].address, log_id, end.logs.get(broker, log_id))
        self._write_tables(epoch, end, scratch)
        self._positions = dict(end.positions)
        self.reached = end
        self.batches += 1
        self._put_compacted()
        if self._views is not None:
            self._views.follow({table.name: self._writers[table.name].progress for table in LIVE_TABLES})

    def _write_tables(self, epoch: int, end: StreamOffset, scratch: Path) -> None:
        ends = {broker: position for broker, position in end.positions.items() if position > self._positions[broker]}
        where = WriteRange(self._held, self._settings.lake.dir, scratch, self._options)
        written = where.write(self._session, self._parts(ends, end.clock_ms))
        by_table = {table.name: [each.content for each in written if each.name == table.name] for table in TABLES}
        tasks = [self._threads.submit(self._commit, table, by_table[table.name], ends, epoch) for table in TABLES]
        failures = [failure for task in tasks if (failure := task.exception()) is not None]
        if failures:
            raise failures[0]

    def _parts(self, ends: Mapping[str, int], clock_ms: int) -> list[LogPartition]:
        return [
            LogPartition(broker, self._clients[broker].address, low, high, clock_ms, {}, {}, log_id=self._logs[broker])
            for broker, end in ends.items()
            for low, high in split(self._positions[broker], end, self._settings.lake.partitions)
        ]

    def _commit(self, table: LakeTable, written: Sequence[str], ends: Mapping[str, int], epoch: int) -> None:
        """One commit brings the table to `ends`, where it isn't there yet."""
        held = self._held[table.name]
        lacking = {broker: end for broker, end in ends.items() if end > held[broker]}
        if lacking:
            self._writers[table.name].append(written, lacking, epoch)
            held.update(lacking)

    def _put_compacted(self) -> None:
        """Brings the tables to disk, then tells each broker what all of them hold. A broker that is away is
        told next time. Raises `OSError`: then a new run writes again what could not be brought to disk."""
        prove(self._settings.lake.dir)
        for broker, client in self._clients.items():
            quick = LogClient(client.address, _COMPACTED_RETRY_S)
            try:
                quick.put_compacted(self._positions[broker])
            except BrokerUnavailable as error:
                logger.warning("%s", error.detail)
            finally:
                quick.close()


def _writer(
    session: SparkSession, table: LakeTable, lake: Path, logs: Mapping[str, str], driver: Driver
) -> DeltaWriter:
    kind = ScheduledWriter if table is SCHEDULED else DeltaWriter
    return kind(session, table.path(lake), driver, logs)


def _new_checkpoint(lake: Path, driver: int) -> Path:
    """An empty folder for a run's checkpoint, which no other run uses; those of earlier runs are removed, and none of
    a driver that has taken the lake since."""
    folder = beside(lake).absolute() / CHECKPOINTS / "lake"
    for left in folder.glob("*"):
        owner = _OWNED.fullmatch(left.name)
        if owner is None or int(owner[1]) <= driver:
            shutil.rmtree(left, ignore_errors=True)
    checkpoint = folder / f"{driver}.{uuid.uuid4().hex}"
    checkpoint.mkdir(parents=True)
    return checkpoint


def end_of_batch(checkpoint: Path, epoch: int) -> StreamOffset:
    """The offset that Spark planned the batch to; its begin is the end of the batch before."""
    lines = (checkpoint / "offsets" / str(epoch)).read_text(encoding="utf-8").splitlines()
    content: dict[str, Any] = json.loads(lines[-1])
    return StreamOffset.from_json(content)
