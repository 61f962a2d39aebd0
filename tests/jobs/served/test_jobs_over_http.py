"""The jobs are asked how they are, and to run maintenance, where they answer SQL; and the console's page of them."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from html import unescape
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.maintenance import requests
from lakemq.jobs.maintenance import runner as module
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.maintenance.runs import Run, append_run
from lakemq.jobs.maintenance.scheduler import MaintenanceScheduler
from lakemq.jobs.maintenance.told import RUNS_TOLD_MAX, ToldMaintenance
from lakemq.jobs.maintenance.work import Outcome, Work
from lakemq.jobs.process.board import Board
from lakemq.jobs.process.broker_watch import BrokerWatch
from lakemq.jobs.process.control import WAITING_MAX, Control
from lakemq.jobs.replay.plan import Plan, ReplayRequest, write_plan
from lakemq.jobs.served.server import SqlServer
from lakemq.jobs.tables.driver import Driver
from lakemq.model.errors import LakemqError
from lakemq.settings import Lake, Maintenance, Settings, SqlHttp
from lakemq.storage.disk.clock import SystemClock
from tests.console.visitor import ConsoleProcess, Visitor, went_to
from tests.gateway.access.asking import allow, ask_as, make_user
from tests.jobs.served.scene import WAIT_S, Scene

SCRIPT = "<script>alert(1)</script>"


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


@dataclass
class Jobs:
    """Maintenance of the scene's lake, and who answers for it."""

    scene: Scene
    server: SqlServer
    board: Board
    runner: Runner
    tokens: dict[str, str]

    def ask(self, method: str, path: str, user: str | None = None, **options: Any) -> httpx.Response:
        headers = {} if user is None else {"Authorization": f"Bearer {self.tokens[user]}"}
        with httpx.Client(trust_env=False, timeout=WAIT_S) as http:
            return http.request(method, f"{self.server.url}{path}", headers=headers, **options)

    def maintenance(self) -> dict[str, Any]:
        return self.ask("GET", "/v1/jobs", "admin").json()["maintenance"]


@pytest.fixture(scope="module")
def jobs(scene: Scene, spark: SparkSession) -> Iterator[Jobs]:
    settings = Settings(lake=Lake(dir=scene.lake), maintenance=Maintenance(retry_pause_ms=0, attempts_max=1))
    runner = Runner(spark, settings, lambda: scene.gateway.url, driver=Driver(spark, settings.lake))
    scheduler, now_ms = MaintenanceScheduler(runner, settings, {}), SystemClock().now_ms
    board = Board(now_ms)
    control = Control(board, ToldMaintenance(runner, settings), settings, now_ms)
    server = SqlServer(spark, lambda: scene.gateway.url, SqlHttp(), control=control)
    with ask_as(scene.gateway, scene.tokens["admin"]) as admin:
        tokens = scene.tokens | {
            "keeper": make_user(admin, "keeper", allow("Cluster:*", "Compact", "List")),
            "watcher": make_user(admin, "watcher", allow("Cluster:*", "List")),
        }
    server.start()
    scheduler.start()
    watch = BrokerWatch(scene.gateway.url, stop := threading.Event())
    watch.sql = server.url
    watch.start()
    try:
        with watch.telling(("lake",)):
            until(
                lambda: (
                    httpx.get(f"{scene.gateway.url}/v1/broker", trust_env=False, timeout=60).json()["sql"] == server.url
                )
            )
            yield Jobs(scene, server, board, runner, tokens)
    finally:
        stop.set()
        scheduler.stop()
        server.stop()


