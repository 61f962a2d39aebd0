"""The synchronous producer against a real gateway."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from lakemq.client import Closed, Message, Producer, SendFailed, SendFuture, SendReceipt, Unreachable
from lakemq.client.http import HttpClient
from lakemq.model.errors import (
    InvalidRequest,
    InvalidTopic,
    LakemqError,
    MessageTooLarge,
    QueueNotFound,
    ReadOnlyTopic,
    RequestTimeout,
)
from lakemq.testing import GatewayProcess
from tests.client.producing import DEAD, bodies, stored
from tests.gateway.http_client import connect


@pytest.fixture(scope="module")
def producer(gateway: GatewayProcess) -> Iterator[Producer]:
    with Producer(gateway.url) as made:
        yield made


def test_a_message_comes_back_with_all_its_fields(producer: Producer, gateway: GatewayProcess, topic: str) -> None:
    receipt = producer.send(
        topic, b"\xff\x00", tag="t", keys=["k1", "k2"], properties={"a": "b", "c": ""}, ordering_key="order-1"
    )
    with HttpClient(gateway.url) as http:
        message = http.message(receipt.message_id)
    assert (message.body, message.tag, message.keys) == (b"\xff\x00", "t", ["k1", "k2"])
    assert (message.properties, message.ordering_key) == ({"a": "b", "c": ""}, "order-1")
    assert receipt == SendReceipt(
        message.message_id,
        message.message_id.partition(".")[0],
        topic,
        message.queue_id,
        message.queue_offset,
        message.position,
        message.store_time_ms,
    )


@pytest.mark.parametrize(
    ("body", "sent"),
    [("Grüße", "Grüße".encode()), (b"", b""), (bytearray(b"array"), b"array"), (Message(body="said"), b"said")],
)
def test_a_body_is_bytes_or_text_or_in_a_message(
    producer: Producer, gateway: GatewayProcess, topic: str, body: Any, sent: bytes
) -> None:
    producer.send(topic, body)
    assert bodies(gateway.url, topic) == [sent]


@pytest.mark.parametrize(
    ("body", "fields", "error"),
    [
        (5, {}, TypeError),
        ("\ud800", {}, InvalidRequest),
        (b"x", {"tag": 5}, TypeError),
        (b"x", {"properties": {"n": 5}}, TypeError),
        (b"x", {"tag": "\ud800"}, InvalidRequest),
        (b"x", {"unknown": 5}, TypeError),
        (b"x", {"delay": 1, "delay_level": 1}, InvalidRequest),
        (b"x", {"deliver_at": datetime(2030, 1, 1)}, InvalidRequest),  # noqa: DTZ001  that is what is wrong
        (b"x", {"queue_id": -1}, InvalidRequest),
        (Message(body=b"x"), {"tag": "a"}, InvalidRequest),
        (b"x", {"tag": ""}, InvalidRequest),
    ],
)
def test_what_can_not_be_sent_is_refused(
    producer: Producer, topic: str, body: Any, fields: dict[str, Any], error: type[Exception]
) -> None:
    producer.send(topic, b"the topic exists")
    with pytest.raises(error):
        producer.send(topic, body, **fields)


def test_a_field_that_there_is_not_is_refused_with_those_that_there_are(producer: Producer, topic: str) -> None:
    with pytest.raises(TypeError, match=r"a message has no 'ttl'; it may have json, .*tag, ttl_ms"):
        producer.send(topic, b"x", **cast("Any", {"ttl": 5}))


def test_many_are_stored_once_each_and_receipts_name_their_places(
    producer: Producer, gateway: GatewayProcess, topic: str
) -> None:
    futures = [producer.send_async(topic, b"%d" % number) for number in range(5_000)]
    receipts = [future.result(60) for future in futures]
    placed = {(message.queue_id, message.queue_offset): message for message in stored(gateway.url, topic)}
    assert len(placed) == 5_000
    for number, receipt in enumerate(receipts):
        message = placed[receipt.queue_id, receipt.queue_offset]
        assert (message.body, message.message_id) == (b"%d" % number, receipt.message_id)
        assert (message.position, message.store_time_ms) == (receipt.position, receipt.store_time_ms)


def test_fields_stay_with_their_messages_within_a_batch(
    producer: Producer, gateway: GatewayProcess, topic: str
) -> None:
    for number in range(300):
        fields: dict[str, Any] = {}
        if number % 2:
            fields["tag"] = f"t{number}"
        if number % 3:
            fields["properties"] = {"n": str(number)} if number % 5 else {}
        if number % 7 == 0:
            fields["keys"] = [f"k{number}"]
        producer.send_async(topic, b"%d" % number, **fields)
    producer.flush()
    messages = stored(gateway.url, topic)
    assert len(messages) == 300
    for message in messages:
        number = int(message.body)
        assert message.tag == (f"t{number}" if number % 2 else None)
        assert (message.properties or {}) == ({"n": str(number)} if number % 3 and number % 5 else {})
        assert list(message.keys) == ([f"k{number}"] if number % 7 == 0 else [])


@pytest.mark.parametrize("exists", [True, False])
def test_messages_of_an_ordering_key_keep_their_order(gateway: GatewayProcess, topic: str, exists: bool) -> None:
    with HttpClient(gateway.url) as http, Producer(gateway.url, batch_messages=50) as producer:
        if exists:
            http.create_topic(topic, 3)
        futures = [producer.send_async(topic, f"{number}", ordering_key=f"key-{number % 10}") for number in range(3000)]
        queues = {number % 10: future.result(60).queue_id for number, future in enumerate(futures)}
    by_key: dict[str, list[int]] = {}
    for message in stored(gateway.url, topic):
        assert message.ordering_key is not None
        assert message.queue_id == queues[int(message.body) % 10]
        by_key.setdefault(message.ordering_key, []).append(int(message.body))
    assert len(by_key) == 10
    assert all(numbers == sorted(numbers) and len(numbers) == 300 for numbers in by_key.values())


def test_a_queue_id_names_the_queue(producer: Producer, gateway: GatewayProcess, topic: str) -> None:
    assert producer.send(topic, b"a", queue_id=2).queue_id == 2
    assert [producer.send(topic, b"b", queue_id=3).queue_id for _ in range(3)] == [3, 3, 3]
    with pytest.raises(QueueNotFound):
        producer.send(topic, b"c", queue_id=99)


def test_a_delayed_message_comes_when_it_is_due(producer: Producer, gateway: GatewayProcess, topic: str) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.5)  # noqa: TID251  the program's own clock
    sent = [
        producer.send(topic, b"delay", delay=0.2),
        producer.send(topic, b"timedelta", delay=timedelta(milliseconds=300)),
        producer.send(topic, b"at", deliver_at=soon, tag="t", keys="k", properties={"a": "b"}),
        producer.send(topic, b"level", delay_level=1),
        producer.send(topic, b"past", deliver_at=soon - timedelta(days=1)),
    ]
    delivered = stored(gateway.url, topic)
    while len(delivered) < 5:
        time.sleep(0.05)
        delivered = stored(gateway.url, topic)
    assert {message.body for message in delivered} == {b"delay", b"timedelta", b"at", b"level", b"past"}
    assert all(message.store_time_ms >= (message.deliver_at_ms or 0) for message in delivered)
    at = next(message for message in delivered if message.body == b"at")
    assert (at.tag, at.keys, at.properties) == ("t", ["k"], {"a": "b"})
    is_late = sent[2].store_time_ms >= (at.deliver_at_ms or 0)  # it was due as it came: it is no copy of any
    assert at.origin_message_id == (None if is_late else sent[2].message_id)


def test_a_batch_is_stored_whole_or_not_at_all(producer: Producer, gateway: GatewayProcess, topic: str) -> None:
    receipts = producer.send_batch(topic, ["a", b"b", Message(body="c", tag="t")])
    assert len({receipt.queue_id for receipt in receipts}) == 1
    assert [receipt.queue_offset for receipt in receipts] == [0, 1, 2]
    with pytest.raises(InvalidRequest):
        producer.send_batch(topic, ["d", Message(body="e", tag="")])
    with pytest.raises(InvalidRequest, match="delayed"):
        producer.send_batch(topic, ["d", Message(body="e", delay=1)])
    assert producer.send_batch(topic, []) == []
    assert sorted(bodies(gateway.url, topic)) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_batch_may_go_to_several_queues(
    producer: Producer, gateway: GatewayProcess, topic: str, exists: bool
) -> None:
    if exists:
        producer.send(topic, "first")
    batch = [Message(body=b"%d" % number, ordering_key=f"key-{number % 5}") for number in range(50)]
    receipts = producer.send_batch(topic, [*batch, "without a key"])
    with HttpClient(gateway.url) as http:
        for number in (0, 17, 49):
            assert http.message(receipts[number].message_id).body == b"%d" % number
    one_queue = producer.send_batch(
        topic, [Message(body="x", ordering_key="key-1"), Message(body="y", ordering_key="key-1")]
    )
    assert {receipt.queue_id for receipt in one_queue} == {receipts[1].queue_id}
    offsets = [receipts[number].queue_offset for number in range(1, 50, 5)] + [one.queue_offset for one in one_queue]
    assert offsets == sorted(offsets)


def test_a_batch_comes_after_what_was_sent_before_it(producer: Producer, gateway: GatewayProcess, topic: str) -> None:
    producer.send(topic, "make the topic", ordering_key="k")
    for round_number in range(20):
        producer.send_async(topic, f"{2 * round_number:03}", ordering_key="k")
        producer.send_batch(topic, [Message(body=f"{2 * round_number + 1:03}", ordering_key="k")])
    in_order = [body for body in bodies(gateway.url, topic) if body[:1].isdigit()]
    assert in_order == sorted(in_order)
    assert len(in_order) == 40


def test_a_batch_comes_after_what_was_sent_while_the_topic_is_made(gateway: GatewayProcess, topic: str) -> None:
    with Producer(gateway.url, batch_messages=20) as producer:
        before = [producer.send_async(topic, b"x" * 2000, ordering_key="k") for _ in range(500)]
        (after,) = producer.send_batch(topic, [Message(body="after all", ordering_key="k")])
        assert {future.result().queue_id for future in before} == {after.queue_id}
    assert after.queue_offset == 500


def test_what_is_changed_after_it_was_sent_is_sent_as_it_was(gateway: GatewayProcess, topic: str) -> None:
    properties: dict[str, str] = {}
    keys: list[str] = [""]
    message = Message(body="m", properties=properties, keys=keys)
    with Producer(gateway.url, linger_ms=50) as producer:
        for number in range(100):
            properties["n"], keys[0] = str(number), f"k{number}"
            producer.send_async(topic, str(number), properties=properties, keys=keys)
            producer.send_async(topic, message)
    found = stored(gateway.url, topic)
    assert len(found) == 200
    assert all(each.properties == {"n": each.body.decode()} for each in found if each.body != b"m")
    assert all(each.keys == [f"k{each.properties['n']}"] for each in found)


def test_one_way_messages_are_stored(producer: Producer, gateway: GatewayProcess, topic: str) -> None:
    for number in range(100):
        producer.send_oneway(topic, b"%d" % number)
    producer.send_oneway(topic, b"keyed", ordering_key="k")
    producer.flush()
    assert len(bodies(gateway.url, topic)) == 101


def test_one_bad_message_fails_alone(gateway: GatewayProcess, topic: str) -> None:
    with Producer(gateway.url, linger_ms=50, batch_bytes=20_000_000) as producer:
        producer.send_async(topic, b"so that the others wait for each other")
        futures = [producer.send_async(topic, b"%d" % number) for number in range(20)]
        bad = [
            producer.send_async(topic, b"x" * 5_000_000),
            producer.send_async(topic, b"y", properties={"large": "z" * 70_000}),
            producer.send_async(topic, b"z", tag="\n" * 2000),
        ]
        futures += [producer.send_async(topic, b"%d" % number) for number in range(20, 40)]
        receipts = [future.result(60) for future in futures]
        errors = [future.exception(60) for future in bad]
    assert [type(error) for error in errors] == [MessageTooLarge, errors[1].__class__, errors[2].__class__]
    assert all(isinstance(error, LakemqError) for error in errors)
    placed = {(message.queue_id, message.queue_offset): message.body for message in stored(gateway.url, topic)}
    assert [placed[receipt.queue_id, receipt.queue_offset] for receipt in receipts] == [b"%d" % n for n in range(40)]
    assert len(placed) == 41


@pytest.mark.parametrize("compression", ["lz4", "zstd", None])
def test_large_bodies_arrive_as_they_were(gateway: GatewayProcess, topic: str, compression: Any) -> None:
    body = b"lakemq " * 10_000
    with Producer(gateway.url, compression=compression) as producer:
        producer.send(topic, body)
        producer.send(topic, body, delay_level=0)
    assert bodies(gateway.url, topic) == [body, body]


def test_errors_of_the_broker_reach_the_sender(producer: Producer) -> None:
    with pytest.raises(ReadOnlyTopic):
        producer.send("%RETRY%g", b"x")
    assert isinstance(producer.send_async("%RETRY%g", b"x").exception(60), ReadOnlyTopic)


@pytest.mark.parametrize("name", ["", "no topic"])
def test_a_name_that_is_none_is_refused_at_once(producer: Producer, name: str) -> None:
    for send in (producer.send, producer.send_async, producer.send_oneway, producer.request):
        with pytest.raises(InvalidTopic):
            send(name, b"x")
    with pytest.raises(InvalidTopic):
        producer.send_batch(name, [b"x"])


def test_a_future_tells_its_callbacks_from_the_clients_thread_or_at_once(producer: Producer, topic: str) -> None:
    told: list[SendReceipt] = []
    done = threading.Event()

    def tell(future: SendFuture) -> None:
        told.append(future.result())
        done.set()

    future = producer.send_async(topic, b"x")
    future.add_done_callback(tell)
    assert done.wait(60)
    future.add_done_callback(tell)
    assert told == [future.result()] * 2
    assert future.done()
    assert future.exception() is None


def test_a_callback_that_fails_keeps_no_other_from_being_told(
    producer: Producer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    done = threading.Event()
    future = producer.send_async(topic, b"x")
    future.add_done_callback(lambda _: 1 / 0)
    future.add_done_callback(lambda _: done.set())
    assert done.wait(60)
    assert "callback" in caplog.text


def test_threads_share_a_producer(producer: Producer, gateway: GatewayProcess, topic: str) -> None:
    def send(thread: int) -> None:
        for number in range(50):
            producer.send(topic, b"%d-%d" % (thread, number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, range(8)))
    assert len(set(bodies(gateway.url, topic))) == 400


def test_a_request_without_a_reply_times_out(producer: Producer, topic: str) -> None:
    with pytest.raises(RequestTimeout):
        producer.request(topic, "anybody?", timeout_s=0.05)
    with pytest.raises(InvalidRequest):
        producer.request(topic, "later?", timeout_s=0.05, delay=1)


def test_a_reply_reaches_who_asked(producer: Producer, gateway: GatewayProcess, topic: str) -> None:
    def reply() -> None:
        with HttpClient(gateway.url) as http, connect(gateway) as web:
            (question,) = http.pull(topic, 0, 0, wait_ms=30_000).messages
            assert question.properties is not None
            content = {"body": question.body.decode().upper(), "tag": "answer"}
            web.post(f"/v1/replies/{question.properties['correlation_id']}", json=content).raise_for_status()

    with HttpClient(gateway.url) as http:
        http.create_topic(topic, 1)
    answering = threading.Thread(target=reply)
    answering.start()
    answer = producer.request(topic, "who is there?", timeout_s=30, properties={"a": "b"})
    answering.join()
    assert (answer.text(), answer.tag) == ("WHO IS THERE?", "answer")


# What becomes of messages that nobody takes ---------------------------------------------------------


def test_a_send_that_reaches_nobody_says_so() -> None:
    with Producer(DEAD, timeout_s=0.3, attempt_timeout_s=0.3) as producer, pytest.raises(Unreachable) as raised:
        producer.send("orders", b"x")
    assert not raised.value.sent


@pytest.mark.usefixtures("quick_switches")
def test_the_buffer_is_bounded_and_sending_waits_for_room() -> None:
    producer = Producer(DEAD, timeout_s=3, attempt_timeout_s=3, batch_bytes=10_000, buffer_bytes=50_000)
    futures: list[SendFuture] = []
    try:
        for _ in range(80):
            futures.append(producer.send_async("orders", b"x" * 1000))
            assert sum(not future.done() for future in futures) <= 51
    finally:
        with pytest.raises(SendFailed):
            producer.close()
    assert all(isinstance(future.exception(0), Unreachable) for future in futures)


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """The threads take turns so often that one meets the other anywhere."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual_s)


