"""The tables that are written without Spark, about the lake and not from the log: their names and columns."""

from __future__ import annotations

import pyarrow as pa

from lakemq.model.lake_repair import HOLES, RUNS, STATS

_TIME = pa.timestamp("us", tz="UTC")

SCHEMAS = {
    RUNS: pa.schema(
        [
            ("run_id", pa.string()),
            ("job", pa.string()),
            ("started_by", pa.string()),
            ("started_at", _TIME),
            ("ended_at", _TIME),
            ("attempts", pa.int32()),
            ("result", pa.string()),
            ("error", pa.string()),
            ("files_before", pa.int64()),
            ("files_after", pa.int64()),
            ("bytes_before", pa.int64()),
            ("bytes_after", pa.int64()),
            ("detail", pa.string()),
        ]
    ),
    # `kind` is `table` (rows, bytes, files of its present version) or `topic` (messages, bytes of their bodies, the
    # first's and the last's store time).
    STATS: pa.schema(
        [
            ("time", _TIME),
            ("kind", pa.string()),
            ("name", pa.string()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("files", pa.int64()),
            ("small_files", pa.int64()),
            ("version", pa.int64()),
            ("oldest", _TIME),
            ("newest", _TIME),
        ]
    ),
    HOLES: pa.schema(
        [
            ("broker", pa.string()),
            ("first_position", pa.int64()),
            ("last_position", pa.int64()),
            ("kind", pa.string()),
            ("seen_at", _TIME),
        ]
    ),
}
"""By table. Each is made by its first row."""
