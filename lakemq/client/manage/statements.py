"""SQL, by the jobs that say to a broker where they answer it."""

from __future__ import annotations

import asyncio

from lakemq.client.errors import Unreachable
from lakemq.client.results import SqlRows
from lakemq.client.routes import Cluster
from lakemq.client.sql_request import check_sql_address, read_sql_rows, sql_request
from lakemq.client.transport import ANSWER_TIMEOUT_S
from lakemq.contract import routes
from lakemq.contract.sql_routes import STATEMENT
from lakemq.model.errors import LakemqError


async def run_statement(cluster: Cluster, statement: str, rows_max: int | None, timeout_ms: int | None) -> SqlRows:
    """The rows of one statement that reads. Raises `InvalidSql`, `Forbidden`, `OverQuota`, `RequestTimeout`;
    `Unreachable` where no jobs answer."""
    asked = sql_request(statement, rows_max, timeout_ms)
    jobs = cluster.connect(await _find_jobs(cluster))
    answer = await jobs.request(STATEMENT.at(), body=asked.content, timeout_s=asked.wait_s + ANSWER_TIMEOUT_S)
    return read_sql_rows(answer.body, answer.headers)


async def _find_jobs(cluster: Cluster) -> str:
    """Where they answer, as the first broker says that knows any."""
    problem: LakemqError | None = None
    for broker in await cluster.brokers():
        try:
            said = await cluster.primary(broker.name).get(routes.BROKER.at())
            address = (await cluster.find(broker.name)).address
            return await asyncio.to_thread(check_sql_address, address, said)
        except LakemqError as error:
            problem = problem or error
    raise problem or Unreachable("no broker is known", sent=False)
