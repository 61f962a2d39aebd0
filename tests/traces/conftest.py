from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from lakemq.testing import GatewayProcess, start_gateway
from tests.traces.collector import Collector, collecting

_numbers = count()


@pytest.fixture(scope="package")
def collector() -> Iterator[Collector]:
    """One for all: each test looks at traces of its own."""
    with collecting() as made:
        yield made


@pytest.fixture(scope="package")
def gateway(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """One that exports. Its retries come soon, but not before their nacks are stored: spans are compared by their
    times."""
    options = {
        "traces__endpoint": collector.url,
        "delay__levels": "2s 2s",
        "routing__grace_ms": 0,
    }
    with start_gateway(tmp_path_factory.mktemp("traced") / "data", **options) as process:
        yield process
    assert "Traceback" not in "".join(process.log), process.log


@pytest.fixture
def provider(collector: Collector) -> Iterator[TracerProvider]:
    """What a program's own spans are made by, for the same collector."""
    made = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    made.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{collector.url}/v1/traces")))
    yield made
    made.shutdown()


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"traced-{next(_numbers)}"