@pytest.fixture
def holds(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """`optimize` goes on until it is cancelled; set once it has begun. What another test has asked for is done by then:
    its cancelling would end this one's runs too."""
    until(lambda: jobs.maintenance()["under_way"] is None and not requests.waiting(jobs.scene.lake))
    begun = threading.Event()

    def run(work: Work) -> Outcome:
        work.at("holds on")
        begun.set()
        while True:
            work.check()
            time.sleep(0.01)

    monkeypatch.setitem(module.JOBS, "optimize", replace(module.JOBS["optimize"], run=run))
    return begun


def fails(work: Work) -> Outcome:
    raise LakemqError(f"it fails: {SCRIPT}")


def test_who_may_ask_the_jobs_and_who_may_have_them_run(jobs: Jobs) -> None:
    run = "/v1/maintenance/stats/runs"
    for user, see, do in ((None, 200, 401), ("watcher", 200, 403), ("olga", 403, 403)):
        assert jobs.ask("GET", "/v1/jobs", user).status_code == see
        assert jobs.ask("POST", run, user).status_code == do
        assert jobs.ask("DELETE", run, user).status_code == do
    until(lambda: jobs.maintenance()["under_way"] is None)
    assert jobs.ask("POST", run, "keeper").status_code == 200
    ours = ("stats", "user keeper")  # other tests have it run too
    done = until(lambda: [each for each in jobs.maintenance()["runs"] if (each["job"], each["started_by"]) == ours])[0]
    assert done["result"] == "done"
    (stats,) = [each for each in jobs.maintenance()["jobs"] if each["job"] == "stats"]
    assert stats["last"]["run_id"] == done["run_id"]
    assert done["detail"]
    runs = jobs.ask("GET", "/v1/jobs", "watcher").json()["maintenance"]["runs"]
    assert [(each["detail"], each["error"]) for each in runs if each["run_id"] == done["run_id"]] == [(None, None)]


def test_what_is_asked_of_the_jobs_is_audited_before_it_is_done_and_so_is_what_is_refused(jobs: Jobs) -> None:
    run = "/v1/maintenance/checkpoint-cleanup/runs"
    assert jobs.ask("POST", run, "watcher").status_code == 403
    assert jobs.ask("POST", run, "keeper").status_code == 200
    assert jobs.ask("DELETE", run, "keeper").status_code == 200

    def told() -> set[tuple[str, str, str]]:
        path = f"{jobs.scene.gateway.url}/v1/topics/RMQ_SYS_AUDIT_TOPIC/queues/0/messages"
        headers = {"Authorization": f"Bearer {jobs.tokens['admin']}"}
        answer = httpx.get(path, params={"offset": 0, "max": 1_000}, headers=headers, trust_env=False, timeout=60)
        bodies = [(each["tag"], json.loads(each["body"])) for each in answer.json()["messages"]]
        return {(tag, body["user"], body["what"]) for tag, body in bodies if "checkpoint-cleanup" in body["what"]}

    wanted = {("allowed", "keeper", f"POST {run}"), ("allowed", "keeper", f"DELETE {run}")}
    assert told() >= wanted
    # Refusals hold nobody up, so they come later. What was refused is named by its route and its job.
    until(lambda: ("refused", "watcher", "POST /v1/maintenance/{job}/runs checkpoint-cleanup") in told())


def test_what_is_no_job_or_can_not_be_undone_is_not_run_over_http(jobs: Jobs) -> None:
    for path, options in (
        ("/v1/maintenance/erase/runs", {}),
        ("/v1/maintenance/adopt/runs", {}),
        ("/v1/maintenance/none/runs", {}),
        ("/v1/maintenance/cancel/runs", {}),
        ("/v1/maintenance/stats/runs", {"json": {"where": "true"}}),
    ):
        refused = jobs.ask("POST", path, "admin", **options)
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    assert jobs.ask("DELETE", "/v1/maintenance/none/runs", "admin").status_code == 400


def test_a_run_is_shown_with_its_step_and_cancelled_with_what_waits(jobs: Jobs, holds: threading.Event) -> None:
    path = "/v1/maintenance/optimize/runs"
    assert jobs.ask("POST", path, "keeper").status_code == 200
    assert holds.wait(WAIT_S)
    now = jobs.maintenance()["under_way"]
    assert (now["job"], now["step"], now["started_by"]) == ("optimize", "holds on", "user keeper")
    assert jobs.ask("POST", path, "admin").status_code == 200
    (waits,) = until(lambda: jobs.maintenance()["waiting"])
    assert (waits["job"], waits["asked_by"]) == ("optimize", "admin.token")
    assert jobs.ask("DELETE", path, "keeper").status_code == 200
    until(lambda: (told := jobs.maintenance())["under_way"] is None and not told["waiting"])
    assert jobs.maintenance()["runs"][0]["result"] == "cancelled"


def test_a_job_that_runs_often_pushes_no_other_ones_runs_out(jobs: Jobs) -> None:
    old_ms = SystemClock().now_ms() - 3_600_000
    rare = Run("rare", "erase", "command", old_ms, old_ms + 1, 1, "done", None, 1, 1, 1, 1, {"messages": 17})
    often = [
        replace(rare, run_id=f"often {number}", job="retention", started_at=old_ms + number)
        for number in range(1, RUNS_TOLD_MAX + 2)
    ]
    for run in (rare, *often):
        append_run(jobs.scene.lake, run)
    assert jobs.ask("POST", "/v1/maintenance/stats/runs", "admin").status_code == 200
    last = often[-1].run_id
    until(lambda: last in [each["run_id"] for each in jobs.maintenance()["runs"]])  # they are read again
    runs = {each["run_id"]: each for each in jobs.maintenance()["runs"]}
    assert runs["rare"]["detail"] == '{"messages": 17}'
    assert "often 1" not in runs
    began = [each["started_at"] for each in runs.values()]
    assert began == sorted(began, reverse=True)


def test_requests_that_wait_are_bounded(jobs: Jobs, holds: threading.Event) -> None:
    path = "/v1/maintenance/optimize/runs"
    answers = [jobs.ask("POST", path, "keeper").status_code for _ in range(WAITING_MAX + 2)]
    assert answers[0] == 200
    assert answers[-1] == 429
    assert jobs.ask("DELETE", path, "keeper").status_code == 200
    until(lambda: not requests.waiting(jobs.scene.lake))


def test_the_page_shows_the_jobs_runs_one_and_cancels_it(
    jobs: Jobs, holds: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(module.JOBS, "stats", replace(module.JOBS["stats"], run=fails))
    jobs.board.failed("lake", f"the lake is away: {SCRIPT}")
    plan = Plan(ReplayRequest("true", "again", f"g{SCRIPT}"), "replay-x", found=7)
    assert write_plan(jobs.scene.lake, plan, new=True)
    with ConsoleProcess(jobs.scene.gateway.url) as console:
        visitor = Visitor(console.url)
        assert "Run now…" not in visitor.get("/jobs")
        assert visitor.http.get("/jobs/optimize/run").status_code == 200  # one may look
        assert visitor.post("/jobs/optimize/run").headers["location"].startswith("/sign-in")
        visitor.sign_in(jobs.tokens["watcher"])
        assert "Run now…" not in visitor.get("/jobs")
        assert visitor.post("/jobs/optimize/run").status_code == 403
        visitor.sign_in(jobs.tokens["admin"])
        for job in ("stats", "optimize"):
            assert "Run now…" in visitor.get("/jobs")
            assert f"Run {job} now?" in visitor.get(f"/jobs/{job}/run")
            assert went_to(visitor.post(f"/jobs/{job}/run")) == "/jobs"
        assert holds.wait(WAIT_S)
        until(lambda: f"g{SCRIPT}" in unescape(visitor.get("/jobs")))  # which replays there are holds for seconds
        page = visitor.get("/jobs")
        assert "<strong>optimize</strong> has run for" in page
        assert "it holds on" in page
        assert "/jobs/owed-erasures/run" in page
        assert "/jobs/erase/run" not in page
        for word in (f"The last run of stats failed: it fails: {SCRIPT}", f"the lake is away: {SCRIPT}", f"g{SCRIPT}"):
            assert word in unescape(page)
        assert "<script>alert" not in page
        assert "0 of 7" in page
        assert went_to(visitor.post("/jobs/optimize/cancel")) == "/jobs"
        until(
            lambda: re.search(
                r"<td data-label=\"Result\"><span><span class=\"tag warn\">cancelled<", visitor.get("/jobs")
            )
        )
        visitor.get("/jobs/none/run", 400)
        visitor.close()
