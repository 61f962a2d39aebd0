"""A peer on the network that asks for a token: as a gateway does, and as what claims to be one may."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from lakemq.model.token import make_token

TOKEN = make_token(b"12345678" + bytes(32)).text
OTHER = make_token(b"87654321" + b"x" * 32).text
SECRETS = tuple(each.rpartition("_")[2] for each in (TOKEN, OTHER))


class Guarded:
    """`valid`: the token that it takes; `token_file`: what it names; `leader`: where it sends whoever has that;
    `heard`: what each request had."""

    def __init__(self) -> None:
        self.valid = TOKEN
        self.token_file: object = None
        self.leader = ""
        self.heard: list[str | None] = []
        self.bodies: list[bytes] = []
        self.ports: list[int] = []
        """Of the client, by which connections differ."""
        self.url = ""

    def answer(self, authorization: str | None) -> tuple[int, dict[str, object]]:
        self.heard.append(authorization)
        if authorization == f"Bearer {self.valid}":
            if self.leader:
                return 421, {"status": 421, "code": "not_leader", "detail": "I follow", "leader": self.leader}
            return 200, {"name": "b", "brokers": [], "broker": "b", "topics": []}
        problem: dict[str, object] = {"status": 401, "code": "unauthenticated", "detail": "who asks?"}
        return 401, problem | ({} if self.token_file is None else {"token_file": self.token_file})


@contextmanager
def guarded(port: int = 0) -> Generator[Guarded]:
    peer = Guarded()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            peer.ports.append(self.client_address[1])
            peer.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            status, content = peer.answer(self.headers.get("Authorization"))
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            del request, client_address  # a client that is closed waits for no answer

    with Server(("127.0.0.1", port), Handler) as server:
        peer.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield peer
        finally:
            server.shutdown()
            thread.join(60)


def write_token(folder: Path, token: str = TOKEN, mode: int = 0o600, name: str = "admin.token") -> str:
    """The file as a gateway makes it, unless another is asked for; its path."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(token + "\n")
    file.chmod(mode)
    return str(file)
