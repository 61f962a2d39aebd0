"""A collector of OpenTelemetry's, as small as one can be: it takes spans by OTLP over HTTP, as protobuf."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")


class Seen(NamedTuple):
    """A span that came, of a service."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    begin_ns: int
    end_ns: int
    attributes: dict[str, str | int]
    failed: bool


class Collector:
    """`spans`: all that came; `status`: what it answers; `headers`: those of the last request."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[Seen] = []
        self.status = 200
        self.headers: dict[str, str] = {}

    def of(self, trace_id: str) -> list[Seen]:
        """Those of one trace, by when they begin. One that was sent twice, as no answer came in time, is one."""
        found = {span.span_id: span for span in list(self.spans) if span.trace_id == trace_id}
        return sorted(found.values(), key=lambda span: span.begin_ns)

    def take(self, body: bytes) -> None:
        """Enter what a request says."""
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            said = _values(resource.resource.attributes)
            for scope in resource.scope_spans:
                for span in scope.spans:
                    ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
                    times = span.start_time_unix_nano, span.end_time_unix_nano
                    kind, failed = KINDS[span.kind], span.status.code == 2
                    who = f"{said['service.name']} {said.get('service.instance.id', '')}".strip()
                    self.spans.append(Seen(who, span.name, kind, *ids, *times, _values(span.attributes), failed))


def _values(attributes: object) -> dict[str, str | int]:
    pairs: list[KeyValue] = list(attributes)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
    return {each.key: getattr(each.value, each.value.WhichOneof("value") or "") for each in pairs}


def _handler(collector: Callable[[], Collector]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            status = collector().status if self.path == "/v1/traces" else 404
            collector().headers = dict(self.headers.items())
            if status == 200:
                collector().take(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: what came is kept."""

    return Handler


@contextmanager
def collecting() -> Generator[Collector]:
    """A collector on a free port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(lambda: collector))
    collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
