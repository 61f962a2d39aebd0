"""A name server as small as the contract allows, for the clients' tests: a real HTTP server, and what it was told."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import orjson


class NameServer:
    """Brokers register over HTTP, or a test does it for them. `asked`: topics of requests for routes, with empty text
    for all of them; `held`: how many wait now."""

    def __init__(self, port: int = 0) -> None:
        self._brokers: dict[str, dict[str, dict[str, Any]]] = {}
        self._changed = threading.Condition()
        self._stopped = False
        self.asked: list[str] = []
        self.held: list[str] = []
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.of = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def put(
        self,
        broker: str,
        address: str,
        *,
        role: str = "primary",
        replica: str = "0",
        epoch: int = 0,
        permission: str = "rw",
        topics: Mapping[str, tuple[int, str]],
    ) -> None:
        """A replica says so of itself; `topics`: how many queues each has, and its permission."""
        entries = [{"topic": name, "queues": each[0], "permission": each[1]} for name, each in topics.items()]
        body = {"cluster": "default", "address": address, "role": role, "epoch": epoch, "permission": permission}
        self.take(broker, replica, {**body, "log_id": "", "topics": entries})

    def take(self, broker: str, replica: str, body: dict[str, Any] | None) -> None:
        """A heartbeat; None: a goodbye."""
        with self._changed:
            replicas = self._brokers.setdefault(broker, {})
            replicas.pop(replica, None)
            if body is not None:
                replicas[replica] = body
            if not replicas:
                del self._brokers[broker]
            self._changed.notify_all()

    def routes(self, topic: str, version: str, wait_ms: int) -> dict[str, Any]:
        """As the contract says."""
        self.asked.append(topic)
        with self._changed:
            self.held.append(topic)
            self._changed.wait_for(lambda: self._stopped or self._routes(topic)["version"] != version, wait_ms / 1000)
            self.held.remove(topic)
            return self._routes(topic)

    def _routes(self, topic: str) -> dict[str, Any]:
        topics = [
            {**entry, "broker": broker, "permission": _both(entry["permission"], body["permission"])}
            for broker, replicas in sorted(self._brokers.items())
            for body in sorted(replicas.values(), key=lambda each: each["role"] != "primary")[:1]
            for entry in body["topics"]
            if topic in ("", entry["topic"])
        ]
        names = {entry["broker"] for entry in topics} if topic else set(self._brokers)
        content = {"brokers": [self._broker(name) for name in sorted(names)], "topics": topics}
        return {"version": hashlib.sha256(orjson.dumps(content)).hexdigest(), **content}

    def cluster(self) -> dict[str, Any]:
        """As the contract says."""
        with self._changed:
            return {"brokers": [self._broker(name) for name in sorted(self._brokers)]}

    def _broker(self, name: str) -> dict[str, Any]:
        replicas = [
            {"replica": replica, **{key: body[key] for key in ("address", "role", "epoch", "permission")}}
            for replica, body in sorted(self._brokers[name].items())
        ]
        return {"broker": name, "cluster": "default", "replicas": replicas}

    def stop(self) -> None:
        """Answer who waits, and be gone. Twice is fine."""
        if self._stopped:
            return
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._server.shutdown()
        self._thread.join(60)
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def _both(one: str, other: str) -> str:
    return "".join(each for each in "rw" if each in one and each in other)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    of: NameServer


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.0"  # a connection ends with its answer, so that a stopped server answers nobody

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/v1/cluster":
            self._answer(self.server.of.cluster())
        else:
            wait_ms = int(query.get("wait_ms", "0"))
            self._answer(self.server.of.routes(query.get("topic", ""), query.get("version", ""), wait_ms))

    def do_PUT(self) -> None:
        body = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._take(body)
        self._answer({"expires_ms": 120_000})

    def do_DELETE(self) -> None:
        self._take(None)
        self._answer({})

    def _take(self, body: dict[str, Any] | None) -> None:
        _, _, _, broker, _, replica = self.path.split("/")
        self.server.of.take(broker, replica, body)

    def _answer(self, content: object) -> None:
        body = orjson.dumps(content)
        try:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """A test's output is its own."""
