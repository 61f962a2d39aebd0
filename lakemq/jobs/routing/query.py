"""The query that decides all routing: one wheel, from what its brokers have pending to `stop` or a failure."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
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
from lakemq.jobs.routing.sender import Decision, DecisionSender, Whereto
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
"""So long a broker may hold the question for news. `stop` does not wait for the answer, but the
process that asked lives so long."""

TRIGGER_MS_MAX = 1_000
_OWNED = re.compile(r"([0-9]{1,9})-[0-9a-f]{32}(?:-(.+))?")


class Part(NamedTuple):
    """What one job routes: its system topics, the kinds of causes in them, and the source's timer for them."""

    topics: tuple[str, ...]
    kinds: tuple[Kind, ...]
    timer: str


JOBS = {
    "delay": Part((SCHEDULE_TOPIC,), (Kind.DELAY,), "delay"),
    "transaction": Part((HALF_TOPIC, OP_TOPIC), (Kind.TRANSACTION,), "transaction"),
    "retry": Part((NACK_TOPIC, RECEIVE_TOPIC, ACK_TOPIC), (Kind.NACK, Kind.RECEIPT), "receive"),
}
"""By name. All that a process runs is one query; who spreads them over machines runs them apart."""


def name_of(jobs: Sequence[str]) -> str:
    """The name of the query that does these jobs."""
    return jobs[0] if len(jobs) == 1 else "wheel"


class ClockJumped(LakemqError):
    """A broker's clock has gone on by more than a wheel catches up with. The next run begins with what waits."""

    code = "clock_jumped"


@dataclass
class _Brokers:
    whereto: dict[str, Whereto]
    begins: dict[str, int]
    terms: dict[str, Terms]


class RoutingQuery:
    """One run of the query that does these `jobs`, in a session of `routing_session`.

    Every start begins a new checkpoint at the log's end, with what the broker lists as pending: what is decided again
    is done already, and changes nothing. So two processes may run the same query. Where a broker's log is another
    one than at the start, or has lost what was read of it, its decisions are refused, and that ends the run: the
    next one begins with the log that there is.
    """

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        jobs: Sequence[str],
        address: str,
        spans: BatchSpans = NO_BATCHES,
    ) -> None:
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
        """How far it has decided."""
        self.batches = 0

    def start(self) -> StreamingQuery:
        """Begins to decide. Raises `BrokerUnavailable` when a broker does not answer."""
        brokers = self._ask_brokers()
        self._sender = DecisionSender(brokers.whereto)
        self._checkpoint = _new_checkpoint(self._settings.lake.dir, self._name)
        self._session.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        rows = due_entries(wheel_rows(self._log(brokers), brokers.terms))
        sender = self._sender

        checkpoint = self._checkpoint
        self.reached = StreamOffset(brokers.begins, 0)

        def decide(frame: DataFrame, epoch: int) -> None:
            try:
                reached = end_of_batch(checkpoint, epoch)
            except Exception as error:
                self._failure = error
                raise
            self._gate.run(lambda: self._send(sender, frame, brokers.terms, reached))
            self.reached = reached

        writer = rows.writeStream.queryName(self._name).foreachBatch(decide)
        writer = writer.trigger(processingTime=f"{self._trigger_ms(brokers)} milliseconds")
        query = writer.option("checkpointLocation", str(self._checkpoint)).start()
        self._query = query
        return query

    def _send(
        self, sender: DecisionSender, frame: DataFrame, terms: Mapping[str, Terms], reached: StreamOffset
    ) -> None:
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
        before = {} if self.reached is None else self.reached.clocks
        for broker, now_ms in reached.clocks.items():
            gap_ms = now_ms - before.get(broker, now_ms)
            if gap_ms > CATCH_UP_MS:
                raise ClockJumped(f"the clock of {broker} advanced by {gap_ms // 1000} s: reading pending work again")

    def failure(self) -> Exception | None:
        """What a batch failed with, as it was raised; None when none did."""
        return self._failure

    def stop(self, grace_s: float = 5.0) -> None:
        """Lets the batch that is under way finish, within `grace_s`, and stops."""
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
        """With a lead the brokers act at once on what is certain, and the rest has some time:
        fewer batches cost less."""
        lead_ms = min(terms.lead_ms for terms in brokers.terms.values())
        return max(self._settings.routing.trigger_ms, min(lead_ms // 10, TRIGGER_MS_MAX))

    def _ask_brokers(self) -> _Brokers:
        found: list[BrokerRouting] = []
        whereto: dict[str, Whereto] = {}
        for address in self._address.split(","):
            client = LogClient(address)
            routing = BrokerRouting.from_json(client.routing())
            found.append(routing)
            whereto[routing.broker] = Whereto(address, routing.log_id, routing.epoch)
            client.close()
        begins = {each.broker: each.position for each in found}
        return _Brokers(whereto, begins, {each.broker: each.terms for each in found})

    def _log(self, brokers: _Brokers) -> DataFrame:
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
    """What becomes of `due_entries`."""
    columns = [rows.column(name).to_pylist() for name in ("broker", *DUE_COLUMNS)]
    for broker, *due in zip(*columns, strict=True):
        yield Decision(broker, *decide_due(Due(*due), terms[broker]))


def _new_checkpoint(lake: Path, name: str) -> Path:
    """An empty folder for a run's checkpoint, named for this process. Those of this machine's processes that are gone
    are removed, whichever of the jobs they did; others stay: another process may run the same query, elsewhere too."""
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
