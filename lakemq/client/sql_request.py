"""What a client asks of the jobs that answer SQL, and what they answer."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (pyarrow carries no types)

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import orjson

from lakemq.client.errors import Unreachable
from lakemq.client.results import SqlRows
from lakemq.model.errors import InvalidRequest
from lakemq.model.names import may_follow

TIMEOUT_MS = 300_000
"""The longest time of a statement, by the default settings of jobs."""
TRUNCATED = "Lakemq-Truncated"


class SqlRequest(NamedTuple):
    """`wait_s`: so long the answer may take beside what each may."""

    content: bytes
    wait_s: float


def sql_request(statement: str, rows_max: int | None, timeout_ms: int | None) -> SqlRequest:
    """A statement, whose bounds are those of the jobs where they aren't given. Raises `InvalidRequest`."""
    said = {"statement": statement, "format": "arrow", "rows_max": rows_max, "timeout_ms": timeout_ms}
    try:
        content = orjson.dumps({name: value for name, value in said.items() if value is not None})
    except TypeError as error:
        raise InvalidRequest(f"this can't be sent: {error}") from None
    return SqlRequest(content, (TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000)


def check_sql_address(url: str, address: object) -> str:
    """Where the broker at `url` says that jobs answer. Raises `Unreachable` where it says nothing, or where a client
    goes to none."""
    if not isinstance(address, str) or not may_follow(url, address):
        raise Unreachable(f"no jobs that answer SQL are known to {url}", sent=False)
    return address


def read_sql_rows(body: bytes, headers: Mapping[str, str]) -> SqlRows:
    """The rows of an answer."""
    import pyarrow as pa  # here: who asks no SQL need not load it

    with pa.ipc.open_stream(body) as reader:
        return SqlRows(reader.read_all(), headers.get(TRUNCATED) == "true")
