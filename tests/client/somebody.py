"""A program that is no gateway: it writes down what it is sent, and gives everybody the same answer."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType, TracebackType
from typing import Any, Self

from tests.certificates import Pair


class Somebody:
    """Listens on loopback; with a `pair` by TLS. `heard`: method, path and token of each request."""

    def __init__(
        self,
        status: int = 503,
        headers: Mapping[str, str] = MappingProxyType({}),
        body: bytes = b"",
        pair: Pair | None = None,
    ) -> None:
        self.heard: list[tuple[str, str, str | None]] = []
        heard = self.heard

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65_537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                heard.append((self.command, self.path, self.headers.get("Authorization")))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if pair is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pair.cert, pair.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'http' if pair is None else 'https'}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
