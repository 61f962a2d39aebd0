"""Write DataFrames to a topic through the sink. `python -m benchmarks.sink`.

The rows are made by Spark as they are written, 100 bytes each, no columns but the body. The time is that of
`df.write…save()`, from its call until the broker has all of it on disk: a first write warms up. Then a
stream copies what the topic holds to another one, from the log and back into it.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.cpu import Meter, rss_bytes
from benchmarks.options import sizes
from benchmarks.results import emit, say
from benchmarks.wire import ask

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

TOPIC, COPY, WARM = "sink", "copy", "warm"
QUEUES = 4


def _write(session: SparkSession, url: str, topic: str, messages: int, body_bytes: int) -> float:
    """Write so many messages; returns how many seconds that took."""
    body = f"rpad(hex(xxhash64(id)), {body_bytes}, 'lakemq ') AS body"
    frame = session.range(0, messages, 1, 2).selectExpr(body)
    begin = time.monotonic()
    frame.write.format("lakemq").mode("append").options(broker=url, topic=topic).save()
    return time.monotonic() - begin


def _copy(session: SparkSession, url: str, checkpoint: Path, per_batch: int) -> float:
    """Copy all of one topic to the other by a stream; returns how many seconds that took."""
    read = {"broker": url, "subscribe": TOPIC, "startingOffsets": "earliest", "columns": "body"}
    stream = session.readStream.format("lakemq").options(**read, maxMessagesPerTrigger=str(per_batch)).load()
    writer = stream.select("body").writeStream.format("lakemq").trigger(availableNow=True)
    begin = time.monotonic()
    query = writer.options(broker=url, topic=COPY, checkpointLocation=str(checkpoint)).start()
    query.awaitTermination()
    return time.monotonic() - begin


def _count(url: str, topic: str) -> int:
    return sum(queue["max_offset"] for queue in ask(url, "GET", f"/v1/topics/{topic}")["queues"])


def main() -> None:
    chosen = sizes(
        __doc__, messages=(5_000_000, 50_000), body_bytes=(100, 100), per_batch=(1_000_000, 20_000), rounds=(3, 1)
    )
    from lakemq.jobs.session.session import start_session
    from lakemq.settings import Settings

    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        process = stack.enter_context(gateway(folder / "data"))
        for topic in (TOPIC, COPY, WARM):
            make_topic(process.url, topic, QUEUES)
        session = start_session(Settings(), "sink")
        stack.callback(session.stop)
        say("sink: warm up")
        _write(session, process.url, WARM, min(chosen.messages, 200_000), chosen.body_bytes)
        settings: dict[str, Any] = {"messages": chosen.messages, "body_bytes": chosen.body_bytes, "tasks": 2}
        for turn in range(chosen.rounds):
            say(f"sink: write, round {turn + 1}")
            with Meter(process.pid) as meter:
                seconds = _write(session, process.url, TOPIC, chosen.messages, chosen.body_bytes)
            rss_mib = round(rss_bytes(process.pid) / 2**20)
            more = {"round": turn + 1, "gateway_rss_mib": rss_mib}
            emit("sink, df.write", chosen.messages / seconds, "messages/s", settings, **more, **meter.spent())
        held = _count(process.url, TOPIC)
        if held != chosen.messages * chosen.rounds:
            raise RuntimeError(f"{held} messages are there, {chosen.messages * chosen.rounds} were written")
        say("sink: stream from topic to topic")
        with Meter(process.pid) as meter:
            seconds = _copy(session, process.url, folder / "checkpoint", chosen.per_batch)
        if _count(process.url, COPY) != held:
            raise RuntimeError(f"{_count(process.url, COPY)} messages were copied of {held}")
        settings |= {"messages": held, "per_batch": chosen.per_batch}
        emit("sink, stream from a topic", held / seconds, "messages/s", settings, **meter.spent())


if __name__ == "__main__":
    main()
