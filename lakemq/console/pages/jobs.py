"""The jobs: their queries, maintenance, erasures and replays. They are asked where they answer SQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.responses import Response

from lakemq.console.events import Event, EventStream
from lakemq.console.jobs import jobs_of
from lakemq.console.looks import Look
from lakemq.console.rendering import segment
from lakemq.console.visit import Visit
from lakemq.contract import jobs_routes, routes
from lakemq.model.access import Action, Kind, Resource
from lakemq.model.errors import InvalidRequest, LakemqError

FOLLOWED_S = 3.0
_CLUSTER = Resource(Kind.CLUSTER)
_NOT_ALLOWED = "Queries, runs and replays need List on Cluster:*. Ask an administrator for that policy."


async def show(visit: Visit) -> Response:
    """The page."""
    await visit.who()
    return visit.page("jobs.html", **await values_of(visit))


async def values_of(visit: Visit) -> dict[str, Any]:
    """What it says, as it is now."""
    look = next(each.now for each in await visit.watches.pairs() if each.now.address == visit.broker.address)
    who = await visit.who()
    told, why = await _told(visit, look)
    sinks = await _sinks(visit) if told and any(not each["finished"] for each in told["replays"]) else None
    may_run = who.user is not None and who.may(Action.COMPACT, _CLUSTER)
    return {"jobs": jobs_of(look, told, sinks, why), "down": look.problem, "may_run": may_run, "name": look.name}


async def _told(visit: Visit, look: Look) -> tuple[dict[str, Any] | None, str]:
    """What the jobs say; None: nothing, and why not."""
    if look.problem:
        return None, ""
    if not (await visit.who()).may_see_cluster:
        return None, _NOT_ALLOWED
    try:
        return await visit.broker.of_jobs(jobs_routes.STATE.at()), ""
    except LakemqError as error:
        if error.code == "forbidden":
            return None, _NOT_ALLOWED
        if error.code == "unreachable":
            return None, "The jobs don't answer now, so this page only shows what the broker knows about them."
        return None, f"The jobs gave no details: {error.detail}"


async def _sinks(visit: Visit) -> dict[str, Mapping[str, Any]] | None:
    try:
        return {each["sink"]: each for each in (await visit.broker.get(routes.SINKS.at()))["sinks"]}
    except LakemqError:
        return None


async def follow(visit: Visit) -> Response:
    """The page, again and again."""
    visit.services.live.check(visit.taker)
    await visit.who()
    return EventStream(_states(visit), visit.services.live, visit.taker)


async def _states(visit: Visit) -> AsyncIterator[Event]:
    while True:
        yield Event("page", visit.render("jobs_now.html", **await values_of(visit)))
        await asyncio.sleep(FOLLOWED_S)


async def ask_run(visit: Visit) -> Response:
    """Whether a run is meant."""
    job = await _job(visit)
    return visit.page(
        "confirm.html",
        crumbs=[("/jobs", "Jobs")],
        title=f"Run {job['job']} now?",
        text=f"It will {job['about']}. Messages keep flowing; the run starts when no other run is in progress.",
        warning="",
        action=f"/jobs/{segment(job['job'])}/run",
        fields={},
        button="Run it now",
        safe=True,
        back="/jobs",
    )


async def ask_cancel(visit: Visit) -> Response:
    """Whether its end is meant."""
    job = await _job(visit)
    return visit.page(
        "confirm.html",
        crumbs=[("/jobs", "Jobs")],
        title=f"Cancel {job['job']}?",
        text="The run ends after its current step, usually within seconds, and queued requests are dropped."
        " Its work so far is kept, and you can run it again.",
        warning="Messages may be erased from the log but not yet from the tables. Run the same command again to finish."
        if job["job"] == "erase"
        else "",
        action=f"/jobs/{segment(job['job'])}/cancel",
        fields={},
        button="Cancel it",
        back="/jobs",
    )


async def _job(visit: Visit) -> dict[str, Any]:
    name = visit.path("job")
    told = await visit.broker.of_jobs(jobs_routes.STATE.at())
    found = next((each for each in told["maintenance"]["jobs"] if each["job"] == name), None)
    if found is None:
        raise InvalidRequest(f"there is no job {name[:100]!r}")
    return found


async def run(visit: Visit) -> Response:
    """Have it run."""
    await visit.broker.of_jobs(jobs_routes.RUN.at(visit.path("job")))
    return visit.go("/jobs", "run-asked")


async def cancel(visit: Visit) -> Response:
    """Have its run end."""
    await visit.broker.of_jobs(jobs_routes.CANCEL.at(visit.path("job")))
    return visit.go("/jobs", "run-cancelled")


ROUTES = (
    ("GET", "/jobs", show),
    ("GET", "/live/jobs", follow),
    ("GET", "/jobs/{job}/run", ask_run),
    ("POST", "/jobs/{job}/run", run),
    ("GET", "/jobs/{job}/cancel", ask_cancel),
    ("POST", "/jobs/{job}/cancel", cancel),
)
