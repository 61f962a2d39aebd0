"""The lake query and its maintenance with nothing but Delta's public interface, for Databricks.

There a schema of the catalog takes the place of the lake's folder, and the platform keeps writers
apart. `lakemq.jobs.lake.query` commits by means that only open-source Delta has; here a table's rows
say how far it holds the log, and a MERGE that only inserts what is lacking makes a replayed batch, or
one of a driver that was thought dead, add nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import closing

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)
from pyspark.sql.streaming.query import StreamingQuery

from lakemq.jobs.log_client import LogClient
from lakemq.jobs.maintenance.rebuild import derived_rows
from lakemq.jobs.source.columns import COLUMNS
from lakemq.jobs.source.data_source import LakemqDataSource
from lakemq.jobs.tables.digest import compare, differences
from lakemq.jobs.tables.scheduled import SCHEDULED, WAITING, merged
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.tables import CONSUME_QUEUE, MESSAGE_INDEX, MESSAGES, TABLES
from lakemq.jobs.tables.transactions import TRANSACTIONS
from lakemq.model.errors import LakemqError, SettingsError

_KEYS = {
    MESSAGES.name: ("broker", "position"),
    CONSUME_QUEUE.name: ("broker", "position"),
    MESSAGE_INDEX.name: ("broker", "position", "key"),
    TRANSACTIONS.name: ("broker", "position", "event"),
    SCHEDULED.name: ("broker", "position"),
}
LOG_COLUMNS = (*COLUMNS, "size")


def create_tables(session: SparkSession, schema: str) -> None:
    """Makes the schema's tables where there are none."""
    session.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for table in TABLES:
        session.sql(table.definition(f"{schema}.{table.name}"))


def start_lake_query(
    session: SparkSession,
    broker: str,
    schema: str,
    checkpoint: str,
    trigger_s: int | None = 5,
    token: str | None = None,
) -> StreamingQuery:
    """Writes the log of the gateway at `broker` to the schema's tables, each message once in each.

    `checkpoint`: a folder for this broker alone, in a volume. One query a broker. The broker is told
    after each batch how far all tables hold its log. `trigger_s` None: what is there now, and ends. `token`: by which
    it says who it is, such as `dbutils.secrets` has; else that of the environment.
    """
    create_tables(session, schema)
    session.dataSource.register(LakemqDataSource)
    with closing(LogClient(broker, token=token)) as client:
        end = client.end()
    name = end.broker
    start = _held(session, schema, name, end.begin_position)
    reader = session.readStream.format("lakemq").options(
        broker=broker,
        startingOffsets=json.dumps({"positions": {name: start}}),
        columns=",".join(LOG_COLUMNS),
        **({} if token is None else {"token": token}),
    )

    def write(frame: DataFrame, epoch: int) -> None:
        end = write_batch(frame.sparkSession, schema, frame)
        if end is not None:
            with closing(LogClient(broker, token=token)) as client:
                client.put_compacted(end)

    writer = reader.load().writeStream.queryName(f"lake-{name}").foreachBatch(write)
    if trigger_s is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{trigger_s} seconds")
    return writer.option("checkpointLocation", checkpoint).start()


def write_batch(session: SparkSession, schema: str, log: DataFrame) -> int | None:
    """Brings a batch of one broker's log into all tables; where it ends, None: it is empty."""
    log = log.persist()  # else each of the five tables reads it from the broker again, and more than once
    try:
        bounds = log.agg(F.min("position").alias("low"), F.max("position").alias("high")).toArrow().to_pylist()[0]
        low, high = bounds["low"], bounds["high"]
        if high is None:
            return None
        waiting = session.table(f"{schema}.{SCHEDULED.name}").where("ended_date IS NULL")
        changed = merged(waiting, SCHEDULED.rows(log)).where(f"state != '{WAITING}' OR position >= {low}")
        _merge(session, schema, SCHEDULED, changed, None)
        for table in (CONSUME_QUEUE, MESSAGE_INDEX, TRANSACTIONS, MESSAGES):  # `messages` says how far all are
            _merge(session, schema, table, table.rows(log), low)
        return int(high) + 1
    finally:
        log.unpersist()


def _merge(session: SparkSession, schema: str, table: LakeTable, rows: DataFrame, low: int | None) -> None:
    """Inserts what is lacking; of `scheduled`, also ends what waits."""
    rows.createOrReplaceTempView("lakemq_batch")
    matched = " AND ".join(f"t.`{name}` = s.`{name}`" for name in _KEYS[table.name])
    # Only files of that range are looked at; every row of the batch is in it.
    bound = "" if low is None else f" AND t.position >= {low}"
    ended = " WHEN MATCHED AND t.state = 'waiting' AND s.state != 'waiting' THEN UPDATE SET *" if low is None else ""
    rows.sparkSession.sql(
        f"MERGE INTO {schema}.{table.name} t USING lakemq_batch s ON {matched}{bound}"
        f"{ended} WHEN NOT MATCHED THEN INSERT *"
    ).collect()


def _held(session: SparkSession, schema: str, broker: str, begin: int) -> int:
    """Where a new query begins: `messages`, which has a row for each position, is written last."""
    rows = session.table(f"{schema}.{MESSAGES.name}").where(F.col("broker") == broker)
    last = rows.agg(F.max("position").alias("last")).toArrow()["last"][0].as_py()
    return begin if last is None else max(begin, last + 1)


def optimize(session: SparkSession, schema: str) -> None:
    """Merges and clusters the files of each table."""
    for table in TABLES:
        session.sql(f"OPTIMIZE {schema}.{table.name}").collect()


def vacuum(session: SparkSession, schema: str) -> None:
    """Deletes files that no version of the tables' retention needs."""
    for table in TABLES:
        session.sql(f"VACUUM {schema}.{table.name}").collect()


def verify(session: SparkSession, schema: str) -> None:
    """Raises `LakemqError` where `consume_queue` or `message_index` isn't what `messages` says."""
    messages = session.table(f"{schema}.{MESSAGES.name}")
    for table in (CONSUME_QUEUE, MESSAGE_INDEX):
        ends = messages.groupBy("broker").agg(F.max("position").alias("end"))
        actual = session.table(f"{schema}.{table.name}").join(F.broadcast(ends), "broker")
        actual = actual.where("position <= end").drop("end")
        columns, key = list(table.columns), _KEYS[table.name]
        expected = derived_rows(table, messages)
        if not compare(expected, actual, columns, key).same:
            raise LakemqError(f"{table.name} differs from messages: {differences(expected, actual, columns, key)}")


MAINTENANCE: Mapping[str, Callable[[SparkSession, str], None]] = {
    "optimize": optimize,
    "vacuum": vacuum,
    "verify": verify,
}


def main(arguments: list[str] | None = None) -> None:
    """`lakemq-databricks lake BROKER SCHEMA CHECKPOINT`, or `optimize | vacuum | verify SCHEMA`."""
    given = sys.argv[1:] if arguments is None else arguments
    session = SparkSession.Builder().getOrCreate()
    match given:
        case ["lake", broker, schema, checkpoint]:
            start_lake_query(session, broker, schema, checkpoint).awaitTermination()
        case [name, schema] if name in MAINTENANCE:
            MAINTENANCE[name](session, schema)
        case _:
            raise SettingsError(f"usage: lake BROKER SCHEMA CHECKPOINT | {' | '.join(MAINTENANCE)} SCHEMA")
