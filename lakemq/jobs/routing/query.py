"""One run of the query that decides all routing, from what the brokers list as pending to `stop` or a failure.

A batch: the source plans up to where the brokers' logs end, and what their clocks say (`LogStreamReader`). Spark makes
the rows of the wheel, and finds the entries that are due. The run decides each, posts the decisions, waits until all of
them are durable, and then counts the batch as done.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakemq.jobs.lake.batch_gate import BatchGate
from lakemq.jobs.lake.query import CHECKPOINTS, end_of_batch
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.routing.broker_routing import BrokerRouting
from lakemq.jobs.routing.sender import ROWS_PER_REQUEST_MAX, Decision, DecisionSender, Whereto
from lakemq.jobs.routing.session import POOL
from lakemq.jobs.routing.wheel_rows import COLUMNS, wheel_rows
from lakemq.jobs.routing.wheel_state import DUE_COLUMNS, due_entries
from lakemq.jobs.source.plan import StreamOffset
from lakemq.model.decide import Kind
from lakemq.model.errors import LakemqError
from lakemq.model.names import ACK_TOPIC, HALF_TOPIC, NACK_TOPIC, OP_TOPIC, RECEIVE_TOPIC, SCHEDULE_TOPIC
from lakemq.model.wheel import CATCH_UP_MS, Due, Terms, decide_due
from lakemq.objects.path import beside
from lakemq.settings import Settings
from lakemq.traces.batches import NO_BATCHES, BatchSpans

MESSAGES_PER_TRIGGER_MAX = 200_000
WAIT_MS = 4_000
"""How long a broker may hold a request for news. `stop` doesn't wait for the answer, but Spark's Python process that
sent the request stays until then."""

TRIGGER_MS_MAX = 1_000
_OWNED = re.compile(r"([0-9]{1,9})-[0-9a-f]{32}(?:-(.+))?")
"""A checkpoint's name: the process that made it, and on which machine. Older ones don't name the machine."""


class Part(NamedTuple):
    """What one job routes: its system topics, the kinds of causes in them, and the name of the timer by which a broker
    answers when one of these causes is due."""

    topics: tuple[str, ...]
    kinds: tuple[Kind, ...]
    timer: str


JOBS = {
    "delay": Part((SCHEDULE_TOPIC,), (Kind.DELAY,), "delay"),
    "transaction": Part((HALF_TOPIC, OP_TOPIC), (Kind.TRANSACTION,), "transaction"),
    "retry": Part((NACK_TOPIC, RECEIVE_TOPIC, ACK_TOPIC), (Kind.NACK, Kind.RECEIPT), "receive"),
}
"""The jobs by name. All the jobs that a process runs are one query. To spread them over machines, run a process for
each."""


def name_of(jobs: Sequence[str]) -> str:
    """The name of the query that does these jobs."""
    return jobs[0] if len(jobs) == 1 else "wheel"


class ClockJumped(LakemqError):
    """A broker's clock has advanced by more than `CATCH_UP_MS` from one batch to the next. The next run starts with
    what is pending then."""

    code = "clock_jumped"


@dataclass
class _Brokers:
    """What the brokers said as the run started, by their names: where decisions go, where the log is read from, and
    the settings that decisions depend on."""

    whereto: dict[str, Whereto]
    begins: dict[str, int]
    terms: dict[str, Terms]


class RoutingQuery:
    """One run of the query that does these `jobs`, in a session of `routing_session`.

    Each run has a checkpoint of its own. It starts at the log's end, with what the broker lists as pending. If an
    earlier run has decided some of that already, deciding it again changes nothing, so two processes may run the same
    query. If a broker's log is replaced, or loses messages that the run has read, the broker refuses the decisions.
    That ends the run, and the next one starts with the log as it is then.
    """

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        jobs: Sequence[str],
        address: str,
        spans: BatchSpans = NO_BATCHES,
    ) -> None:
        """`address`: those of the brokers, with commas between. `spans` gets a span for each batch."""
        self._session = session
        self._settings = settings
        self._address = address
        self._spans = spans
        self._parts = [JOBS[job] for job in jobs]
        self._name = name_of(jobs)
        self._sender: DecisionSender | None = None
        self._query: StreamingQuery | None = None
        self._failure: Exception | None = None
        self._gate = BatchGate()
        self._checkpoint: Path | None = None
        self.topics = tuple(topic for part in self._parts for topic in part.topics)
        self.reached: StreamOffset | None = None
        """How far it has decided: the positions, and by what time of each broker's clock."""
        self.batches = 0
        """How many batches it has decided."""

    def start(self) -> StreamingQuery:
        """Starts to decide. Raises `BrokerUnavailable` if a broker does not answer."""
        brokers = self._ask_brokers()
        self._sender = DecisionSender(brokers.whereto)
        self._checkpoint = _new_checkpoint(self._settings.lake.dir, self._name)
        self._session.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        due = due_entries(wheel_rows(self._read_log(brokers), brokers.terms))
        sender = self._sender

        checkpoint = self._checkpoint
        self.reached = StreamOffset(brokers.begins, 0)

        def take_batch(frame: DataFrame, epoch: int) -> None:
            try:
                reached = end_of_batch(checkpoint, epoch)
            except Exception as error:
                self._failure = error
                raise
            self._gate.run(lambda: self._decide(sender, frame, brokers.terms, reached))
            self.reached = reached

        writer = due.writeStream.queryName(self._name).foreachBatch(take_batch)
        writer = writer.trigger(processingTime=f"{self._trigger_ms(brokers)} milliseconds")
        query = writer.option("checkpointLocation", str(self._checkpoint)).start()
        self._query = query
        return query

    def _decide(
        self, sender: DecisionSender, frame: DataFrame, terms: Mapping[str, Terms], reached: StreamOffset
    ) -> None:
        """Decides what is due in a batch, and returns when all of it is durable."""
        try:
            with self._spans.batch(self._name) as batch:
                rows = frame.toArrow()
                batch.rows = rows.num_rows
                sender.send(_decisions(rows, terms), batch.own)
                self._check_clocks(reached)
        except Exception as error:
            self._failure = error
            raise
        self.batches += 1

    def _check_clocks(self, reached: StreamOffset) -> None:
        """Raises `ClockJumped` if this batch didn't look at all windows since the one before."""
        before = {} if self.reached is None else self.reached.clocks
        for broker, now_ms in reached.clocks.items():
            gap_ms = now_ms - before.get(broker, now_ms)
            if gap_ms > CATCH_UP_MS:
                raise ClockJumped(f"the clock of {broker} advanced by {gap_ms // 1000} s: reading pending work again")

    def failure(self) -> Exception | None:
        """The error that a batch failed with, as it was raised; None if none did."""
        return self._failure

    def stop(self, grace_s: float = 5.0) -> None:
        """Lets the current batch finish, within `grace_s`, and stops."""
        if self._sender is not None:
            self._sender.stop()
        self._gate.close(grace_s)
        if self._query is not None:
            self._query.stop()
        if self._sender is not None:
            self._sender.close()
        if self._checkpoint is not None:
            shutil.rmtree(self._checkpoint, ignore_errors=True)

    def _trigger_ms(self, brokers: _Brokers) -> int:
        """How often there may be a batch. With a lead the brokers themselves act on what is certain, and everything
        else has some time, so batches may be fewer."""
        lead_ms = min(terms.lead_ms for terms in brokers.terms.values())
        return max(self._settings.routing.trigger_ms, min(lead_ms // 10, TRIGGER_MS_MAX))

    def _ask_brokers(self) -> _Brokers:
        brokers = _Brokers({}, {}, {})
        for address in self._address.split(","):
            with closing(LogClient(address)) as client:
                routing = BrokerRouting.from_json(client.routing())
            brokers.whereto[routing.broker] = Whereto(address, routing.log_id, routing.epoch)
            brokers.begins[routing.broker] = routing.position
            brokers.terms[routing.broker] = routing.terms
        return brokers

    def _read_log(self, brokers: _Brokers) -> DataFrame:
        reader = self._session.readStream.format("lakemq").options(
            broker=",".join(each.address for each in brokers.whereto.values()),
            subscribe=",".join(self.topics),
            startingOffsets=json.dumps({"positions": brokers.begins}),
            columns=",".join(COLUMNS),
            partitions="1",
            maxMessagesPerTrigger=str(MESSAGES_PER_TRIGGER_MAX),
            waitMs=str(WAIT_MS),
            tickMs=str(self._settings.routing.tick_ms),
            pending=",".join(kind for part in self._parts for kind in part.kinds),
            timer=self._parts[0].timer if len(self._parts) == 1 else "any",
        )
        return reader.load()


def _decisions(rows: pa.Table, terms: Mapping[str, Terms]) -> Iterator[Decision]:
    """The decision for each of `due_entries`, by the terms of its broker."""
    # Some at a time: as Python objects they take far more memory.
    for part in rows.to_batches(max_chunksize=ROWS_PER_REQUEST_MAX):
        columns = [part.column(name).to_pylist() for name in ("broker", *DUE_COLUMNS)]
        for broker, *due in zip(*columns, strict=True):
            yield Decision(broker, *decide_due(Due(*due), terms[broker]))


def _new_checkpoint(lake: Path, name: str) -> Path:
    """An empty folder for a run's checkpoint, named for this process and machine. Checkpoints of processes of this
    machine that have ended are removed, whatever their jobs. All others stay: another process, here or on another
    machine, may run the same query."""
    host = socket.gethostname()
    folder = beside(lake).absolute() / CHECKPOINTS
    for left in folder.glob("*/*-*"):
        owner = _OWNED.fullmatch(left.name)
        if owner is not None and owner[2] in {None, host} and not _is_running(int(owner[1])):
            shutil.rmtree(left, ignore_errors=True)
    checkpoint = folder / name / f"{os.getpid()}-{uuid.uuid4().hex}-{host}"
    checkpoint.mkdir(parents=True)
    return checkpoint


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
