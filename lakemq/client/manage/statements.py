"""SQL, by the jobs that say to a broker where they answer it."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (pyarrow carries no types)

from __future__ import annotations

import orjson

from lakemq.client.durations import Seconds, to_seconds
from lakemq.client.errors import Unreachable
from lakemq.client.frame import Frame
from lakemq.client.manage.ask import Brokers
from lakemq.client.transport import ANSWER_TIMEOUT_S
from lakemq.contract import routes
from lakemq.contract.sql_routes import STATEMENT
from lakemq.model.names import may_follow

TRUNCATED = "Lakemq-Truncated"
TIMEOUT_S = 300.0
"""So long a statement may take at most, by the settings of jobs as they come."""


async def run_statement(brokers: Brokers, statement: str, rows_max: int | None, timeout_s: Seconds | None) -> Frame:
    """The rows of one statement that reads. Raises `InvalidSql`, `Forbidden`, `Unreachable` where no jobs answer."""
    import pyarrow as pa

    cluster = brokers.cluster
    names = await brokers.names()
    for name in names:
        address = (await cluster.primary(name).get(routes.BROKER.at())).get("sql")
        if address and may_follow((await cluster.find(name)).address, address):
            break
    else:
        raise Unreachable(f"no jobs that answer SQL are known to {', '.join(names)}", sent=False)
    bound_s = None if timeout_s is None else to_seconds(timeout_s, "timeout_s")
    timeout_ms = None if bound_s is None else int(bound_s * 1000)
    said = {"statement": statement, "format": "arrow", "rows_max": rows_max, "timeout_ms": timeout_ms}
    content = {key: value for key, value in said.items() if value is not None}
    wait_s = (TIMEOUT_S if bound_s is None else bound_s) + ANSWER_TIMEOUT_S
    answer = await cluster.connect(address).request(STATEMENT.at(), body=orjson.dumps(content), timeout_s=wait_s)
    with pa.ipc.open_stream(answer.body) as reader:
        return Frame(reader.read_all(), answer.headers.get(TRUNCATED) == "true")
