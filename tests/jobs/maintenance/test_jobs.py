"""The jobs of maintenance on a real lake, beside the query that writes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakemq.jobs.lake.lock import LakeLock
from lakemq.jobs.maintenance import requests
from lakemq.jobs.maintenance.catalogue import schedules
from lakemq.jobs.maintenance.command import run_job
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.maintenance.runs import read_runs
from lakemq.jobs.maintenance.scheduler import MaintenanceScheduler
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.tables import CONSUME_QUEUE, MESSAGE_INDEX, MESSAGES
from tests.gateway.routing.asking import wait_until
from tests.jobs.changed_rows import change_rows, pc
from tests.jobs.lake_checks import broker_of, check_once_in_each_table, rows_of
from tests.jobs.maintenance.scene import Load, Scene

WAIT_S = 300


def test_every_job_beside_the_query_loses_and_doubles_nothing(scene: Scene) -> None:
    before = scene.files("messages")
    for _ in range(3):
        scene.produce(20)
        scene.compact()
    small = scene.files("messages") - before
    with Load(scene):
        optimized = scene.run("optimize")
        rebuilt = scene.run("index-rebuild")
        others = [scene.run(name) for name in ("vacuum", "retention", "stats", "checkpoint-cleanup")]
    runs = [optimized, rebuilt, *others]
    assert [(run.result, run.error) for run in runs] == [("done", None)] * 6
    assert set(optimized.detail["tables"]) >= {"messages", "consume_queue", "message_index"}
    assert small
    assert not small & scene.files("messages")
    assert set(rebuilt.detail["rebuilt"]) == {"consume_queue", "message_index"}
    scene.check()
    assert read_runs(scene.lake)[: len(runs)] == runs[::-1]
    tables = rows_of(scene.lake, "lake_stats", ["kind", "name", "rows"])
    assert ("table", "messages") in {row[:2] for row in tables}
    assert max(row[2] for row in tables if row[:2] == ("topic", "a")) >= 60


def test_an_index_is_made_anew_though_its_files_are_gone(scene: Scene) -> None:
    scene.produce(30)
    scene.compact()
    for file in scene.files("message_index"):
        Path(file.removeprefix("file://")).unlink()
    first = (pc.field("topic") == "a") & (pc.field("queue_offset") < 3)
    change_rows(CONSUME_QUEUE.path(scene.lake), lambda rows: rows.filter(~first))
    assert scene.run("index-rebuild", {"table": "message_index"}).detail["rebuilt"]["message_index"]["files_after"] > 0
    assert scene.run("index-rebuild").result == "done"
    scene.produce(10)
    scene.check()
    unknown = scene.run("index-rebuild", {"table": "messages"}, attempts_max=2)
    assert (unknown.result, unknown.attempts) == ("failed", 2)
    assert "no index 'messages'" in (unknown.error or "")


def test_retention_cuts_topics_by_age_and_by_size_and_leaves_the_others(scene: Scene) -> None:
    for topic in ("aged", "large", "kept"):
        scene.produce(10, topic)
    cut = ("aged", "large")
    scene.compact()
    for table in (MESSAGES, CONSUME_QUEUE, MESSAGE_INDEX):
        change_rows(table.path(scene.lake), lambda rows: an_hour_older(rows, cut))
    done = scene.run("retention", keep={"aged": "30m", "large": "33B"})
    assert done.error is None
    left = {message for message in scene.produced if message[1] not in cut or message[4] % 2 == 1}
    check_once_in_each_table(scene.lake, left)
    assert done.detail["removed"]["messages"] == len(scene.produced) - len(left)
    assert set(done.detail["removed"]["before"]) == set(cut)
    scene.produced = left
    assert scene.run("retention", keep={"aged": "30m"}).detail["removed"].get("messages", 0) == 0


def an_hour_older(rows: pa.Table, topics: Collection[str]) -> pa.Table:
    """Those of these topics at even positions."""
    older = [
        row | {"store_time": row["store_time"] - timedelta(hours=1)}
        if row["topic"] in topics and row["position"] % 2 == 0
        else row
        for row in rows.to_pylist()
    ]
    return pa.Table.from_pylist(older, rows.schema)


def test_another_process_asks_and_what_ended_it_before_is_begun_again(scene: Scene) -> None:
    scene.produce(5)
    scene.compact()
    settings = scene.settings
    left = requests.submit(scene.lake, "stats", {})  # of a process that was killed meanwhile
    requests.begin(scene.lake, requests.waiting(scene.lake)[0])
    hopeless = requests.submit(scene.lake, "optimize", {})
    for _ in range(requests.ATTEMPTS_MAX):
        (request,) = (each for each in requests.waiting(scene.lake) if each.request_id == hopeless)
        requests.begin(scene.lake, request)
    unknown = requests.submit(scene.lake, "defragment", {})
    runner = Runner(scene.spark, settings, lambda: scene.gateway.url, driver=Driver(scene.spark, settings.lake))
    scheduler = MaintenanceScheduler(runner, settings, schedules(settings.maintenance))
    lock = LakeLock(scene.spark, scene.lake)
    assert lock.acquire()
    said: list[str] = []
    scheduler.start()
    try:
        run = run_job(settings, scene.gateway.url, "checkpoint-cleanup", {}, said.append)
        answers = [take(scene.lake, request_id) for request_id in (left, hopeless, unknown)]
    finally:
        scheduler.stop()
        lock.release()
    assert (run.result, run.started_by, said) == ("done", "request", ["asked the running jobs for checkpoint-cleanup"])
    assert (answers[0]["job"], answers[0]["result"]) == ("stats", "done")
    assert "ended its process 3 times" in answers[1]["error"]
    assert "no job 'defragment'" in answers[2]["error"]
    assert requests.waiting(scene.lake) == []


def take(lake: Path, request_id: str) -> dict[str, Any]:
    end = time.monotonic() + WAIT_S
    while (result := requests.take_result(lake, request_id)) is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    return result


def test_without_running_jobs_a_command_does_it_itself(scene: Scene) -> None:
    scene.produce(5)
    scene.compact()
    scene.stop()
    said: list[str] = []
    try:
        with ThreadPoolExecutor(1) as pool:  # a thread that isn't the one that started this process's Spark
            run = pool.submit(run_job, scene.settings, scene.gateway.url, "stats", {}, said.append).result()
        assert scene.spark.range(1).count() == 1, "whose Spark was there before has it afterwards"
    finally:
        scene.start()
    assert (run.result, run.started_by) == ("done", "command")
    assert said == ["no jobs run on this lake: starting Spark here"]
    assert broker_of(scene.gateway.url)["compacted_position"] > 0


def test_a_job_that_is_stopped_half_way_leaves_its_tables_as_they_were(scene: Scene) -> None:
    for _ in range(3):
        scene.produce(20)
        scene.compact()
    runner = Runner(
        scene.spark, scene.settings, lambda: scene.gateway.url, driver=Driver(scene.spark, scene.settings.lake)
    )
    thread = threading.Thread(target=runner.run, args=("optimize", "schedule"))
    thread.start()
    wait_until(lambda: runner.describe() is not None or not thread.is_alive())
    runner.stop()
    thread.join()
    assert read_runs(scene.lake)[0].result in {"stopped", "done"}
    scene.produce(5)
    scene.check()
