"""As much of S3 as `Bucket` asks for, in memory: a real server of HTTP in this process."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

BUCKET = "bucket"
DATE = "Tue, 24 Nov 2026 00:00:00 GMT"
STAMP = "2026-11-24T00:00:00.000Z"


class S3StandIn:
    """One bucket. `is_strict`: of those who make the same object one does. Closed with `close`."""

    def __init__(self, is_strict: bool = True) -> None:
        self.objects: dict[str, bytes] = {}
        self.turn = threading.Lock()
        self.is_strict = is_strict
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"bucket": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that was cut, as tests do."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    bucket: S3StandIn

    def do_PUT(self) -> None:
        data, key = self.rfile.read(int(self.headers["Content-Length"] or 0)), self._key()
        with self.bucket.turn:
            if self.bucket.is_strict and self.headers["If-None-Match"] == "*" and key in self.bucket.objects:
                return self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            self.bucket.objects[key] = data
        return self._answer(200)

    def do_GET(self) -> None:
        with self.bucket.turn:
            objects = dict(self.bucket.objects)
        if (key := self._key()) == "":
            prefix = parse_qs(urlsplit(self.path).query).get("prefix", [""])[0]
            self._answer(200, _listing({name: data for name, data in objects.items() if name.startswith(prefix)}))
        elif key in objects:
            self._answer(200, objects[key])
        else:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def do_POST(self) -> None:
        """Delete some objects."""
        named = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
        keys = re.findall(r"<Key>(.*?)</Key>", named)
        with self.bucket.turn:
            for key in keys:
                self.bucket.objects.pop(unescape(key), None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").removeprefix("/")

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", DATE)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def _listing(objects: dict[str, bytes]) -> bytes:
    each = "".join(
        f"<Contents><Key>{escape(name)}</Key><LastModified>{STAMP}</LastModified><ETag>1</ETag>"
        f"<Size>{len(data)}</Size></Contents>"
        for name, data in sorted(objects.items())
    )
    return f"<ListBucketResult><KeyCount>{len(objects)}</KeyCount>{each}</ListBucketResult>".encode()
