"""What a topic holds, by Arrow pulls, and how late scheduled messages were stored there."""

from __future__ import annotations

from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.results import quantile
from benchmarks.wire import ARROW, Connection, ask, build

COLUMNS = ("origin_message_id", "deliver_at_ms", "store_time_ms")


def drain(url: str, topic: str) -> pa.Table:
    """`COLUMNS` of all messages of a topic."""
    name = quote(topic, safe="")
    batches: list[pa.RecordBatch] = []
    connection = Connection(url)
    for queue in ask(url, "GET", f"/v1/topics/{name}")["queues"]:
        offset = queue["min_offset"]
        while offset < queue["max_offset"]:
            target = f"/v1/topics/{name}/queues/{queue['queue_id']}/messages?offset={offset}&max=10000"
            answer = connection.exchange(build("GET", target, accept=ARROW))
            offset = int(answer.header("lakemq-next-offset"))
            with pa.ipc.open_stream(bytes(answer.body)) as stream:
                batches += [batch.select(COLUMNS) for batch in stream]
    connection.close()
    if not batches:
        raise RuntimeError(f"there is nothing in {topic}")
    return pa.Table.from_batches(batches)


def check_once(table: pa.Table, topic: str, expected: int) -> None:
    """Raise `RuntimeError` unless so many messages are there, each once."""
    distinct = pc.call_function("count_distinct", [table.column("origin_message_id")]).as_py()
    if not table.num_rows == distinct == expected:
        raise RuntimeError(f"{topic} has {table.num_rows} messages of {distinct} origins, not of {expected}")


def stored_late_ms(table: pa.Table) -> dict[str, float]:
    """How long after it was due each was stored."""
    late = pc.call_function("subtract", [table.column("store_time_ms"), table.column("deliver_at_ms")])
    values: list[int] = sorted(late.to_pylist())
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999, "max_ms": 1.0}
    early = sum(value < 0 for value in values)
    return {"early": early, **{name: quantile(values, share) for name, share in shares.items()}}


def stored_by_second(table: pa.Table) -> list[int]:
    """Messages stored in each second from the first to the last."""
    times: list[int] = table.column("store_time_ms").to_pylist()
    first = min(times)
    counts = [0] * ((max(times) - first) // 1000 + 1)
    for time_ms in times:
        counts[(time_ms - first) // 1000] += 1
    return counts
