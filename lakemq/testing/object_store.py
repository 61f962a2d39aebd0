"""As much of S3 as Spark, delta-rs and obstore ask for, in memory: a real server of HTTP, for tests and for trying.

Of those who put an object where there is none (If-None-Match) one does; with `is_strict` false all do, as with stores
that don't know of it. It asks nobody for a key, and loses all when it ends.
"""

from __future__ import annotations

import argparse
import re
import threading
import uuid
from collections import Counter
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

DATE = "Tue, 24 Nov 2026 00:00:00 GMT"
STAMP = "2026-11-24T00:00:00.000Z"
KEYS_MAX = 1000


class Stored(NamedTuple):
    """An object."""

    data: bytes
    etag: str


class ObjectStore:
    """All buckets of one server: an object by `bucket/key`. Closed with `close`."""

    def __init__(self, is_strict: bool = True, port: int = 0) -> None:
        self.objects: dict[str, Stored] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.turn = threading.Lock()
        self.is_strict = is_strict
        self.status_of_all: tuple[int, str] | None = None
        """What every request is answered with; None: each with its own."""
        self.answers_to_lose = 0
        """So many conditional puts are made, and who asked for them isn't told."""
        self.asked: Counter[str] = Counter()
        """How many requests there were of each kind; `LIST` is that of a listing."""
        self._server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"store": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def put(self, name: str, data: bytes, if_none_match: str | None) -> Stored | None:
        """None: there is one."""
        with self.turn:
            if self.is_strict and if_none_match == "*" and name in self.objects:
                return None
            stored = self.objects[name] = Stored(data, f'"{md5(data, usedforsecurity=False).hexdigest()}"')
            return stored


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that was cut."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    store: ObjectStore

    def parse_request(self) -> bool:
        """Counts it, and refuses it where all are."""
        if not super().parse_request():
            return False
        is_listing = self.command == "GET" and "/" not in self._name().strip("/")
        with self.store.turn:
            self.store.asked["LIST" if is_listing else self.command] += 1
        if self.store.status_of_all is not None:
            self._body()
            self._refuse(*self.store.status_of_all)
            self.wfile.flush()
            return False
        return True

    def handle_expect_100(self) -> bool:
        """Whoever asks before it sends a body waits for seconds for what isn't sent."""
        found = super().handle_expect_100()
        self.wfile.flush()
        return found

    def do_PUT(self) -> None:
        data, name, query = self._body(), self._name(), self._query()
        if "/" not in name.strip("/"):
            return self._answer(200)  # a bucket is there
        if "uploadId" in query:
            with self.store.turn:
                self.store.uploads[query["uploadId"]][int(query["partNumber"])] = data
            return self._answer(200, etag=f'"{query["partNumber"]}"')
        if source := self.headers["x-amz-copy-source"]:
            with self.store.turn:
                found = self.store.objects.get(unquote(source).lstrip("/"))
            if found is None:
                return self._refuse(404, "NoSuchKey")
            data = found.data
        stored = self.store.put(name, data, self.headers["If-None-Match"])
        if stored is None:
            return self._refuse(412, "PreconditionFailed")
        if self.headers["If-None-Match"] and self.store.answers_to_lose:
            self.store.answers_to_lose -= 1
            self.close_connection = True
            return None
        body = f"<CopyObjectResult><ETag>{escape(stored.etag)}</ETag></CopyObjectResult>".encode() if source else b""
        return self._answer(200, body, stored.etag)

    def do_GET(self) -> None:
        name, query = self._name(), self._query()
        if "/" not in name.strip("/"):
            return self._answer(200, self._listing(name.strip("/"), query))
        with self.store.turn:
            found = self.store.objects.get(name)
        if found is None:
            return self._refuse(404, "NoSuchKey")
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers["Range"] or "")
        if asked is None:
            return self._answer(200, found.data, found.etag)
        size = len(found.data)
        begin = int(asked[1]) if asked[1] else max(size - int(asked[2]), 0)
        end = min(int(asked[2]) + 1, size) if asked[1] and asked[2] else size
        if begin >= size:
            return self._refuse(416, "InvalidRange")
        return self._answer(206, found.data[begin:end], found.etag, f"bytes {begin}-{end - 1}/{size}")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        with self.store.turn:
            self.store.uploads.pop(self._query().get("uploadId", ""), None)
            self.store.objects.pop(self._name(), None)
        self._answer(204)

    def do_POST(self) -> None:
        body, name, query = self._body(), self._name(), self._query()
        if "delete" in query:
            return self._delete_some(name.strip("/"), body.decode())
        if "uploads" in query:
            upload = uuid.uuid4().hex
            with self.store.turn:
                self.store.uploads[upload] = {}
            said = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            return self._answer(200, said.encode())
        with self.store.turn:
            parts = self.store.uploads.pop(query.get("uploadId", ""), None)
        if parts is None:
            return self._refuse(404, "NoSuchUpload")
        data = b"".join(parts[number] for number in sorted(parts))
        stored = self.store.put(name, data, self.headers["If-None-Match"])
        if stored is None:
            return self._refuse(412, "PreconditionFailed")
        said = f"<CompleteMultipartUploadResult><ETag>{escape(stored.etag)}</ETag></CompleteMultipartUploadResult>"
        return self._answer(200, said.encode())

    def _delete_some(self, bucket: str, named: str) -> None:
        keys = re.findall(r"<Key>(.*?)</Key>", named, re.DOTALL)
        with self.store.turn:
            for key in keys:
                self.store.objects.pop(f"{bucket}/{unescape(key)}", None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def _listing(self, bucket: str, query: dict[str, str]) -> bytes:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        begin = f"{bucket}/"
        with self.store.turn:
            named = self.store.objects.items()
            there = {name.removeprefix(begin): each for name, each in named if name.startswith(begin)}
        found: dict[str, Stored | None] = {}
        for key in sorted(key for key in there if key.startswith(prefix)):
            rest = key[len(prefix) :]
            is_below = delimiter and delimiter in rest
            shown = prefix + rest.partition(delimiter)[0] + delimiter if is_below else key
            if shown > after and not (is_below and after.startswith(shown)):
                found[shown] = None if is_below else there[key]
        keys_max = min(int(query.get("max-keys", KEYS_MAX)), KEYS_MAX)
        page = dict(list(found.items())[:keys_max])
        return _listed(bucket, prefix, page, len(found) > len(page), query.get("encoding-type") == "url")

    def _name(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix("/")

    def _query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.path).query, keep_blank_values=True).items()}

    def _body(self) -> bytes:
        data = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if "aws-chunked" in (self.headers["Content-Encoding"] or "") or self.headers["x-amz-decoded-content-length"]:
            return _of_chunks(data)
        return data

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def _answer(self, status: int, body: bytes = b"", etag: str = "", range: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if etag:
            self.send_header("ETag", etag)
            self.send_header("Last-Modified", DATE)
        if range:
            self.send_header("Content-Range", range)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def _of_chunks(data: bytes) -> bytes:
    """What is sent in chunks of Amazon's own, each with its length before it and maybe a signature."""
    parts: list[bytes] = []
    while data:
        head, _, data = data.partition(b"\r\n")
        size = int(head.partition(b";")[0], 16)
        if size == 0:
            break
        parts.append(data[:size])
        data = data[size + 2 :]
    return b"".join(parts)


def _listed(bucket: str, prefix: str, page: dict[str, Stored | None], goes_on: bool, is_quoted: bool) -> bytes:
    def text(key: str) -> str:
        return escape(quote(key)) if is_quoted else escape(key)

    each = "".join(
        f"<CommonPrefixes><Prefix>{text(key)}</Prefix></CommonPrefixes>"
        if stored is None
        else f"<Contents><Key>{text(key)}</Key><LastModified>{STAMP}</LastModified><ETag>{escape(stored.etag)}</ETag>"
        f"<Size>{len(stored.data)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        for key, stored in page.items()
    )
    following = f"<NextContinuationToken>{escape(list(page)[-1])}</NextContinuationToken>" if goes_on else ""
    encoding = "<EncodingType>url</EncodingType>" if is_quoted else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{escape(bucket)}</Name><Prefix>{text(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount>"
        f"<MaxKeys>{KEYS_MAX}</MaxKeys>{encoding}<IsTruncated>{str(goes_on).lower()}</IsTruncated>{following}{each}"
        "</ListBucketResult>"
    ).encode()


def main() -> None:
    """Serves until it is ended."""
    parser = argparse.ArgumentParser(prog="python -m lakemq.testing.object_store", description=__doc__)
    parser.add_argument("--port", type=int, default=9000, help="of 127.0.0.1; 0: any that is free")
    store = ObjectStore(port=parser.parse_args().port)
    print(f"a store in memory at {store.address}", flush=True)  # noqa: T201
    threading.Event().wait()


if __name__ == "__main__":
    main()
