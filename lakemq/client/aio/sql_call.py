"""One statement of SQL, as a user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

from lakemq.client.manage.statements import run_statement
from lakemq.client.results import SqlRows
from lakemq.client.routes import Cluster


class SqlOptions(TypedDict, total=False):
    """Options of `sql`."""

    brokers: str | Sequence[str] | None
    """Their addresses. Without them and `nameservers` those of the environment's LAKEMQ_NAMESERVERS, else of its
    LAKEMQ_BROKER, else this machine's port 8080."""
    nameservers: str | Sequence[str] | None
    """Addresses of name servers, which know the brokers, in the place of `brokers`."""
    token: str | None
    """By which the client says who it is. Without one it is that of the environment, LAKEMQ_TOKEN or the file that
    LAKEMQ_TOKEN_FILE names, else that of this machine's administrator, where it is found."""
    rows_max: int | None
    """So many rows at most. Default: as the jobs are set (`sql_http.rows`)."""
    timeout_ms: int | None
    """Then the statement is cancelled. Default: as the jobs are set (`sql_http.timeout_ms`)."""


async def sql(statement: str, **options: Unpack[SqlOptions]) -> SqlRows:
    """The rows of one statement that reads, as far as this user may see them, from the jobs that say to a broker where
    they answer. It takes neither Spark nor a lake here.

    Raises `InvalidSql`, `Forbidden`, `OverQuota`, `RequestTimeout`; `Unreachable` where no jobs answer.
    """
    cluster = Cluster(options.get("brokers"), None, options.get("nameservers"), options.get("token"))
    try:
        return await run_statement(cluster, statement, options.get("rows_max"), options.get("timeout_ms"))
    finally:
        await cluster.close()
