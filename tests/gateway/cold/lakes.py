"""Lakes of a gateway under test, made without Spark: real Delta tables with the columns, and the
progress, that the lake query writes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.compute
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake

from lakemq.jobs.log_client import LogClient, Subscription
from lakemq.jobs.source.columns import COLUMNS, arrow_schema_of, log_columns, to_batch
from lakemq.jobs.source.plan import LogPartition
from lakemq.objects.path import delta_options
from lakemq.settings import MIB
from lakemq.storage.lake.log_marks import log_identifier
from lakemq.storage.lake.prove import prove

pc: Any = pyarrow.compute

WAIT_S_MAX = 60
STATISTICS = {
    "messages": "topic,store_time,store_date,broker,position",
    "consume_queue": "topic,queue_id,queue_offset,broker,position,store_time",
    "message_index": "topic,key,broker,position,store_time",
}
DROPS: dict[str, Any] = {
    "storage__segment_bytes": MIB,
    "storage__log_bytes_max": 4 * MIB,
    "storage__when_full": "drop_oldest",
    "storage__compression": "none",
}
"""Options of a gateway whose log is soon full, and then lets go of what no lake holds."""


class Lake:
    """Follows one gateway's log as the lake query does: `compact` is a batch of it."""

    def __init__(self, folder: Path, url: str, broker: str = "broker-a", row_group_rows: int = 1000) -> None:
        self.folder = folder
        self.held = 0
        self._client = LogClient(url)
        self._broker = broker
        self._writer = WriterProperties(max_row_group_size=row_group_rows)

    def rows(self, begin: int, end: int) -> pa.Table:
        """The log's messages as the table `messages` has them."""
        schema = arrow_schema_of(list(COLUMNS))
        batches: list[pa.RecordBatch] = []
        while begin < end:
            page, begin = self._client.messages(begin, end, Subscription(), log_columns(list(COLUMNS)))
            batches.append(to_batch(page, schema, LogPartition(self._broker, "", begin, end, 0, {}, {})))
        return pa.Table.from_batches(batches, schema)

    def compact(self, http: httpx.Client, upto: int | None = None) -> None:
        """One batch: all that is new, or what is below a position, in a file a table; and tell the broker."""
        end = http.get("/v1/broker").json()["max_position"] if upto is None else upto
        self.write(self.rows(self.held, end), end)
        assert http.put("/v1/broker/compacted", json={"compacted_position": end}).status_code == 200

    def write(self, rows: pa.Table, end: int) -> None:
        """Append the rows to all tables, which then hold the log up to `end`."""
        keyed = rows.filter(pc.greater(pc.fill_null(pc.list_value_length(rows["keys"]), 0), 0))
        parents = pc.list_parent_indices(keyed["keys"].combine_chunks())
        places = rows.select(["topic", "queue_id", "queue_offset", "broker", "position"])
        sizes = pc.binary_length(rows["body"]).cast(pa.int32())
        tables = {
            "messages": rows,
            "consume_queue": places.append_column("size", sizes).append_column("store_time", rows["store_time"]),
            "message_index": keyed.take(parents)
            .select(["topic", "broker", "position", "store_time"])
            .append_column("key", pc.list_flatten(keyed["keys"].combine_chunks())),
        }
        log = Transaction(log_identifier(self._broker, self._client.end().log_id), 1)
        progress = CommitProperties(app_transactions=[Transaction(f"lakemq-lake-{self._broker}", end), log])
        for name, table in tables.items():
            write_deltalake(
                str(self.folder / name),
                table,
                storage_options=delta_options(self.folder),
                mode="append",
                configuration={"delta.dataSkippingStatsColumns": STATISTICS[name]},
                commit_properties=progress,
                writer_properties=self._writer,
            )
        self.held = end
        prove(self.folder)

    def optimize(self, *columns: str) -> None:
        """Merge and order all files of all tables, and delete the old ones."""
        for name in STATISTICS:
            table = DeltaTable(self.folder / name)
            table.optimize.z_order(list(columns), writer_properties=self._writer)
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)

    def delete(self, where: str) -> None:
        """Delete rows of `messages` and `consume_queue`, and their files."""
        for name in ("messages", "consume_queue"):
            table = DeltaTable(self.folder / name)
            table.delete(where)
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def wait_until_all_left(http: httpx.Client, data_dir: Path) -> int:
    """Wait until retention has taken all segments but the one that is written; where the log begins then.

    That some have gone says nothing: the gateway may have looked while the lake held a part."""
    give_up = time.monotonic() + WAIT_S_MAX
    while len(list((data_dir / "commitlog").glob("*.log"))) > 1:
        assert time.monotonic() < give_up, "retention leaves some"
        time.sleep(0.05)
    return http.get("/v1/broker").json()["min_position"]
