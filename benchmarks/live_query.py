"""SQL over a long history and the log's tail: how long an answer takes. `python -m benchmarks.live_query`.

Spark writes the history straight into the tables `messages` and `message_index`, as OPTIMIZE would leave
it: in the order of their clustering, in files of some hundred MB. It is a broker's that no longer runs. A
broker that runs gets messages of the same topics at a fixed rate, and `lakemq jobs lake` compacts them.

Each question is asked over Spark Connect, one after the other: the last five minutes of a topic, five
minutes in the midst of the history, a key (in the index, then the message), a message that was just stored
(from the answer to the produce until a query has it), and once more as a command, `lakemq sql`, with all
that a process costs. The files that are read are those that Spark's own metrics name.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.jobs import lake_query
from benchmarks.options import sizes
from benchmarks.results import emit, latencies, say
from benchmarks.wire import ask
from lakemq.jobs.session.discovery import Server, find_server
from lakemq.jobs.session.token_file import read_token
from lakemq.jobs.sql.connect_client import ConnectClient

TOPICS = 100
HISTORY_DAYS = 30
FILE_ROWS = 5_000_000
BATCH = 100
KEY_STEP = 7_368_787
"""A prime, so that keys in their order lie all over the history."""

_HISTORY_BROKER = "broker-history"


def write_history(lake: Path, rows: int) -> None:
    """So many messages of a hundred topics over thirty days up to now, and their keys."""
    from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

    from lakemq.jobs.session.session import start_session
    from lakemq.jobs.tables.tables import MESSAGE_INDEX, TABLES
    from lakemq.settings import Settings

    per_topic = rows // TOPICS
    step_us = HISTORY_DAYS * 86_400_000_000 // per_topic
    session = start_session(Settings(), "history")
    for table in TABLES:
        table.create(session, lake)
    begin_us = time.time_ns() // 1000 - HISTORY_DAYS * 86_400_000_000
    ids = session.range(0, per_topic * TOPICS, 1, max(2, -(-rows // FILE_ROWS)))

    def written(frame: Any, name: str) -> None:
        frame.write.format("delta").mode("append").save(str(lake / name))

    nth, place = F.col("id") % per_topic, (F.col("id") / per_topic).cast("bigint")
    columns = {
        "broker": F.lit(_HISTORY_BROKER),
        "position": nth * TOPICS + place,
        "topic": F.format_string("topic-%03d", place),
        "queue_id": (nth % 4).cast("int"),
        "queue_offset": (nth / 4).cast("bigint"),
        "message_id": F.concat(F.lit(f"{_HISTORY_BROKER}."), (nth * TOPICS + place).cast("string")),
        "tag": F.format_string("tag-%d", nth % 10),
        "keys": F.array(F.format_string("key-%09d", nth * TOPICS + place)),
        "body": F.format_string('{"n": %d, "text": "%s"}', F.col("id"), F.repeat(F.lit("lake "), 12)).cast("binary"),
        "store_time": F.timestamp_micros(F.lit(begin_us) + nth * step_us),
        "reconsume_times": F.lit(0),
    }
    messages = ids.select(*(value.alias(name) for name, value in columns.items()))
    messages = messages.withColumn("store_date", F.to_date("store_time")).withColumn("born_time", F.col("store_time"))
    written(messages, "messages")
    # By (topic, key): a key's number is its position, so it rises with `nth` in a topic.
    names = {"topic": "topic", "key": "keys", "broker": "broker", "position": "position", "store_time": "store_time"}
    index = ids.select(*((columns[of][0] if of == "keys" else columns[of]).alias(name) for name, of in names.items()))
    written(index.select(*MESSAGE_INDEX.columns), "message_index")
    session.stop()


@contextlib.contextmanager
def producing(url: str, rate_per_s: int) -> Generator[None]:
    """Messages at that rate meanwhile, a request a topic in turn."""
    stop = threading.Event()

    def produce() -> None:
        due = time.monotonic()
        for nth in range(10**9):
            body = {
                "messages": [{"body": f"live {nth} {each}", "keys": [f"live-{nth}-{each}"]} for each in range(BATCH)]
            }
            ask(url, "POST", f"/v1/topics/topic-{nth % TOPICS:03d}/messages", body)
            due += BATCH / rate_per_s
            if stop.wait(max(0.0, due - time.monotonic())):
                return

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def timed(times: int, ask_once: Callable[[int], None]) -> dict[str, float]:
    """How long each took; the first, which compiles, is not counted."""
    ask_once(0)
    taken: list[int] = []
    for nth in range(1, times + 1):
        begin = time.perf_counter_ns()
        ask_once(nth)
        taken.append(time.perf_counter_ns() - begin)
    return latencies(taken)


def files_read(server: Server, token: str, statement: str, timeout_s: float = 120) -> dict[str, int]:
    """Files and rows that the scans of a statement read, by Spark's metrics."""
    program = (
        "import sys, json\nfrom pyspark.sql import SparkSession\n"
        "frame = SparkSession.builder.remote(sys.argv[1]).getOrCreate().sql(sys.argv[2])\nframe.collect()\n"
        "found = {'files': 0, 'rows': 0}\n"
        "for node in frame.executionInfo.metrics._metrics:\n"
        "    values = {metric.name: metric.value for metric in node.metrics}\n"
        "    found['files'] += values.get('numFiles', 0)\n"
        "    found['rows'] += values.get('numOutputRows', 0) if 'numFiles' in values else 0\n"
        "print(json.dumps(found))\n"
    )
    command = [sys.executable, "-c", program, f"sc://localhost:{server.address[1]}", statement]
    own = os.environ | {"SPARK_CONNECT_AUTHENTICATE_TOKEN": token}
    return json.loads(subprocess.run(command, check=True, capture_output=True, timeout=timeout_s, env=own).stdout)