def test_close_says_what_it_could_not_send() -> None:
    producer = Producer(DEAD, timeout_s=0.3, attempt_timeout_s=0.3)
    sent = [Message(body=b"a", tag="t", keys=("k",), properties={"p": "q"}), Message(body=b"b", delay=1)]
    futures = [producer.send_async("orders", message) for message in sent]
    producer.send_oneway("orders", b"nobody asks for it")
    with pytest.raises(SendFailed, match="2 messages") as raised:
        producer.close()
    assert [message for message, _ in raised.value.failures] == sent
    assert all(isinstance(error, Unreachable) for _, error in raised.value.failures)
    assert isinstance(futures[0].exception(), Unreachable)
    producer.close()
    with pytest.raises(Closed):
        producer.send("orders", b"x")


def test_close_also_says_what_failed_before_and_nobody_asked_for(gateway: GatewayProcess, topic: str) -> None:
    large = b"x" * 5_000_000
    producer = Producer(gateway.url)
    asked, seen = producer.send_async(topic, large), producer.send_async(topic, large)
    with pytest.raises(MessageTooLarge):
        asked.result(60)
    assert isinstance(seen.exception(60), MessageTooLarge)
    producer.send_async(topic, large, tag="unasked")
    producer.send_async(topic, b"stored")
    producer.send_oneway(topic, large)
    producer.flush()
    with pytest.raises(SendFailed, match="1 messages") as raised:
        producer.close()
    assert [(message.tag, type(error)) for message, error in raised.value.failures] == [("unasked", MessageTooLarge)]
    producer.close()


