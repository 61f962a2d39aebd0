"""Small files merged as they come, for hours of messages, and the nightly job. `python -m benchmarks.optimize_day`.

The lake query commits every five seconds, so an hour at 1,000 messages a second is 720 files a table of
5,000 messages each. Spark writes such files straight into the tables, a minute's in a commit, as fast as it goes;
after each such commit the tables' files are merged, as the query's thread does after each batch. What is counted
is the files of a table at any time, and the CPU that merging takes of an hour of messages. Then `optimize` runs
once, as it does at night.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from benchmarks.broker import scratch
from benchmarks.cpu import cpu_s, peak_rss_bytes
from benchmarks.options import sizes
from benchmarks.results import emit, say
from lakemq.jobs.lake.merging import limits_of
from lakemq.jobs.maintenance.rebuild import derived_rows
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.session.session import start_session
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.merger import TableMerger
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.table_files import look_at
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


class MergedAsItGoes:
    """The tables' mergers, and what their work has come to."""

    def __init__(self, session: Any, settings: Settings) -> None:
        lake = settings.lake
        driver = Driver(session, lake)
        self._tables = [
            TableMerger(session, table.layout(lake.dir), lake.dir, limits_of(lake), lambda: False, driver)
            for table in WRITTEN
        ]
        self._lake, self._jvm_pid = lake.dir, int(session._jvm.java.lang.ProcessHandle.current().pid())
        self.most_files = dict.fromkeys((table.name for table in WRITTEN), 0)
        self.python_s = self.jvm_s = self.longest_s = 0.0
        self.merges = 0

    def run(self) -> None:
        """All merges that there are to do now."""
        for table, merger in zip(WRITTEN, self._tables, strict=True):
            self._count(table)
            while self._step(merger):
                self._count(table)

    def _step(self, merger: TableMerger) -> bool:
        begin, python_s, jvm_s = time.perf_counter(), time.process_time(), cpu_s(self._jvm_pid)
        merged = merger.step()
        if merged:
            self.merges += 1
            self.python_s += time.process_time() - python_s
            self.jvm_s += cpu_s(self._jvm_pid) - jvm_s
            self.longest_s = max(self.longest_s, time.perf_counter() - begin)
        return merged

    def _count(self, table: LakeTable) -> None:
        files = look_at(table.path(self._lake), 0).files
        self.most_files[table.name] = max(self.most_files[table.name], files)


def main() -> None:
    options = sizes(__doc__, hours=(24.0, 0.1), rate=(1_000, 1_000), body=(100, 100))
    with scratch() as folder:
        settings = Settings(lake=Lake(dir=Path(folder) / "lake"))
        session = start_session(settings, "optimize_day")
        day = Day(session, settings.lake.dir, options.rate, options.body)
        merging = MergedAsItGoes(session, settings)
        shown = {"hours": options.hours, "rate_per_s": options.rate, "body_bytes": options.body}
        minutes = max(2, round(options.hours * 60))
        written_s = 0.0
        for minute in range(minutes):
            begin = time.perf_counter()
            day.commit(60 // COMMIT_S)
            written_s += time.perf_counter() - begin
            merging.run()
            if minute % 60 == 59:
                cpu = f"{merging.python_s:.0f} + {merging.jvm_s:.0f} s of CPU to merge, {written_s:.0f} s to write"
                say(f"{(minute + 1) // 60} hours: at most {merging.most_files} files, {cpu}")
        emit(
            "merged_as_it_goes",
            (merging.python_s + merging.jvm_s) / (minutes / 60),
            "cpu s/h",
            shown,
            python_cpu_s=round(merging.python_s, 1),
            jvm_cpu_s=round(merging.jvm_s, 1),
            merges=merging.merges,
            longest_merge_s=round(merging.longest_s, 2),
            most_files=merging.most_files,
            peak_rss_mib=peak_rss_bytes(os.getpid()) // 2**20,
        )
        _measure_nightly(Runner(session, settings, lambda: "", driver=Driver(session, settings.lake)), shown)
        session.stop()


def _measure_nightly(runner: Runner, shown: dict[str, Any]) -> None:
    run = runner.run("optimize", "command")
    if run.error is not None:
        raise RuntimeError(run.error)
    emit(
        "optimize_nightly",
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
