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
    "Run one read-only statement",
    reads=Reads.JSON,
    of_replica=True,
    differs=Answered.AT_ONCE,
    rights=known("`Sql` on `Lake:{table}` for each table, or on `Lake:*`; rows as docs/sql.md says"),
)
"""Of the SQL server alone: no gateway has it."""
CATALOG = Route(
    "GET",
    "/v1/sql",
    "sql",
    "The tables that one may ask for with their columns, and the bounds of a statement",
    of_replica=True,
    differs=Answered.AT_ONCE,
    rights=known("`Sql` on `Lake:{table}` of each table, or it isn't shown"),
)
"""So too."""

OWN_ACCESS = Route("GET", "/v1/access", "access", "The caller, and its policies", rights=known())
USAGE = Route(
    "POST",
    "/v1/users/{user}/usage",
    "access",
    "For jobs: count a user's SQL requests and results in its quota",
    reads=Reads.JSON,
    differs=Answered.AT_ONCE,
    rights=guarded(Action.COMPACT),
)
REFUSALS = Route(
    "POST",
    "/v1/audit/refusals",
    "access",
    "For jobs: record their refusals in the audit",
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

ASKED_BY = "Jobs-Authorization"
"""A header of `OWN_ACCESS`: the jobs' own `Authorization`, as the connection on which they ask for a user is theirs.
A broker of an earlier version passes over it."""

WITHHELD = "sql_withheld"
"""Beside `sql` in what a broker says of itself: why it names no address to who asks, though it has one."""

REFUSALS_MAX = 100
"""So many at most in one request."""
WHAT_CHARACTERS_MAX = 400
WHY_CHARACTERS_MAX = 500

OF_GATEWAYS: tuple[Route, ...] = (OWN_ACCESS, USAGE, REFUSALS, CHANGES)