def test_what_nobody_asks_for_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    producer = Producer(DEAD, timeout_s=0.1, attempt_timeout_s=0.1)
    for _ in range(1_500):
        producer.send_async("orders", b"x")
    producer.flush()
    with pytest.raises(SendFailed, match="1000 messages"):
        producer.close()
    assert "more messages failed" in caplog.text


def test_a_closed_producer_that_was_never_used_sends_nothing(gateway: GatewayProcess, topic: str) -> None:
    producer = Producer(gateway.url)
    producer.close()
    uses: list[Any] = [
        lambda: producer.send_batch(topic, ["x"]),
        lambda: producer.send_batch(topic, [Message(body="x", ordering_key="k")]),
        lambda: producer.request(topic, "x"),
        lambda: producer.send(topic, "x", ordering_key="k"),
        lambda: producer.send(topic, b"x"),
    ]
    for use in uses:
        with pytest.raises(Closed):
            use()


def test_close_gives_up_when_its_time_is_over() -> None:
    producer = Producer(DEAD, timeout_s=60, attempt_timeout_s=5)
    future = producer.send_async("orders", b"x")
    waiting = producer.send_async("orders", b"y")
    with pytest.raises(SendFailed):
        producer.close(timeout_s=0.1)
    assert isinstance(future.exception(0), Closed)
    assert isinstance(waiting.exception(0), Closed)


def test_a_producer_that_ends_by_another_error_does_not_hide_it(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        with Producer(DEAD, timeout_s=0.2, attempt_timeout_s=0.2) as producer:
            producer.send_async("orders", b"x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert "1 messages could not be sent" in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        {"linger_ms": -1},
        {"batch_bytes": 0},
        {"batch_messages": 0},
        {"in_flight_max": 0},
        {"buffer_bytes": 10},
        {"compression": "gzip"},
        {"ack": "none"},
        {"retries": -1},
        {"timeout_s": 1, "attempt_timeout_s": 2},
    ],
)
def test_an_impossible_option_is_refused(options: Any) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(reversed(options)))):
        Producer(DEAD, **options)


def test_an_unknown_option_is_refused() -> None:
    options: Any = {"batch_size": 5}
    with pytest.raises(TypeError, match="batch_size"):
        Producer(DEAD, **options)
