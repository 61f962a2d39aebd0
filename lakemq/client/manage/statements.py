"""SQL, by the jobs that say to a broker where they answer it."""
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# (pyarrow carries no types)

from __future__ import annotations

from lakemq.client.durations import Seconds, to_seconds
from lakemq.client.errors import Unreachable
from lakemq.client.frame import Frame
from lakemq.client.manage.ask import Brokers
from lakemq.client.sql_request import check_sql_address, read_sql_rows, sql_request
from lakemq.client.transport import ANSWER_TIMEOUT_S
from lakemq.contract import routes
from lakemq.contract.sql_routes import STATEMENT


async def run_statement(brokers: Brokers, statement: str, rows_max: int | None, timeout_s: Seconds | None) -> Frame:
    """The rows of one statement that reads. Raises `InvalidSql`, `Forbidden`, `Unreachable` where no jobs answer."""
    bound_ms = None if timeout_s is None else int(to_seconds(timeout_s, "timeout_s") * 1000)
    asked = sql_request(statement, rows_max, bound_ms)
    jobs = brokers.cluster.connect(await _find_jobs(brokers))
    answer = await jobs.request(STATEMENT.at(), body=asked.content, timeout_s=asked.wait_s + ANSWER_TIMEOUT_S)
    rows = read_sql_rows(answer.body, answer.headers)
    return Frame(rows.table, rows.truncated)


async def _find_jobs(brokers: Brokers) -> str:
    """Where they answer, as the first broker says that knows any."""
    problem: Unreachable | None = None
    for name in await brokers.names():
        try:
            said = await brokers.cluster.primary(name).get(routes.BROKER.at())
            return check_sql_address((await brokers.cluster.find(name)).address, said.get("sql"))
        except Unreachable as error:
            problem = problem or error
    raise problem or Unreachable("no broker is known", sent=False)
