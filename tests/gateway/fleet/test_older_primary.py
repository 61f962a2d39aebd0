"""A follower of a primary that is older than it: that refuses what it doesn't know of a follower, and is followed."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import httpx

from lakemq.gateway.fleet.primary import NEWER, Own
from lakemq.testing import start_gateway
from tests.gateway.fleet.following import broker_of, start_follower
from tests.gateway.fleet.test_in_sync import PATIENT, in_sync
from tests.gateway.http_client import connect, produce
from tests.gateway.routing.asking import wait_until
from tests.ports import HOST

KNOWN = {"replica", "incarnation", "durable", "erased", "seen_epoch"}
"""What every primary knows that a follower of today may have."""
FRAMES = "/v1/log/frames"
SINCE_THEN = set(NEWER)


@contextmanager
def as_an_older_one(primary: str) -> Generator[tuple[str, list[set[str]]]]:
    """The address at which it knows none of these fields, and which fields each request for frames came with."""
    asked: list[set[str]] = []

    class Older(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            fields = set(parse_qs(urlsplit(self.path).query, keep_blank_values=True))
            if self.path.startswith(FRAMES):
                asked.append(fields)
                if fields & SINCE_THEN:
                    self._answer(
                        httpx.Response(400, json={"code": "invalid_request", "detail": "unknown", "status": 400})
                    )
                    return
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            self._answer(httpx.get(primary + self.path, headers=headers, timeout=60))

        def _answer(self, answer: httpx.Response) -> None:
            self.send_response_only(answer.status_code)
            for name, value in answer.headers.items():
                if name not in {"content-length", "transfer-encoding", "connection"}:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer((HOST, 0), Older) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


def test_it_is_followed_without_what_it_refuses_and_left_so(tmp_path: Path) -> None:
    with (
        start_gateway(tmp_path / "primary", **PATIENT) as primary,
        connect(primary) as leads,
        as_an_older_one(primary.url) as (address, asked),
    ):
        with start_follower(tmp_path / "follower", address) as follower, connect(follower) as follows:
            wait_until(lambda: in_sync(leads) == [0, 1])
            (placed,) = produce(leads, "t", "one")
            assert broker_of(follows)["flushed_position"] > placed["position"]
        wait_until(lambda: in_sync(leads) == [0])
        refused = [fields & SINCE_THEN for fields in asked].count(SINCE_THEN)
        assert 1 <= refused <= len(asked) / 2, "not each time anew"


def test_whatever_else_a_follower_says_may_be_refused() -> None:
    assert set(Own._fields) - set(NEWER) == KNOWN
