"""A routing query's run: from what its brokers have pending to `stop` or a failure."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakemq.jobs.lake.batch_gate import BatchGate
from lakemq.jobs.lake.query import CHECKPOINTS, end_of_batch
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.routing.broker_routing import BrokerRouting, Kind, RoutingTerms
from lakemq.jobs.routing.sender import Decision, DecisionSender, Whereto
from lakemq.jobs.routing.stream import POOL
from lakemq.jobs.source.plan import StreamOffset
from lakemq.settings import Settings

MESSAGES_PER_TRIGGER_MAX = 200_000
WAIT_MS = 4_000
"""So long a broker may hold the question for news. `stop` does not wait for the answer, but the
process that asked lives so long."""

TRIGGER_MS_MAX = 1_000


class Rule(Protocol):
    """What makes one routing query different from the others."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def topics(self) -> tuple[str, ...]: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def timer(self) -> str | None: ...

    @property
    def trigger_ms_min(self) -> int:
        """No more often than that are there batches, however much comes."""
        ...

    def rows(self, log: DataFrame, terms: RoutingTerms) -> DataFrame:
        """What is to be decided, as a stream: the part that waits and remembers."""
        ...

    def decisions(self, rows: pa.Table, terms: RoutingTerms) -> Iterable[Decision]:
        """The decisions on a batch of these rows."""
        ...


@dataclass
class _Brokers:
    whereto: dict[str, Whereto]
    begins: dict[str, int]
    terms: RoutingTerms


class RoutingQuery:
    """One run of a rule's query, in a session of `routing_session`.

    Every start begins a new checkpoint at the first cause that is pending: what is decided again
    is done already, and changes nothing. So two processes may run the same query. Where a broker's log is another
    one than at the start, or has lost what was read of it, its decisions are refused, and that ends the run: the
    next one begins with the log that there is.
    """

    def __init__(self, session: SparkSession, settings: Settings, rule: Rule, address: str) -> None:
        self._session = session
        self._settings = settings
        self._address = address
        self._rule = rule
        self._sender: DecisionSender | None = None
        self._query: StreamingQuery | None = None
        self._failure: Exception | None = None
        self._gate = BatchGate()
        self._checkpoint: Path | None = None
        self.topics = rule.topics
        self.reached: StreamOffset | None = None
        """How far it has decided."""
        self.batches = 0

    def start(self) -> StreamingQuery:
        """Begins to decide. Raises `BrokerUnavailable` when a broker does not answer."""
        brokers = self._ask_brokers()
        self._sender = DecisionSender(brokers.whereto)
        self._checkpoint = _new_checkpoint(self._settings.lake.dir, self._rule.name)
        self._session.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        rows = self._rule.rows(self._log(brokers), brokers.terms)
        sender = self._sender

        checkpoint = self._checkpoint
        self.reached = StreamOffset(brokers.begins, 0)

        def decide(frame: DataFrame, epoch: int) -> None:
            self._gate.run(lambda: self._send(sender, frame, brokers.terms))
            self.reached = end_of_batch(checkpoint, epoch)

        writer = rows.writeStream.queryName(self._rule.name).foreachBatch(decide)
        writer = writer.trigger(processingTime=f"{self._trigger_ms(brokers.terms)} milliseconds")
        query = writer.option("checkpointLocation", str(self._checkpoint)).start()
        self._query = query
        return query

    def _send(self, sender: DecisionSender, frame: DataFrame, terms: RoutingTerms) -> None:
        try:
            sender.send(self._rule.decisions(frame.toArrow(), terms))
        except Exception as error:
            self._failure = error
            raise
        self.batches += 1

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

    def _trigger_ms(self, terms: RoutingTerms) -> int:
        """With a lead the brokers act at once on what is certain, and the rest has some time:
        fewer batches cost less."""
        unhurried_ms = min(terms.lead_ms // 10, TRIGGER_MS_MAX)
        return max(self._settings.routing.trigger_ms, self._rule.trigger_ms_min, unhurried_ms)

    def _ask_brokers(self) -> _Brokers:
        found: list[BrokerRouting] = []
        whereto: dict[str, Whereto] = {}
        for address in self._address.split(","):
            client = LogClient(address)
            routing = BrokerRouting.from_json(client.routing())
            found.append(routing)
            whereto[routing.broker] = Whereto(address, routing.log_id, routing.epoch)
            client.close()
        begins = {each.broker: each.begins[self._rule.kind] for each in found}
        return _Brokers(whereto, begins, found[0].terms)

    def _log(self, brokers: _Brokers) -> DataFrame:
        rule = self._rule
        reader = self._session.readStream.format("lakemq").options(
            broker=",".join(each.address for each in brokers.whereto.values()),
            subscribe=",".join(rule.topics),
            startingOffsets=json.dumps({"positions": brokers.begins}),
            columns=",".join(rule.columns),
            partitions="1",
            maxMessagesPerTrigger=str(MESSAGES_PER_TRIGGER_MAX),
            waitMs=str(WAIT_MS),
            tickMs=str(self._settings.routing.tick_ms),
        )
        return (reader if rule.timer is None else reader.option("timer", rule.timer)).load()


def _new_checkpoint(lake: Path, name: str) -> Path:
    """An empty folder for a run's checkpoint, named for this process. Those of processes that are
    gone are removed; others stay: another process may run the same query."""
    folder = lake.absolute() / CHECKPOINTS / name
    for left in folder.glob("*-*"):
        if not _is_running(int(left.name.partition("-")[0])):
            shutil.rmtree(left, ignore_errors=True)
    checkpoint = folder / f"{os.getpid()}-{uuid.uuid4().hex}"
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
