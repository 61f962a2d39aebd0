"""The route of the SQL server, which stands beside the jobs, how it learns from a gateway who asks it, and what it
tells of that one: what he takes counts in his quota there, what he is refused is audited there."""

from __future__ import annotations

from lakemq.contract.right import guarded, known
from lakemq.contract.route import Answered, Reads, Route
from lakemq.model.access import Action

STATEMENT = Route(
    "POST",
    "/v1/sql",
    "sql",
    "The rows of one statement that reads",
    reads=Reads.JSON,
    of_replica=True,
    differs=Answered.AT_ONCE,
    rights=known("`Sql` on `Lake:{table}` of each table, on `Lake:*` without one; of rows as docs/sql.md says"),
)
"""Of the SQL server alone: no gateway has it."""

OWN_ACCESS = Route("GET", "/v1/access", "access", "Who asks, and all policies of that one", rights=known())
USAGE = Route(
    "POST",
    "/v1/users/{user}/usage",
    "access",
    "For jobs: a user asks them, or is answered by them, which counts in its quota",
    reads=Reads.JSON,
    differs=Answered.AT_ONCE,
    rights=guarded(Action.COMPACT),
)
REFUSALS = Route(
    "POST",
    "/v1/audit/refusals",
    "access",
    "For jobs: what they refused to users, which is audited",
    reads=Reads.JSON,
    differs=Answered.AT_ONCE,
    rights=guarded(Action.COMPACT),
)
CHANGES = Route(
    "POST",
    "/v1/audit/changes",
    "access",
    "For jobs: what a user is about to have them do, which is audited before they do it",
    reads=Reads.JSON,
    rights=guarded(Action.COMPACT),
)

REFUSALS_MAX = 100
"""So many at most in one request."""
WHAT_CHARACTERS_MAX = 400
WHY_CHARACTERS_MAX = 500

OF_GATEWAYS: tuple[Route, ...] = (OWN_ACCESS, USAGE, REFUSALS, CHANGES)
