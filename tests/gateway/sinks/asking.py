"""What tests of sinks have in common: parts over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import pyarrow as pa

from tests.gateway.http_client import ARROW, write_arrow


def put_part(
    http: httpx.Client, sink: str, batch: int, part: str, columns: dict[str, Any] | Sequence[str], **query: str
) -> httpx.Response:
    """Stage a part; a list is just bodies. `topic` is in the query, and `group` can be."""
    if not isinstance(columns, dict):
        columns = {"body": pa.array([body.encode() for body in columns], pa.binary())}
    path = f"/v1/sinks/{sink}/batches/{batch}/parts/{part}"
    return http.put(path, content=write_arrow(columns), headers={"Content-Type": ARROW}, params=query)


def commit(http: httpx.Client, sink: str, batch: int, *parts: str, **fields: Any) -> httpx.Response:
    """Commit a batch of these parts."""
    return http.post(f"/v1/sinks/{sink}/batches/{batch}/commit", json={"parts": list(parts), **fields})


def sink_of(http: httpx.Client, sink: str) -> dict[str, Any]:
    """What the gateway says of a sink."""
    response = http.get(f"/v1/sinks/{sink}")
    assert response.status_code == 200, response.text
    return response.json()
