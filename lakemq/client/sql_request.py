"""What a client asks of the jobs that answer SQL, and what they answer."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (pyarrow carries no types)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from lakemq.client.errors import Unreachable
from lakemq.client.results import SqlRows
from lakemq.contract.sql_routes import WITHHELD
from lakemq.model.errors import InvalidRequest
from lakemq.model.names import leader_address, may_follow
from lakemq.model.network import leads_home
from lakemq.wire.own_machine import is_own

TIMEOUT_MS = 300_000
"""The longest time of a statement, by the default settings of jobs."""
TRUNCATED = "Lakemq-Truncated"
WITHHELD_CHARACTERS_MAX = 300


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


def check_sql_address(url: str, said: Mapping[str, Any]) -> str:
    """Where the broker at `url` says that jobs answer. Raises `Unreachable` where it says nothing, or where a client
    goes to none: not without TLS where the broker has it, and not from a broker on another machine to whatever listens
    on this one. May ask the name service."""
    address = leader_address(said.get("sql"))
    if not address or not may_follow(url, address):
        withheld = said.get(WITHHELD)
        why = f": {withheld[:WITHHELD_CHARACTERS_MAX]}" if isinstance(withheld, str) else ""
        raise Unreachable(f"no jobs that answer SQL are known to {url}{why}", sent=False)
    if leads_home(address) and not is_own(url):
        what = f"{url} names {address} for SQL, which leads to this machine and not to the broker's"
        raise Unreachable(f"{what}: set sql_http.advertise for the jobs", sent=False)
    return address


def read_sql_rows(body: bytes, headers: Mapping[str, str]) -> SqlRows:
    """The rows of an answer."""
    import pyarrow as pa  # here: who asks no SQL need not load it

    with pa.ipc.open_stream(body) as reader:
        return SqlRows(reader.read_all(), headers.get(TRUNCATED) == "true")
