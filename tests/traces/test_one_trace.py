"""What a collector of OpenTelemetry's is told of messages on their way, by clients and by a gateway."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from lakemq.client import MessageView, Producer, PushConsumer
from lakemq.client.http import HttpClient
from lakemq.testing import GatewayProcess
from tests.client.consuming import is_there, make_topic, wait_until
from tests.client.producing import stored
from tests.gateway.http_client import connect, produce
from tests.gateway.receive.asking import ack, change, receive
from tests.gateway.sinks.asking import commit, put_part
from tests.gateway.timed import Timed
from tests.traces.collector import Collector, Seen

GATEWAY = "lakemq-gateway broker-a"
PRODUCE = "POST /v1/topics/{topic}/messages"
HOUR_MS = 3_600_000


def parent(sampled: bool = True) -> str:
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-{int(sampled):02x}"


def counted(spans: list[Seen]) -> Counter[str]:
    return Counter(span.name for span in spans)


def test_one_trace_goes_from_send_to_the_listener_by_delay_retry_dead_letter_and_redrive(
    gateway: GatewayProcess, collector: Collector, provider: TracerProvider, topic: str
) -> None:
    tracer = trace.get_tracer("shop", tracer_provider=provider)
    mended, done, group = threading.Event(), threading.Event(), f"{topic}-group"
    make_topic(gateway.url, topic, 1)

    def listener(message: MessageView) -> None:
        if not mended.is_set():
            raise ZeroDivisionError("no price")
        done.set()

    options = {"brokers": gateway.url, "consume_from": "first", "max_reconsume_times": 1, "tracing": provider}
    with (
        PushConsumer(group, listener, **options) as consumer,  # pyright: ignore[reportArgumentType]
        Producer(gateway.url, tracing=provider) as producer,
    ):
        consumer.subscribe(topic)
        with tracer.start_as_current_span("order") as order:
            trace_id = f"{order.get_span_context().trace_id:032x}"
            producer.send(topic, b"x", delay=0.1)
        dead = f"%DLQ%{group}"
        wait_until(lambda: is_there(gateway.url, dead) and len(stored(gateway.url, dead)) == 1)
        mended.set()
        with HttpClient(gateway.url) as http:
            http.redrive(group, "true", 100.0, False)
        wait_until(done.is_set)
    expected = Counter(
        {
            "order": 1,
            f"send {topic}": 1,
            PRODUCE: 1,
            f"deliver {topic}": 2,
            f"process {topic}": 3,
            f"retry {topic}": 1,
            f"dead_letter {topic}": 1,
            f"redrive {topic}": 1,
        }
    )
    wait_until(lambda: not expected - counted(collector.of(trace_id)))
    # On a machine that is busy a request may be tried again, and a message come twice: at least once is promised.
    assert set(counted(collector.of(trace_id)) - expected) <= {PRODUCE, f"process {topic}"}
    spans = collector.of(trace_id)
    (send,) = (span for span in spans if span.kind == "producer")
    below = [span for span in spans if span.parent_id == send.span_id]
    assert len(below) == len(spans) - 2, "all but the program's own and the send itself are below the send"
    assert {span.service for span in below if span.kind != "consumer"} == {GATEWAY}
    by_name = {span.name.removesuffix(f" {topic}"): span for span in spans}
    retry, letter, redrive = by_name["retry"], by_name["dead_letter"], by_name["redrive"]
    first, second = (span for span in spans if span.name == f"deliver {topic}")
    assert send.begin_ns <= first.begin_ns <= retry.begin_ns <= second.begin_ns <= letter.begin_ns <= redrive.begin_ns
    assert first.begin_ns - send.begin_ns >= 100e6 - 1e6, "its delay begins when it is stored"
    assert [span.failed for span in (first, retry, second, redrive, letter)] == [False] * 4 + [True]
    assert (retry.attributes["error.type"], letter.attributes["error.type"]) == ("ZeroDivisionError",) * 2
    for span in (retry, second, letter, redrive):
        assert span.attributes["messaging.consumer.group.name"] == group
        assert span.attributes["messaging.destination.name"] == topic
    assert second.attributes["lakemq.due_ms"] == second.begin_ns // 10**6 == retry.attributes["lakemq.due_ms"]
    assert {span.failed for span in spans if span.kind == "consumer"} == {True, False}


def test_a_transaction_s_end_is_in_its_message_s_trace(tmp_path: Path, collector: Collector, topic: str) -> None:
    """By a clock that is set ahead: a half is checked or given up once the others have ended, and not before."""
    traces = {"commit": parent(), "rollback": parent(), "check": parent()}
    waits = {"transactions__timeout_ms": HOUR_MS, "transactions__check_interval_ms": HOUR_MS}
    options = {"traces__endpoint": collector.url, "transactions__check_max": 1, **waits}
    with Timed(tmp_path, **options) as timed:
        http = timed.http
        make_topic(timed.process.url, topic)
        for end, said in traces.items():
            began = http.post(
                f"/v1/topics/{topic}/transactions?producer_group=p", content=b"x", headers={"traceparent": said}
            )
            transaction_id = began.json()["transactions"][0]["transaction_id"]
            if end != "check":
                resolved = {"producer_group": "p", "resolution": end}
                assert http.post(f"/v1/transactions/{transaction_id}", json=resolved).status_code == 200
        for name in ("check", "give_up"):
            timed.pass_ms(HOUR_MS)
            wait_until(lambda name=name: f"{name} {topic}" in counted(collector.of(traces["check"][3:35])))
    assert "Traceback" not in "".join(timed.process.log), timed.process.log
    for end, said in traces.items():
        names = {f"{end} {topic}"} | ({f"give_up {topic}"} if end == "check" else set())
        wait_until(lambda said=said, names=names: names <= set(counted(collector.of(said[3:35]))))
        ended = [span for span in collector.of(said[3:35]) if span.kind == "internal"]
        assert {span.name for span in ended} == names
        assert {span.parent_id for span in ended} == {said[36:52]}


def test_what_ran_out_is_given_back_since_then(gateway: GatewayProcess, collector: Collector, topic: str) -> None:
    said = parent()
    make_topic(gateway.url, topic)
    with connect(gateway) as http:
        http.post(f"/v1/topics/{topic}/messages", content=b"x", headers={"traceparent": said})
        asked = {"topic": topic, "max": 1, "wait_ms": 10_000, "invisible_ms": 1_000}
        got = http.post(f"/v1/groups/{topic}/receive", json=asked).json()["messages"]
    wait_until(lambda: f"retry {topic}" in counted(collector.of(said[3:35])))
    (retry,) = (span for span in collector.of(said[3:35]) if span.kind == "internal")
    assert retry.begin_ns == got[0]["invisible_until_ms"] * 10**6
    assert retry.attributes["error.type"] == "lakemq.TimeOut"


def test_an_acknowledgement_settles_a_message_in_its_trace(
    gateway: GatewayProcess, collector: Collector, topic: str
) -> None:
    few, unrecorded, many = parent(), parent(sampled=False), [parent() for _ in range(20)]
    make_topic(gateway.url, topic, 1)
    with connect(gateway) as http:
        for said in (few, unrecorded):
            http.post(f"/v1/topics/{topic}/messages", content=b"x", headers={"traceparent": said})
        produce(http, topic, *[{"body": "x", "properties": {"traceparent": said}} for said in many], "without one")
        asked = {"topic": topic, "max": 100, "wait_ms": 10_000, "invisible_ms": 600_000}
        got = http.post(f"/v1/groups/{topic}/receive", json=asked).json()["messages"]
        assert len(got) == len(many) + 3
        changed = change(http, topic, got[0]["receipt"], 900_000).json()["receipt"]
        receipts = [changed, *(each["receipt"] for each in got[1:])]
        assert ack(http, topic, *receipts) == ["ok"] * len(got)
        assert ack(http, topic, changed) == ["ok"], "again, which is no second span"
    for said in (few, *many):
        wait_until(lambda said=said: f"ack {topic}" in counted(collector.of(said[3:35])))
    (acked,) = (span for span in collector.of(few[3:35]) if span.kind == "internal")
    assert (acked.name, acked.parent_id, acked.failed) == (f"ack {topic}", few[36:52], False)
    assert acked.attributes == {
        "messaging.system": "lakemq",
        "messaging.operation.name": "ack",
        "messaging.operation.type": "settle",
        "messaging.destination.name": topic,
        "messaging.consumer.group.name": topic,
        "messaging.message.id": got[0]["message_id"],
    }
    assert not collector.of(unrecorded[3:35])


def test_a_recalled_message_says_so_in_its_trace(gateway: GatewayProcess, collector: Collector, topic: str) -> None:
    said = parent()
    make_topic(gateway.url, topic)
    with connect(gateway) as http:
        headers = {"traceparent": said, "lakemq-delay-ms": "3600000"}
        sent = http.post(f"/v1/topics/{topic}/messages", content=b"x", headers=headers).json()
        (message_id,) = (each["message_id"] for each in sent["messages"])
        for _ in range(2):
            assert http.delete(f"/v1/messages/{message_id}").is_success
    wait_until(lambda: f"recall {topic}" in counted(collector.of(said[3:35])))
    (recalled,) = (span for span in collector.of(said[3:35]) if span.kind == "internal")
    assert (recalled.parent_id, recalled.failed) == (said[36:52], False)
    assert recalled.attributes["messaging.message.id"] == message_id
    assert "messaging.operation.type" not in recalled.attributes


@pytest.mark.parametrize("how", ["nack", "run out"])
def test_what_would_come_again_and_has_expired_says_so_in_its_trace(
    tmp_path: Path, collector: Collector, topic: str, how: str
) -> None:
    """By a clock that is set ahead: it expires once it was received, and not before."""
    said, options = parent(), {"traces__endpoint": collector.url, "delay__levels": "1s 2h"}
    with Timed(tmp_path, **options) as timed:
        http = timed.http
        make_topic(timed.process.url, topic)
        (sent,) = produce(http, topic, {"body": "x", "properties": {"traceparent": said}, "ttl_ms": HOUR_MS})
        assert len(receive(http, topic, topic, wait_ms=50_000, invisible_ms=2 * HOUR_MS)) == 1
        if how == "nack":
            asked = {"messages": [{"message_id": sent["message_id"], "delay_level": 2}]}
            assert http.post(f"/v1/groups/{topic}/nacks", json=asked).is_success
        timed.pass_ms(2 * HOUR_MS)
        wait_until(lambda: f"expire {topic}" in counted(collector.of(said[3:35])))
    assert "Traceback" not in "".join(timed.process.log), timed.process.log
    (expired,) = (span for span in collector.of(said[3:35]) if span.kind == "internal")
    assert (expired.parent_id, expired.failed) == (said[36:52], False)
    assert expired.attributes["messaging.consumer.group.name"] == topic
    assert expired.attributes["messaging.message.id"] == sent["message_id"]
    assert expired.attributes["messaging.operation.type"] == "settle"


def test_a_copy_that_a_sink_brings_is_in_the_trace_of_the_first(
    gateway: GatewayProcess, collector: Collector, topic: str
) -> None:
    said, unrecorded, fresh = parent(), parent(sampled=False), parent()
    make_topic(gateway.url, topic)
    rows = [(said, "other.0123456789ab-1.12"), (unrecorded, "other.0123456789ab-1.13"), (fresh, None), (None, None)]
    pairs = [None if each is None else [("traceparent", each)] for each, _ in rows]
    columns = {
        "body": pa.array([b"x"] * len(rows), pa.binary()),
        "properties": pa.array(pairs, pa.map_(pa.string(), pa.string())),
        "origin_message_id": pa.array([origin for _, origin in rows]),
    }
    with connect(gateway) as http:
        assert put_part(http, f"sink-{topic}", 0, "p", columns, topic=topic).status_code == 200
        assert commit(http, f"sink-{topic}", 0, "p").status_code == 200
    wait_until(lambda: bool(collector.of(said[3:35])))
    ((again,), ids) = collector.of(said[3:35]), {each.message_id for each in stored(gateway.url, topic)}
    assert (again.name, again.parent_id) == (f"replay {topic}", said[36:52])
    assert again.attributes["lakemq.origin_message_id"] == "other.0123456789ab-1.12"
    assert again.attributes["messaging.message.id"] in ids
    assert not [span for other in (unrecorded, fresh) for span in collector.of(other[3:35])]


def test_requests_below_a_recorded_span_are_spans_and_say_no_secret(
    gateway: GatewayProcess, collector: Collector, topic: str
) -> None:
    said, other = parent(), parent()
    with connect(gateway) as http:
        http.get(f"/v1/topics/{topic}", headers={"traceparent": said, "x-request-id": "r-1"})
        http.post("/v1/transactions/a-secret", json={}, headers={"traceparent": other})
    wait_until(lambda: bool(collector.of(said[3:35]) and collector.of(other[3:35])))
    (missing,), (hidden,) = collector.of(said[3:35]), collector.of(other[3:35])
    assert (missing.service, missing.name, missing.kind) == (GATEWAY, "GET /v1/topics/{topic}", "server")
    assert (missing.parent_id, missing.failed) == (said[36:52], False), "what its client did wrong is no fault here"
    assert missing.attributes == {
        "http.request.method": "GET",
        "http.route": "/v1/topics/{topic}",
        "http.response.status_code": 404,
        "url.path": f"/v1/topics/{topic}",
        "url.scheme": "http",
        "client.address": "127.0.0.1",
        "messaging.system": "lakemq",
        "messaging.destination.name": topic,
        "lakemq.request_id": "r-1",
    }
    assert "a-secret" not in str(hidden)


NO_TRACES = (
    "no trace",
    f"00-{'0' * 32}-00f067aa0ba902b7-01",
    f"ff-{'1' * 32}-00f067aa0ba902b7-01",
    f"01-{'1' * 32}-00f067aa0ba902b7-01-{'x' * 128}",
)


def test_what_is_no_trace_has_no_span_and_goes_no_further(
    gateway: GatewayProcess, collector: Collector, topic: str
) -> None:
    make_topic(gateway.url, topic, 1)
    last = parent()
    with connect(gateway) as http:
        for said in NO_TRACES:
            headers = {"traceparent": said, "tracestate": "a=1", "baggage": "user=mira"}
            sent = http.post(f"/v1/topics/{topic}/messages", content=b"x", headers=headers)
            assert sent.status_code == 200
        http.get("/v1/broker", headers={"traceparent": last})
    wait_until(lambda: bool(collector.of(last[3:35])))
    assert not collector.of("1" * 32)
    assert not [span for span in collector.spans if topic in str(span)]
    plain = {"content_type": "application/octet-stream"}
    assert [message.properties for message in stored(gateway.url, topic)] == [plain] * len(NO_TRACES)


def test_a_trace_that_is_not_recorded_goes_on_without_spans(
    gateway: GatewayProcess, collector: Collector, topic: str
) -> None:
    make_topic(gateway.url, topic)
    said, last = parent(sampled=False), parent()
    with connect(gateway) as http:
        headers = {"traceparent": said, "tracestate": "v=" + "1" * 511, "lakemq-delay-ms": "1"}
        http.post(f"/v1/topics/{topic}/messages", content=b"x", headers=headers)
        wait_until(lambda: bool(stored(gateway.url, topic)))
        http.get("/v1/broker", headers={"traceparent": last})
    wait_until(lambda: bool(collector.of(last[3:35])))
    assert not collector.of(said[3:35])
    (message,) = stored(gateway.url, topic)
    assert message.properties == {"content_type": "application/octet-stream", "traceparent": said}, "no long state"
