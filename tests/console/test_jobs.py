"""What the page of jobs says of what brokers and jobs say; with jobs that run it is tested beside them
(tests/jobs/served/test_jobs_over_http.py)."""

from __future__ import annotations

from typing import Any

import httpx

from lakemq.console.jobs import HISTORY_SHOWN_MAX, STALLED_MS, Jobs, jobs_of
from lakemq.console.looks import Look
from tests.console.test_live import events
from tests.console.visitor import Guarded, Visitor, token_of

NOW_MS = 10_000_000
RUN: dict[str, Any] = {"job": "verify", "result": "done", "error": None, "detail": "{}", "ended_at": NOW_MS}


def query(name: str, state: str = "running", **fields: Any) -> dict[str, Any]:
    told = {"query": name, "jobs": [name], "state": state, "since_ms": NOW_MS - 90_000, "starts": 1, "error": None}
    return told | {"batches": 0, "recent": []} | fields


def told(
    *queries: dict[str, Any], replays: list[dict[str, Any]] | None = None, last: dict[str, Any] | None = None
) -> dict[str, Any]:
    jobs = [{"job": "verify", "about": "compare", "schedule": "", "next_ms": None, "last": last, "by_command": False}]
    runs = [] if last is None else [last]
    maintenance: dict[str, Any] = {"under_way": None, "waiting": [], "jobs": jobs, "runs": runs}
    return {"now_ms": NOW_MS, "queries": list(queries), "maintenance": maintenance, "replays": replays or []}


def shown(
    answer: dict[str, Any] | None,
    heard: dict[str, Any] | None = None,
    behind_s: dict[str, float] | None = None,
    sinks: dict[str, Any] | None = None,
) -> Jobs:
    metrics = {"lakemq_job_behind_seconds": behind_s or {}}
    return jobs_of(Look("http://b", 1.0, "", {"jobs": heard or {}}, [], metrics), answer, sinks, "")


def test_what_is_dead_or_late_is_said_first_with_what_to_do() -> None:
    found = shown(
        told(
            query("lake", batches=3),
            query("wheel", "failed", jobs=["delay", "retry"], error={"at_ms": NOW_MS - 5_000, "text": "no disk"}),
            query("spare", "waiting"),
            last=RUN | {"result": "failed", "error": "a file is gone"},
        ),
        {"lake": {"alive": True, "lag": 9}, "delay": {"alive": False, "lag": 0}, "maintenance": {"alive": False}},
        {"lake": 300.0},
    )
    assert [each.text for each in found.problems] == [
        "These jobs are silent: delay, maintenance.",
        "The query wheel failed 5 s ago: no disk",
        "lake is late: the oldest message that it has yet to read was stored 5 min ago.",
        "The query spare has waited 90 s for a broker that answers.",
        "The last run of verify failed: a file is gone",
    ]
    assert all(each.todo for each in found.problems)
    assert [(each.name, each.lag) for each in found.queries] == [("wheel", 0), ("lake", 9), ("spare", None)]


def test_jobs_that_are_well_have_no_problems() -> None:
    heard = {"lake": {"alive": True, "lag": 5}, "maintenance": {"alive": True}}
    found = shown(told(query("lake"), last=RUN), heard, {"lake": 2.0})
    assert (list(found.problems), found.none) == ([], False)
    verify = shown(told(last=RUN | {"result": "differs"}))
    assert "found differences" in verify.problems[0].text


def test_of_each_job_the_last_run_is_shown_however_often_others_run() -> None:
    answer = told()
    often = [RUN | {"job": "optimize", "run_id": str(number)} for number in range(HISTORY_SHOWN_MAX + 5)]
    rare = [RUN | {"job": job, "run_id": job} for job in ("verify", "erase", "owed-erasures", "erase", "verify")]
    answer["maintenance"]["runs"] = [*often, *rare]
    found = shown(answer)
    assert list(found.runs) == [*often[:HISTORY_SHOWN_MAX], *rare[:3]]
    assert list(found.erasures) == [rare[1], rare[3]]


def test_where_jobs_say_nothing_the_broker_does() -> None:
    found = shown(None, {"lake": {"alive": True, "lag": 2}, "delay": {"alive": False, "lag": 0}})
    assert [(each.name, each.state) for each in found.queries] == [("delay", "silent"), ("lake", "alive")]
    assert (found.maintenance, found.none) == (None, False)
    assert shown(None).none


def test_a_replay_is_done_runs_or_has_stopped_half_way() -> None:
    said = {"topic": "again", "group": None, "found": 10, "sent": 0, "finished": False}
    replays = [
        said | {"sink": "a", "written_ms": NOW_MS - 1_000},
        said | {"sink": "b", "written_ms": NOW_MS - 2 * STALLED_MS},
        said | {"sink": "c", "written_ms": NOW_MS - 2 * STALLED_MS},
        said | {"sink": "d", "written_ms": 1, "finished": True, "sent": 10},
    ]
    sinks = {"b": {"messages": 4, "changed_ms": NOW_MS - 1_000}, "c": {"messages": 5, "changed_ms": 1}}
    found = shown(told(replays=replays), sinks=sinks)
    assert [(each.state, each.sent) for each in found.replays] == [
        ("running", 0),
        ("running", 4),
        ("stopped", 5),
        ("done", 10),
    ]
    assert [each.text for each in found.problems] == ["A replay to again stopped half-way: 10 messages were found."]
    assert [each.sent for each in shown(told(replays=replays)).replays] == [None, None, None, 10]


def test_where_no_jobs_run_the_page_says_what_to_start(visitor: Visitor, http: httpx.Client) -> None:
    page = visitor.get("/jobs")
    assert f"lakemq jobs --broker {http.base_url}".rstrip("/") in page
    assert "lakemq replay --where" in page
    assert "Maintenance of the lake" not in page
    with visitor.http.stream("GET", "/live/jobs") as response:
        kind, now = next(events(response))
    assert kind == "page"
    assert "No jobs run yet" in now
    for path in ("/jobs/stats/run", "/jobs/stats/cancel"):
        assert "The broker doesn&#39;t answer" in visitor.get(path, 503)


def test_who_may_not_see_metrics_sees_which_jobs_there_are(guarded: Guarded, name: str) -> None:
    guarded.http.put("/v1/jobs", json={"jobs": [{"name": "lake"}]}).raise_for_status()
    visitor = Visitor(guarded.console.url)
    visitor.sign_in(token_of(guarded.http, name, ("Topic:a", ["Pub"])))
    page = visitor.get("/jobs")
    visitor.close()
    assert "lake" in page
    assert "Run now…" not in page
