"""What a collector is told of decisions that the query takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakemq.settings import Traces
from lakemq.storage.disk.clock import SystemClock
from lakemq.testing import start_gateway
from lakemq.traces.batches import BatchSpans
from lakemq.traces.open_spans import open_spans
from tests.gateway.http_client import connect
from tests.jobs.routing.conftest import bodies, running, wait_until
from tests.traces.collector import collecting

PARENT = f"00-{'a' * 32}-{'b' * 16}-01"


def test_a_decision_of_the_query_is_in_its_message_s_trace_and_its_batch_in_one_with_the_request(
    spark: SparkSession, tmp_path: Path
) -> None:
    no_lead: dict[str, Any] = {"routing__lead_ms": 0, "routing__grace_ms": -1}
    with collecting() as collector:
        spans = open_spans(Traces(endpoint=collector.url), "lakemq-jobs", "driver", {})
        assert spans is not None
        told = BatchSpans(spans, SystemClock().now_ms)
        with (
            start_gateway(tmp_path / "data", traces__endpoint=collector.url, **no_lead) as gateway,
            connect(gateway) as http,
            running(spark, gateway.url, tmp_path / "lake", "delay", spans=told),
        ):
            headers = {"traceparent": PARENT, "lakemq-delay-ms": "100"}
            assert http.post("/v1/topics/t/messages", content=b"x", headers=headers).status_code == 200
            wait_until(lambda: bodies(http, "t") == ["x"])
            wait_until(lambda: any(span.name == "deliver t" for span in collector.of("a" * 32)))
            decided = "POST /v1/log/decisions"
            wait_until(lambda: any(span.name == decided for span in collector.spans))
            wait_until(lambda: any(span.name == "batch delay" for span in collector.spans))
        spans.close()
        (batch,) = (span for span in collector.spans if span.name == "batch delay")
        asked = {(span.service, span.parent_id) for span in collector.spans if span.name == decided}
        assert (batch.service, batch.attributes["lakemq.rows"], batch.failed) == ("lakemq-jobs driver", 1, False)
        assert asked == {("lakemq-gateway broker-a", batch.span_id)}
        assert {span.name for span in collector.of(batch.trace_id)} == {"batch delay", decided}
