"""Spans of producers and consumers, by OpenTelemetry's own exporter in memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from lakemq.client import (
    ConsumeLater,
    ConsumeResult,
    Message,
    MessageView,
    Producer,
    PushConsumer,
    Resolution,
    TransactionListener,
    TransactionProducer,
    Unreachable,
    aio,
)
from lakemq.client.consume.listener import Call, Terms, run_listener
from lakemq.client.consume.process_queue import Work
from lakemq.client.consume.push_options import span_of
from lakemq.client.http import HttpClient
from lakemq.client.produce.batch import Batch
from lakemq.client.produce.encode import encode
from lakemq.client.tracing import Tracing
from lakemq.client.view import Rows
from lakemq.model.errors import RequestTimeout
from lakemq.testing import GatewayProcess
from tests.client.consuming import is_there, make_topic, wait_until
from tests.client.producing import DEAD, stored

PARENT, OTHER = (f"00-{digit * 32}-{digit * 16}-01" for digit in "ab")


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made


def view(gateway: GatewayProcess, message_id: str) -> MessageView:
    """The message as a consumer would see it."""
    with HttpClient(gateway.url) as http:
        return http.message(message_id)


def context_of(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def test_a_consumers_span_is_a_child_of_the_producers_and_that_of_the_programs(
    gateway: GatewayProcess, topic: str, provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    tracer = trace.get_tracer("test", tracer_provider=provider)
    with Producer(gateway.url, tracing=provider) as producer, tracer.start_as_current_span("order") as order:
        receipt = producer.send(topic, b"body", properties={"a": "b"})
    message = view(gateway, receipt.message_id)
    assert message.properties["a"] == "b"
    with Tracing(provider).process([message], "billing"), tracer.start_as_current_span("write to the database"):
        pass
    sent, _, inner, processed = exporter.get_finished_spans()
    assert (sent.name, sent.kind) == (f"send {topic}", SpanKind.PRODUCER)
    assert (processed.name, processed.kind) == (f"process {topic}", SpanKind.CONSUMER)
    assert sent.parent is not None
    assert processed.parent is not None
    assert inner.parent is not None
    assert sent.parent.span_id == order.get_span_context().span_id
    assert processed.parent.span_id == context_of(sent).span_id
    assert inner.parent.span_id == context_of(processed).span_id
    assert {context_of(sent).trace_id, context_of(processed).trace_id} == {order.get_span_context().trace_id}
    assert attributes(sent) == {
        "messaging.system": "lakemq",
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
        "messaging.destination.name": topic,
        "messaging.message.body.size": 4,
        "messaging.message.id": receipt.message_id,
        "messaging.destination.partition.id": str(receipt.queue_id),
        "lakemq.broker": receipt.broker,
    }
    assert attributes(processed)["messaging.consumer.group.name"] == "billing"
    assert attributes(processed)["messaging.message.id"] == receipt.message_id


def test_a_span_of_several_messages_is_linked_to_theirs(
    gateway: GatewayProcess, topic: str, provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    async def send() -> list[str]:
        async with aio.Producer(gateway.url, tracing=provider) as producer:
            return [(await producer.send(topic, "x")).message_id for _ in range(2)]

    messages = [view(gateway, message_id) for message_id in asyncio.run(send())]
    untraced = MessageView.of({"body": "x", "topic": topic, "message_id": "b.1"})
    with Tracing(provider).process([*messages, untraced], "billing"):
        pass
    *sent, processed = exporter.get_finished_spans()
    assert processed.parent is None
    assert [link.context.span_id for link in processed.links] == [context_of(span).span_id for span in sent]
    assert attributes(processed)["messaging.batch.message_count"] == 3


def test_what_fails_is_told(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    message = Rows.of_json([{"body": "x", "topic": "orders", "message_id": "b.1", "reconsume_times": 0}])[0]
    with pytest.raises(ZeroDivisionError), Tracing(provider).process([message], "billing"):
        raise ZeroDivisionError
    with (
        Producer(DEAD, tracing=provider, timeout_s=0.2, attempt_timeout_s=0.2) as producer,
        pytest.raises(Unreachable),
    ):
        producer.send("orders", "x")
    processed, sent = exporter.get_finished_spans()
    assert [span.status.status_code for span in (processed, sent)] == [StatusCode.ERROR] * 2
    assert attributes(processed)["error.type"] == "ZeroDivisionError"
    assert attributes(sent)["error.type"] == "unreachable"


def test_a_listener_that_asks_for_a_message_later_fails_its_span(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    (message,) = Rows.of_json([{"body": "x", "topic": "orders", "message_id": "b.1", "reconsume_times": 0}])
    asked: list[Exception | ConsumeResult] = [
        ConsumeResult.LATER,
        ConsumeLater(reason="no stock"),
        ConsumeLater(reason=KeyError("price")),
        ConsumeLater(),
        ConsumeResult.SUCCESS,
    ]

    def listener(_: MessageView) -> ConsumeResult:
        answer = asked[len(exporter.get_finished_spans())]
        if isinstance(answer, Exception):
            raise answer
        return answer

    for _ in asked:
        terms = Terms(lambda: False, in_order=False, span=span_of(provider, "billing"), call=Call())
        run_listener(listener, Work([message], [0], 1), terms)
    told = [(each.attributes or {}).get("error.type") for each in exporter.get_finished_spans()]
    assert told == ["later", "ConsumeLater", "KeyError", "ConsumeLater", None]
    texts = [each.status.description for each in exporter.get_finished_spans()]
    assert texts == [None, "no stock", "'price'", "consume later, delay level 0", None]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ([{"traceparent": PARENT}], PARENT),
        ([{"traceparent": PARENT}, {"traceparent": OTHER}], PARENT),
        ([{"traceparent": PARENT}, {}], None),
        ([{"traceparent": PARENT}, None], None),
        ([None, {"traceparent": PARENT}], None),
        ([{"traceparent": "none"}], None),
        ([None], None),
    ],
)
def test_a_request_is_in_the_trace_of_its_first_message_where_all_have_one(
    properties: list[dict[str, str] | None], expected: str | None
) -> None:
    batch = Batch("orders", 0.0)
    for each in properties:
        batch.add(b"x", {} if each is None else {"properties": each})
    for as_json in (True, False):
        assert encode(batch, None, as_json, None).headers.get("traceparent") == expected


class Committer(TransactionListener):
    """Commits."""

    def execute_local_transaction(self, message: Message, transaction_id: str, argument: Any) -> Resolution:
        return Resolution.COMMIT

    def check_local_transaction(self, message: MessageView) -> Resolution:
        return Resolution.COMMIT


def test_batches_requests_and_transactions_are_traced_too(
    gateway: GatewayProcess, topic: str, provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    tracer = trace.get_tracer("test", tracer_provider=provider)
    with (
        TransactionProducer(topic, Committer(), gateway.url, tracing=provider) as producer,
        tracer.start_as_current_span("order") as order,
    ):
        receipts = producer.send_batch(topic, ["a", Message(body="b", properties={"n": "1"})])
        with pytest.raises(RequestTimeout):
            producer.request(topic, "c", timeout_s=0.05)
        producer.send_in_transaction(topic, "d")
    first, second, request, half, _ = exporter.get_finished_spans()
    parent = order.get_span_context()
    for span in (first, second, request, half):
        assert span.name == f"send {topic}"
        assert span.parent is not None
        assert span.parent.span_id == parent.span_id
    assert [attributes(span)["messaging.message.id"] for span in (first, second)] == [
        receipt.message_id for receipt in receipts
    ]
    assert request.status.status_code is StatusCode.ERROR
    carried = {message.body: message.properties or {} for message in stored(gateway.url, topic)}
    for body, span in ((b"a", first), (b"b", second), (b"c", request), (b"d", half)):
        assert f"{context_of(span).span_id:016x}" in carried[body]["traceparent"]
    assert carried[b"b"]["n"] == "1"


def test_one_way_spans_end_without_a_place(
    gateway: GatewayProcess, topic: str, provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    with Producer(gateway.url, tracing=provider) as producer:
        producer.send_oneway(topic, "x")
    (sent,) = exporter.get_finished_spans()
    assert sent.status.status_code is StatusCode.UNSET
    assert "messaging.message.id" not in attributes(sent)


def test_with_the_processs_provider_that_is_none_nothing_is_carried(gateway: GatewayProcess, topic: str) -> None:
    with Producer(gateway.url, tracing=True) as producer:
        assert view(gateway, producer.send(topic, "x").message_id).properties == {}


def test_without_tracing_a_producer_loads_neither_opentelemetry_nor_a_server_nor_spark() -> None:
    probe = (
        "import sys; from lakemq.client import Producer, MessageView;"
        "print([name for name in ('opentelemetry', 'fastapi', 'uvicorn', 'pyspark', 'httpx') if name in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_one_trace_goes_from_a_request_to_the_listener_across_a_delay_a_retry_a_dead_letter_and_its_redrive(
    brisk: GatewayProcess, topic: str, group: str, provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    tracer = trace.get_tracer("test", tracer_provider=provider)
    make_topic(brisk.url, topic, 1)
    mended = threading.Event()

    def listener(message: MessageView) -> None:
        if not mended.is_set():
            raise ZeroDivisionError

    options: dict[str, Any] = {"brokers": brisk.url, "consume_from": "first", "max_reconsume_times": 1}
    with (
        tracer.start_as_current_span("order") as order,
        PushConsumer(group, listener, tracing=provider, **options) as consumer,
    ):
        consumer.subscribe(topic)
        context = order.get_span_context()
        parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-01"
        headers = {"traceparent": parent, "Lakemq-Delay-Ms": "50"}
        sent = httpx.post(
            f"{brisk.url}/v1/topics/{topic}/messages", content=b"x", headers=headers, trust_env=False, timeout=60
        )
        assert sent.status_code == 200, sent.text
        dead = f"%DLQ%{group}"
        wait_until(lambda: is_there(brisk.url, dead) and len(stored(brisk.url, dead)) == 1)
        mended.set()
        with HttpClient(brisk.url) as http:
            http.redrive(group, "true", 100.0, False)
        wait_until(lambda: any(each.status.is_ok for each in spans_of(exporter)))
    spans = spans_of(exporter)
    assert [each.status.status_code for each in spans] == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]
    assert [attributes(each)["lakemq.reconsume_times"] for each in spans][:2] == [0, 1]
    for each in spans:
        assert each.kind is SpanKind.CONSUMER
        assert each.parent is not None
        assert (each.parent.trace_id, each.parent.span_id) == (context.trace_id, context.span_id)
        assert attributes(each)["messaging.destination.name"] == topic


def spans_of(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    """Those of listeners, in their order."""
    return [each for each in exporter.get_finished_spans() if each.kind is SpanKind.CONSUMER]
