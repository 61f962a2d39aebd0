"""Where spans go, and what a process does that can't get rid of them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from lakemq.client.http import HttpClient
from lakemq.model.errors import SettingsError
from lakemq.settings import Traces, load
from lakemq.testing import start_gateway
from lakemq.traces.open_spans import open_spans
from lakemq.traces.span import Span
from lakemq.traces.spans import BATCH_MAX, Spans
from tests.client.consuming import make_topic, wait_until
from tests.client.producing import stored
from tests.ports import free_port
from tests.traces.collector import Collector, collecting

SPAN = Span("s", "internal", 1, 2, {})
SAMPLED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def counts(url: str) -> dict[str, int]:
    lines = httpx.get(f"{url}/metrics", trust_env=False, timeout=30).text.splitlines()
    name = 'lakemq_trace_spans_total{outcome="'
    return {line[len(name) :].partition('"')[0]: int(float(line.split()[1])) for line in lines if line.startswith(name)}


def test_a_part_of_requests_without_a_trace_begins_one_as_opentelemetry_s_environment_says(
    tmp_path: Path, collector: Collector, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret-of-the-collector")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "queue")
    with start_gateway(tmp_path / "data", traces__ratio=1) as gateway:
        make_topic(gateway.url, topic)
        for _ in range(3):
            sent = httpx.post(f"{gateway.url}/v1/topics/{topic}/messages", content=b"x", trust_env=False, timeout=30)
            assert sent.status_code == 200
        parents = [message.properties["traceparent"] for message in stored(gateway.url, topic)]
        assert len({said[3:35] for said in parents}) == 3
        for said in parents:
            wait_until(lambda said=said: bool(collector.of(said[3:35])))
            (span,) = collector.of(said[3:35])
            assert (span.service, span.kind, span.span_id, span.parent_id) == (
                "queue broker-a",
                "server",
                said[36:52],
                "",
            )
        assert collector.headers["x-key"] == "secret-of-the-collector"
        assert "secret-of-the-collector" not in "".join(gateway.log)


def test_a_dead_collector_costs_spans_and_nothing_else(tmp_path: Path, topic: str) -> None:
    options = {"traces__endpoint": f"http://127.0.0.1:{free_port()}", "traces__queue_max": 10}
    with start_gateway(tmp_path / "data", **options) as gateway:
        make_topic(gateway.url, topic)
        with httpx.Client(base_url=gateway.url, trust_env=False, timeout=30) as http:
            for _ in range(50):
                sent = http.post(f"/v1/topics/{topic}/messages", content=b"x", headers={"traceparent": SAMPLED})
                assert sent.status_code == 200
            told = counts(gateway.url)
        assert told["exported"] == 0
        assert told["dropped"] > 0
        assert gateway.stop() == 0, gateway.log
    assert "Traceback" not in "".join(gateway.log)


def test_a_collector_that_refuses_is_counted(tmp_path: Path) -> None:
    with collecting() as refusing:
        refusing.status = 400
        with start_gateway(tmp_path / "data", traces__endpoint=refusing.url) as gateway:
            httpx.get(f"{gateway.url}/healthz", headers={"traceparent": SAMPLED}, trust_env=False, timeout=30)
            wait_until(lambda: counts(gateway.url)["failed"] == 1)
            assert counts(gateway.url)["exported"] == 0
            refusing.status = 200
            httpx.get(f"{gateway.url}/healthz", headers={"traceparent": SAMPLED}, trust_env=False, timeout=30)
            wait_until(lambda: counts(gateway.url)["exported"] == 1)
            with HttpClient(gateway.url) as http:
                assert http.broker()["name"] == "broker-a"


class Stuck:
    """An exporter whose collector answers nobody, until it is closed."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.closed = threading.Event()

    def export(self, spans: Sequence[Span]) -> bool:
        self.began.set()
        self.closed.wait()
        return False

    def close(self) -> None:
        self.closed.set()


class Kept:
    """An exporter that keeps what it gets, and fails on what is called so."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def export(self, spans: Sequence[Span]) -> bool:
        if any(span.name == "bad" for span in spans):
            raise ValueError("bad")
        self.spans += spans
        return True

    def close(self) -> None:
        pass


def test_what_waits_is_bounded_and_each_span_is_counted_once() -> None:
    exporter = Stuck()
    spans = Spans(exporter, queue_max=5)
    spans.add(SPAN)
    assert exporter.began.wait(60)
    for _ in range(20):
        spans.add(SPAN)
    assert spans.dropped == 15
    spans.close(0.01)
    assert (spans.exported, spans.failed, spans.dropped) == (0, 1, 20)
    spans.add(SPAN)
    assert spans.dropped == 21


def test_the_last_spans_go_out_as_the_process_ends() -> None:
    exporter = Kept()
    spans = Spans(exporter, queue_max=10_000)
    for number in range(3 * BATCH_MAX):
        spans.add(SPAN._replace(name=f"{number}"))
    spans.close(60)
    assert [int(span.name) for span in exporter.spans] == list(range(3 * BATCH_MAX))
    assert (spans.exported, spans.dropped) == (3 * BATCH_MAX, 0)


def test_an_exporter_that_raises_goes_on_with_the_next() -> None:
    exporter = Kept()
    spans = Spans(exporter, queue_max=10)
    spans.add(SPAN._replace(name="bad"))
    wait_until(lambda: spans.failed == 1)
    spans.add(SPAN)
    spans.close(60)
    assert (exporter.spans, spans.exported, spans.failed) == ([SPAN], 1, 1)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
)
def test_nobody_asks_for_spans(environment: dict[str, str]) -> None:
    assert open_spans(Traces(), "s", "i", environment) is None


def test_without_a_collector_nothing_of_opentelemetry_is_loaded() -> None:
    probe = (
        "import sys; from lakemq.gateway.process import server; from lakemq.settings import Traces;"
        "from lakemq.traces.open_spans import open_spans;"
        "print(open_spans(Traces(), 's', 'i', {}),"
        "[name for name in ('opentelemetry.sdk', 'opentelemetry.exporter', 'requests') if name in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "None []"


@pytest.mark.parametrize("endpoint", ["http://mira:secret@127.0.0.1:4318", "grpc://127.0.0.1:4317", "127.0.0.1"])
def test_an_endpoint_that_can_not_be_is_refused_and_no_password_shown(endpoint: str) -> None:
    with pytest.raises(SettingsError, match=r"traces\.endpoint") as raised:
        load(environment={"LAKEMQ_TRACES__ENDPOINT": endpoint})
    assert "secret" not in str(raised.value)
