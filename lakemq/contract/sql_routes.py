"""The route of the SQL server, which stands beside the jobs, and how it learns from a gateway who asks it."""

from __future__ import annotations

from lakemq.contract.right import known
from lakemq.contract.route import Answered, Reads, Route

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
