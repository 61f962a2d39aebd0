from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client import REGISTRY
from typer.testing import CliRunner

from lakemq.cli.app import app
from lakemq.contract.metrics import JOBS
from lakemq.jobs.maintenance.metrics import Metrics
from lakemq.jobs.maintenance.runs import Run, append_run, forget_runs, last_runs, read_runs
from tests.metrics.promtool import promtool

START_MS = 1_700_000_000_000
RUN = Run("r1", "optimize", "schedule", START_MS, START_MS + 1_500, 2, "done", None, 90, 4, 1000, 900, {"a": {"b": 1}})


def write(lake: Path) -> list[Run]:
    runs = [
        RUN,
        replace(RUN, run_id="r2", job="verify", started_at=START_MS + 5_000, result="differs"),
        replace(RUN, run_id="r3", started_at=START_MS + 9_000, result="failed", error="no disk"),
    ]
    for run in runs:
        append_run(lake, run)
    return runs


def test_a_run_is_a_row_that_comes_back_as_it_was(tmp_path: Path) -> None:
    assert read_runs(tmp_path) == []
    runs = write(tmp_path)
    assert read_runs(tmp_path) == runs[::-1]
    assert read_runs(tmp_path, "optimize", 1) == [runs[2]]
    assert last_runs(tmp_path) == {"optimize": runs[2], "verify": runs[1]}
    assert forget_runs(tmp_path, START_MS + 5_000) == 1
    assert [run.run_id for run in read_runs(tmp_path)] == ["r3", "r2"]


def test_history_and_list_show_them_without_a_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "lake")
    command = CliRunner()
    shown = command.invoke(app, ["maintenance", "history", "--lake", "lake", "--json"])
    assert shown.exit_code == 0, shown.output
    rows = [json.loads(line) for line in shown.output.splitlines()]
    assert [row["run_id"] for row in rows] == ["r3", "r2", "r1"]
    assert rows[2]["duration_ms"] == 1_500
    table = command.invoke(app, ["maintenance", "history", "--lake", "lake", "--job", "verify"])
    assert "differs" in table.output
    assert "failed" not in table.output
    listed = command.invoke(app, ["maintenance", "list", "--lake", "lake", "--json"])
    jobs = {job["job"]: job for job in map(json.loads, listed.output.splitlines())}
    assert jobs["optimize"]["last"]["error"] == "no disk"
    assert jobs["optimize"]["next_ms"] > START_MS
    assert jobs["index-rebuild"]["next_ms"] is None
    assert jobs["vacuum"]["last"] is None
    assert "on demand" in command.invoke(app, ["maintenance", "list", "--lake", "lake"]).output


def test_metrics_tell_runs_attempts_and_when_a_job_last_did_its_work(tmp_path: Path) -> None:
    metrics = Metrics()
    for run in write(tmp_path):
        metrics.observe(run)
    value = metrics.registry.get_sample_value
    assert value("lakemq_maintenance_runs_total", {"job": "optimize", "result": "done"}) == 1
    assert value("lakemq_maintenance_runs_total", {"job": "optimize", "result": "failed"}) == 1
    assert value("lakemq_maintenance_retries_total", {"job": "optimize"}) == 2
    assert value("lakemq_maintenance_last_success_seconds", {"job": "optimize"}) == (START_MS + 1_500) / 1000
    assert value("lakemq_maintenance_files") == 4
    assert value("lakemq_lake_last_batch_timestamp_seconds") == 0
    metrics.observe_batch(0.7)
    assert value("lakemq_lake_batch_duration_seconds_count") == 1
    assert value("lakemq_lake_batch_duration_seconds_sum") == 0.7
    assert (value("lakemq_lake_last_batch_timestamp_seconds") or 0) > START_MS / 1000
    metrics.serve("127.0.0.1", 0)
    try:
        with urlopen(f"http://127.0.0.1:{metrics.port}/metrics") as answer:
            text = answer.read().decode()
    finally:
        metrics.close()
    said = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
    assert {name for name in said if not name.endswith("_created")} == {metric.name for metric in JOBS}
    promtool("check", "metrics", text=text)
    assert REGISTRY.get_sample_value("lakemq_maintenance_files") is None
