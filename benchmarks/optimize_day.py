"""OPTIMIZE after hours at a rate of messages: files before and after, and time. `python -m benchmarks.optimize_day`.

The lake query commits every five seconds, so an hour at 1,000 messages a second is 720 files a table of
5,000 messages each. Spark writes such files straight into the tables, many in a commit: what OPTIMIZE
has to do depends on the files. `--hours 24` is the day; a pass every ten minutes meets ten minutes'
files, and is measured too.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.broker import scratch
from benchmarks.options import sizes
from benchmarks.results import emit, say
from lakemq.jobs.maintenance.rebuild import derived_rows
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.session.session import start_session
from lakemq.jobs.tables.tables import CONSUME_QUEUE, MESSAGE_INDEX, MESSAGES, TABLES
from lakemq.settings import Lake, Settings

COMMIT_S = 5
TOPICS = 20
WRITTEN = (MESSAGES, CONSUME_QUEUE, MESSAGE_INDEX)


class Day:
    """The tables, and the hours that are in them."""

    def __init__(self, session: Any, lake: Path, rate_per_s: int, body_bytes: int) -> None:
        self._session, self._lake = session, lake
        self._rows = rate_per_s * COMMIT_S
        self._step_us = 1_000_000 // rate_per_s
        self._body_bytes = body_bytes
        self._begin_us = time.time_ns() // 1000
        self._next = 0
        for table in TABLES:
            table.create(session, lake)

    def commit(self, commits: int) -> None:
        """As many commits' files, of consecutive messages each."""
        begin, end = self._next, self._next + commits * self._rows
        self._next = end
        messages = self._messages(self._session.range(begin, end, 1, commits))
        for table in WRITTEN:
            rows = messages.select(*table.columns) if table is MESSAGES else derived_rows(table, messages)
            rows.write.format("delta").mode("append").save(str(table.path(self._lake)))

    def _messages(self, ids: Any) -> Any:
        from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

        nth = F.col("id")
        text = F.concat(*(F.hex(F.xxhash64(F.lit(each), nth)) for each in range(-(-self._body_bytes // 12))))
        known = {
            "broker": F.lit("broker-a"),
            "position": nth,
            "topic": F.format_string("topic-%03d", nth % TOPICS),
            "queue_id": (nth / TOPICS % 4).cast("int"),
            "queue_offset": (nth / (TOPICS * 4)).cast("bigint"),
            "message_id": F.concat(F.lit("broker-a."), nth.cast("string")),
            "tag": F.format_string("tag-%d", nth % 10),
            "keys": F.array(F.format_string("key-%09d", nth * 7_368_787 % 1_000_000_007)),
            "body": F.substring(text, 1, self._body_bytes).cast("binary"),
            "store_time": F.timestamp_micros(F.lit(self._begin_us) + nth * self._step_us),
            "reconsume_times": F.lit(0),
        }
        known["store_date"] = F.to_date(known["store_time"])
        known["born_time"] = known["store_time"]
        columns = [known.get(name, F.lit(None).cast(kind)).alias(name) for name, kind in MESSAGES.columns.items()]
        return ids.select(*columns)


def main() -> None:
    options = sizes(__doc__, hours=(24.0, 0.02), rate=(1_000, 1_000), body=(100, 100))
    with scratch() as folder:
        settings = Settings(lake=Lake(dir=Path(folder) / "lake"))
        session = start_session(settings, "optimize_day")
        day = Day(session, settings.lake.dir, options.rate, options.body)
        runner = Runner(session, settings, "")
        shown = {"hours": options.hours, "rate_per_s": options.rate, "body_bytes": options.body}
        say(f"writing {options.hours} hours")
        begin = time.perf_counter()
        day.commit(max(16, round(options.hours * 3600 / COMMIT_S)))
        say(f"written in {time.perf_counter() - begin:.0f} s")
        _measure(runner, "optimize_day", shown)
        day.commit(600 // COMMIT_S)
        _measure(runner, "optimize_ten_minutes_after", shown)
        session.stop()


def _measure(runner: Runner, what: str, shown: dict[str, Any]) -> None:
    run = runner.run("optimize", "command")
    if run.error is not None:
        raise RuntimeError(run.error)
    emit(
        what,
        (run.ended_at - run.started_at) / 1000,
        "s",
        shown,
        files_before=run.files_before,
        files_after=run.files_after,
        bytes_before=run.bytes_before,
        bytes_after=run.bytes_after,
        tables=run.detail["tables"],
    )


if __name__ == "__main__":
    main()
