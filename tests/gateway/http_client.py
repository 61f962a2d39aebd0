"""What the gateway's tests have in common: requests over httpx, and over bare sockets."""

from __future__ import annotations

import json
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pyarrow as pa

from lakemq.testing import GatewayProcess
from tests.as_administrator import AsAdministrator

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
PROBLEM = "application/problem+json"
WAIT_S = 60.0
TLS = ssl.create_default_context()
"""Unused, but to make one takes longer than most tests."""


def connect(gateway: GatewayProcess) -> httpx.Client:
    """A client of the gateway that takes no proxy from the environment."""
    return httpx.Client(base_url=gateway.url, timeout=WAIT_S, trust_env=False, verify=TLS, auth=AsAdministrator())


def produce(http: httpx.Client, topic: str, *messages: dict[str, Any] | str, **query: str) -> list[dict[str, Any]]:
    """Produce messages as JSON, a string is just a body; returns what the gateway answered of each."""
    content = [{"body": message} if isinstance(message, str) else message for message in messages]
    response = http.post(f"/v1/topics/{topic}/messages", json={"messages": content}, params=query)
    assert response.status_code == 200, response.text
    return response.json()["messages"]


def tear_tail(data: Path) -> None:
    """Cut the end off the last frame in the only segment of a killed gateway, as a crash of the machine may."""
    (segment,) = (data / "commitlog").glob("*.log")
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size - 8)


def produce_arrow(http: httpx.Client, topic: str, columns: dict[str, Any]) -> dict[str, Any]:
    """Produce rows as Arrow; returns the answer."""
    headers = {"Content-Type": ARROW}
    response = http.post(f"/v1/topics/{topic}/messages", content=write_arrow(columns), headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


def pull(http: httpx.Client, topic: str, queue_id: int = 0, offset: int = 0, **query: Any) -> dict[str, Any]:
    """Pull as JSON; returns the answer."""
    response = http.get(f"/v1/topics/{topic}/queues/{queue_id}/messages", params={"offset": offset, **query})
    assert response.status_code == 200, response.text
    return response.json()


def pull_all(http: httpx.Client, topic: str) -> list[dict[str, Any]]:
    """All messages of all queues of a topic, by position; none while there is no such topic."""
    found = http.get(f"/v1/topics/{topic}")
    queues = [] if found.status_code == 404 else found.json()["queues"]
    messages: list[dict[str, Any]] = []
    for queue in queues:
        offset = queue["min_offset"]
        while (answer := pull(http, topic, queue["queue_id"], offset, max=10_000))["messages"]:
            messages += answer["messages"]
            offset = answer["next_offset"]
    return sorted(messages, key=lambda message: message["position"])


def put_topic(http: httpx.Client, topic: str, queues: int = 1, permission: str = "rw") -> None:
    """Make a topic, by default with one queue."""
    response = http.put(f"/v1/topics/{topic}", json={"queues": queues, "permission": permission})
    assert response.status_code in (200, 201), response.text


def is_problem(response: httpx.Response, status: int, code: str) -> bool:
    """Assert that the answer is this problem, in the form of RFC 9457."""
    check_problem(response.status_code, response.headers, response.content)
    assert (response.status_code, response.json()["code"]) == (status, code), response.text
    return True


def check_problem(status: int, headers: Any, body: bytes) -> None:
    """Assert that the answer is a problem that names what it is."""
    assert headers["content-type"] == PROBLEM
    problem = json.loads(body)
    assert {"type", "title", "status", "detail", "code"} <= set(problem)
    assert problem["status"] == status
    assert all(isinstance(problem[name], str) and problem[name] for name in ("type", "title", "detail", "code"))


def write_arrow(columns: dict[str, Any] | pa.Table, rows: int | None = None) -> bytes:
    """An Arrow stream of the columns, `rows` a batch."""
    table = pa.table(columns) if isinstance(columns, dict) else columns
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue().to_pybytes()


def read_arrow(content: bytes) -> pa.Table:
    """The table in an Arrow stream."""
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()


class Answer(NamedTuple):
    """An HTTP answer as it came over a socket."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """A connection on which anything can be sent."""

    def __init__(self, gateway: GatewayProcess, address: str = "127.0.0.1") -> None:
        """`address`: where the client is, which is another one by each."""
        host, _, port = gateway.url.removeprefix("http://").rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=WAIT_S, source_address=(address, 0))
        self._file = self.socket.makefile("rb")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def half_close(self) -> None:
        """Say that nothing more will come, and go on reading."""
        with suppress(OSError):  # it isn't connected any more
            self.socket.shutdown(socket.SHUT_WR)

    def answer(self) -> Answer | None:
        """The next answer; None when the gateway has closed the connection instead."""
        try:
            return self._answer()
        except ConnectionError:
            return None

    def _answer(self) -> Answer | None:
        line = self._file.readline()
        if not line:
            return None
        status = int(line.split()[1])
        headers: dict[str, str] = {}
        while (line := self._file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        if status < 200:
            return Answer(status, headers, b"")
        return Answer(status, headers, self._body(headers))

    def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") != "chunked":
            return self._file.read(int(headers.get("content-length", "0")))
        pieces: list[bytes] = []
        while size := int(self._file.readline(), 16):
            pieces.append(self._file.read(size))
            self._file.readline()
        self._file.readline()
        return b"".join(pieces)


def waiting(http: httpx.Client) -> int:
    """How many requests the gateway holds."""
    metrics = http.get("/metrics").text
    (line,) = [line for line in metrics.splitlines() if line.startswith("lakemq_waiting_requests ")]
    return int(float(line.split()[1]))


def ask_and_go(gateway: GatewayProcess, http: httpx.Client, method: str, path: str, body: bytes = b"") -> None:
    """Ask for what the gateway holds, be gone, and return when the gateway knows: it has to hold nothing else."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n\r\n"
    with Connection(gateway) as connection:
        connection.send(head.encode() + body)
        while waiting(http) == 0:
            pass
    while waiting(http) > 0:
        pass


def message_id_at(http: httpx.Client, position: int) -> str:
    """The id of the message at that position, if there is one."""
    broker = http.get("/v1/broker").json()
    return f"{broker['name']}.{broker['log_id'].replace('-', '')[:12]}-{broker['epoch']}.{position}"