class Questions:
    """What is asked, and its results."""

    def __init__(self, lake: Path, url: str, client: ConnectClient, server: Server, rows: int, times: int) -> None:
        self._lake, self._url, self._client, self._server = lake, url, client, server
        self._token = read_token(lake)
        self._rows, self._times = rows, times
        self._settings = {"rows": rows, "topics": TOPICS, "times": times}

    def _ask(self, statement: str) -> list[dict[str, Any]]:
        return [row for batch in self._client.run(statement).batches for row in batch.to_pylist()]

    def _files(self, table: str) -> int:
        return int(self._ask(f"DESCRIBE DETAIL {table}")[0]["numFiles"])

    def _report(self, what: str, statement: Callable[[int], str], table: str = "messages") -> None:
        figures = timed(self._times, lambda nth: check(self._ask(statement(nth))))
        read, total = files_read(self._server, self._token, statement(0)), self._files(table)
        emit(what, figures["p50_ms"] / 1000, "s", self._settings, **figures, files_read=read, files=total)

    def ask_all(self) -> None:
        window = "count(*) AS messages, max(position) AS last FROM live.messages WHERE topic ="
        self._report(
            "live.messages, a topic's last 5 minutes",
            lambda nth: f"SELECT {window} 'topic-{nth % TOPICS:03d}' AND store_time > now() - INTERVAL 5 MINUTES",
        )
        self._report(
            "live.messages, 5 minutes of a topic 3 days ago",
            lambda nth: (
                f"SELECT {window} 'topic-{nth % TOPICS:03d}' AND store_time BETWEEN now() - INTERVAL 4320 MINUTES "
                "AND now() - INTERVAL 4315 MINUTES"
            ),
        )
        self._report("live.message_index, a key", self._key, "message_index")
        figures = timed(self._times, self._by_key)
        emit(
            "a message by its key: the index, then the message",
            figures["p50_ms"] / 1000,
            "s",
            self._settings,
            **figures,
        )
        figures = timed(self._times, self._visible)
        emit("from stored to visible in live.messages", figures["p50_ms"] / 1000, "s", self._settings, **figures)
        recent = f"SELECT {window} 'topic-001' AND store_time > now() - INTERVAL 5 MINUTES"
        command = [sys.executable, "-m", "lakemq", "sql", "--lake", str(self._lake), recent]

        def run(_: int) -> None:
            subprocess.run(command, check=True, capture_output=True)

        figures = timed(self._times, run)
        emit("the first as a command, lakemq sql", figures["p50_ms"] / 1000, "s", self._settings, **figures)

    def _place(self, nth: int) -> int:
        return (nth + 1) * KEY_STEP % (self._rows // TOPICS * TOPICS)

    def _key(self, nth: int) -> str:
        place = self._place(nth)
        return (
            f"SELECT * FROM live.message_index WHERE topic = 'topic-{place % TOPICS:03d}' AND key = 'key-{place:09d}'"
        )

    def _by_key(self, nth: int) -> None:
        (found,) = self._ask(self._key(nth))
        rows = self._ask(
            f"SELECT * FROM live.messages WHERE topic = '{found['topic']}' AND broker = '{found['broker']}' AND "
            f"position = {found['position']} AND store_time = TIMESTAMP '{found['store_time'].isoformat()}'"
        )
        assert [row["position"] for row in rows] == [self._place(nth)], rows

    def _visible(self, nth: int) -> None:
        """The topic is the measure's own: what is asked for is just the message."""
        answer = ask(self._url, "POST", "/v1/topics/visible/messages", {"messages": [{"body": str(nth)}]})
        position = answer["messages"][0]["position"]
        found = self._ask(
            "SELECT position FROM live.messages WHERE topic = 'visible' AND broker = 'broker-a' "
            f"AND position = {position} AND store_time > now() - INTERVAL 1 MINUTE"
        )
        assert [row["position"] for row in found] == [position], found


def check(rows: list[dict[str, Any]]) -> None:
    assert rows, "no rows"


def main() -> None:
    chosen = sizes(__doc__, rows=(100_000_000, 300_000), times=(30, 3), rate=(1_000, 500), warm_s=(60, 12))
    with scratch() as folder:
        lake = folder / "lake"
        begin = time.monotonic()
        write_history(lake, chosen.rows)
        size = sum(file.stat().st_size for file in lake.rglob("*.parquet"))
        say(f"history: {chosen.rows} messages, {size / 1e9:.2f} GB, in {time.monotonic() - begin:.0f} s")
        with gateway(folder / "log") as broker, contextlib.ExitStack() as stack:
            for nth in range(TOPICS):
                make_topic(broker.url, f"topic-{nth:03d}", 4)
            make_topic(broker.url, "visible", 1)
            stack.enter_context(lake_query(broker.url, lake))
            stack.enter_context(producing(broker.url, chosen.rate))
            time.sleep(chosen.warm_s)
            server = find_server(lake)
            assert server is not None, "no Spark Connect server was announced"
            with ConnectClient(server, read_token(lake)) as client:
                Questions(lake, broker.url, client, server, chosen.rows, chosen.times).ask_all()


if __name__ == "__main__":
    main()
