"""Routes of the jobs themselves, at the address where they answer SQL: how they are, and maintenance on request. No
gateway has them."""

from __future__ import annotations

from lakemq.contract.right import cluster, guarded
from lakemq.contract.route import Answered, Reads, Route
from lakemq.model.access import Action

STATE = Route(
    "GET",
    "/v1/jobs",
    "jobs",
    "Queries with their last batches and errors, maintenance, and replays, of these jobs",
    of_replica=True,
    differs=Answered.AT_ONCE,
    rights=cluster(Action.LIST, Action.GET),
)
RUN = Route(
    "POST",
    "/v1/maintenance/{job}/runs",
    "jobs",
    "Run a job on the lake now, after those that wait",
    reads=Reads.JSON,
    of_replica=True,
    differs=Answered.AT_ONCE,
    rights=guarded(Action.COMPACT),
    audited=True,
)
CANCEL = Route(
    "DELETE",
    "/v1/maintenance/{job}/runs",
    "jobs",
    "End the run of a job that is under way, and drop those that wait",
    of_replica=True,
    differs=Answered.AT_ONCE,
    rights=guarded(Action.COMPACT),
    audited=True,
)

ALL: tuple[Route, ...] = (STATE, RUN, CANCEL)
