"""What bodies may be, and what they are read as."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import attrs
import pydantic
import pytest

from lakemq.client import (
    DecodeError,
    Encoded,
    Message,
    MessageView,
    Producer,
    PullConsumer,
    PushConsumer,
    Received,
    Resolution,
    SimpleConsumer,
    TransactionProducer,
    aio,
)
from lakemq.client.bodies.decoder import check_kind
from lakemq.client.bodies.json_value import json_of
from lakemq.client.outgoing import parts_of
from lakemq.model.errors import InvalidRequest
from lakemq.testing import GatewayProcess
from tests.client.consuming import Seen, wait_until
from tests.client.producing import stored

JSON = {"content_type": "application/json"}


class Colour(Enum):
    RED = "red"


@dataclass
class Line:
    article: str
    price: Decimal


@dataclass
class Order:
    number: int
    lines: list[Line] = field(default_factory=list[Line])
    at: datetime | None = None


class Invoice(pydantic.BaseModel):
    number: int = pydantic.Field(alias="invoiceNumber")
    amount: float


@attrs.define
class Parcel:
    weight: float
    _tracked: bool = False


ORDER = Order(7, [Line("book", Decimal("12.50"))], datetime(2026, 11, 26, tzinfo=UTC))
MODELS = [ORDER, Invoice(invoiceNumber=1, amount=2.5), Parcel(1.5, True), Parcel(0.5)]


def received(body: bytes) -> MessageView:
    return MessageView.of({"body": body.decode(), "message_id": "b.1", "topic": "t", "queue_id": 0, "queue_offset": 0})


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_models_come_back_as_they_were_sent(model: Any) -> None:
    body, fields = parts_of(model, {"tag": "T"})
    assert fields == {"tag": "T", "properties": JSON}
    assert received(body).decode(type(model)) == model


def test_json_is_any_value_and_says_so_unless_the_sender_does() -> None:
    value = {"a": [1, None, "é"], "b": ORDER, "c": Colour.RED, "d": UUID(int=1), "e": MODELS[1:3]}
    body, fields = parts_of(None, {"properties": {"a": "b"}, "json": value})
    assert fields == {"properties": {**JSON, "a": "b"}}
    assert json.loads(body)["b"]["lines"] == [{"article": "book", "price": "12.50"}]
    assert json.loads(body)["e"] == [{"invoiceNumber": 1, "amount": 2.5}, {"weight": 1.5, "tracked": True}]
    for given in ({"body": {"a": 1}}, {"json": {"a": 1}}):
        message = Message(**given, properties={"content_type": "application/x"})  # pyright: ignore[reportArgumentType]
        assert parts_of(message, {}) == (b'{"a":1}', {"properties": {"content_type": "application/x"}})
    assert parts_of(None, {"json": False}) == (b"false", {"properties": JSON})
    assert Message(json=[1]) == Message(body=b"[1]", properties=JSON)


def test_bytes_and_text_go_as_they_are() -> None:
    for body in (b"x", "x", bytearray(b"x")):
        assert parts_of(body, {}) == (b"x", {})


def itself() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (float("nan"), "neither NaN nor infinity"),
        ({"a": [None, float("-inf")]}, "neither NaN nor infinity"),
        ([Line("x", Decimal(1)), Invoice(invoiceNumber=1, amount=float("inf"))], "neither NaN nor infinity"),
        (Parcel(float("nan")), "neither NaN nor infinity"),
        (itself(), "Recursion limit reached"),
        ({1: 2}, "Dict key must be str"),
        (2**70, "exceeds 64-bit"),
        ("\ud800", "surrogates not allowed"),
        ({"a": object()}, "there is no JSON for a object"),
        ({"a": {1, 2}}, "there is no JSON for a set"),
    ],
)
def test_what_can_not_be_json_is_refused_with_why(value: Any, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        parts_of(None, {"json": value})
    with pytest.raises(InvalidRequest, match=said):
        Message(json=value)


def test_null_is_no_infinity() -> None:
    value = [None, Colour.RED, datetime(2026, 1, 1, tzinfo=UTC), Parcel(1.0), UUID(int=0), "null"]
    assert json_of(value).startswith(b'[null,"red","2026-01-01')


def test_a_message_has_one_body() -> None:
    for wrong in list[Any]([{"body": "x", "json": 1}, {"body": b"", "json": 1}, {}]):
        with pytest.raises(InvalidRequest, match="a message has a body, or json"):
            Message(**wrong)
        with pytest.raises(InvalidRequest, match="a message has a body, or json"):
            parts_of(wrong.get("body"), {"json": wrong.get("json")})
    with pytest.raises(InvalidRequest, match="a Message says everything itself: tag, json belongs in it"):
        parts_of(Message(body="x"), {"tag": "T", "json": 1})


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (b'{"number": "x"}', Order, "the body is no Order: number: Input should be a valid integer"),
        (b"{}", Order, "number: Field required"),
        (b"secret", Order, "the body is no Order: Invalid JSON"),
        (b"[1]", dict[str, int], "no dict"),
        (b'{"weight": []}', Parcel, "weight: Input should be a valid number"),
        (b"[" + b'"secret",' * 9 + b"1]", list[int], "and 4 more"),
    ],
)
def test_a_body_that_does_not_fit_is_an_error_that_says_where_and_not_what(body: bytes, kind: Any, said: str) -> None:
    with pytest.raises(DecodeError, match=said) as error:
        received(body).decode(kind)
    assert error.value.code == "decode_error"
    assert "secret" not in str(error.value)


def test_bodies_are_read_as_bytes_text_and_what_python_has() -> None:
    message = received(b'{"a": 1}')
    assert (message.decode(bytes), message.decode(str), message.decode(dict)) == (b'{"a": 1}', '{"a": 1}', {"a": 1})
    with pytest.raises(DecodeError, match="no text"):
        MessageView.of({"body": "/w==", "body_encoding": "base64"}).decode(str)
    for wrong in (object(), Producer):
        with pytest.raises(InvalidRequest, match="can't be read as"):
            check_kind(wrong)


def reverse(body: Any) -> Encoded | bytes:
    text = str(body)[::-1].encode()
    return Encoded(text, "text/x-reversed") if isinstance(body, tuple) else text


def forwards(message: Received, kind: Any) -> Any:
    return kind(message.body.decode()[::-1])


def test_an_encoder_makes_what_is_neither_bytes_nor_text_nor_json() -> None:
    assert parts_of(123, {}, reverse) == (b"321", {})
    assert parts_of(Message(body=(1,), tag="T"), {}, reverse) == (
        b"),1(",
        {"tag": "T", "properties": {"content_type": "text/x-reversed"}},
    )
    assert parts_of("123", {}, reverse)[0] == b"123"
    assert parts_of(None, {"json": 123}, reverse)[0] == b"123"
    wrong: list[Any] = [lambda _: "text", lambda _: None, lambda _: Encoded("text")]  # pyright: ignore[reportArgumentType, reportUnknownLambdaType]
    for encoder in wrong:
        with pytest.raises(InvalidRequest, match="an encoder returns bytes, or Encoded"):
            parts_of(123, {}, encoder)


def test_what_an_encoder_raises_its_sender_gets() -> None:
    def fails(body: Any) -> bytes:
        raise ZeroDivisionError(body)

    with pytest.raises(ZeroDivisionError):
        parts_of(123, {}, fails)


class Commits:
    def execute_local_transaction(self, message: Message, transaction_id: str, argument: Any) -> Resolution:
        assert message.body == 123
        return Resolution.COMMIT

    def check_local_transaction(self, message: MessageView) -> Resolution:
        return Resolution.COMMIT


def test_every_way_to_send_takes_json_and_bodies_by_the_encoder(gateway: GatewayProcess, topic: str) -> None:
    with Producer(gateway.url, encoder=reverse) as producer:
        producer.send(topic, json={"n": 1}, tag="T")
        producer.send_async(topic, json={"n": 2}).result()
        producer.send_oneway(topic, json={"n": 3})
        producer.send_batch(topic, [Message(json={"n": 4}), Message(body=123), 456, "789"])
        producer.send(topic, 1000, queue_id=0)
        producer.send_async(topic, 1001).result()
    with TransactionProducer("g", Commits(), gateway.url, encoder=reverse) as transactions:
        transactions.send_in_transaction(topic, 123)

    async def again() -> None:
        async with aio.Producer(gateway.url, encoder=reverse) as producer:
            await producer.send(topic, json={"n": 5})
            await (await producer.send_async(topic, 1002))
            await producer.send_oneway(topic, json={"n": 6})
            await producer.send_batch(topic, [Message(json={"n": 7}), 1003])

    asyncio.run(again())
    said: list[Any] = []
    plain: set[bytes] = set()
    wait_until(lambda: len(stored(gateway.url, topic)) == 15)
    for message in stored(gateway.url, topic):
        if message.properties.get("content_type") == "application/json":
            said.append(message.json()["n"])
        else:
            plain.add(message.body)
    assert sorted(said) == [1, 2, 3, 4, 5, 6, 7]
    assert plain == {b"321", b"654", b"789", b"0001", b"1001", b"2001", b"3001"}


def test_a_reply_may_be_json_and_a_consumer_has_its_decoder(gateway: GatewayProcess, topic: str) -> None:
    seen = Seen()

    def listen(message: MessageView) -> None:
        seen.add(message)
        consumer.reply(message, json={"answer": message.decode(int)})

    with (
        Producer(gateway.url, encoder=reverse) as producer,
        PushConsumer(topic, listen, brokers=gateway.url, consume_from="first", decoder=forwards) as consumer,
    ):
        consumer.subscribe(topic)
        answer = producer.request(topic, 42, timeout_s=60)
        assert (answer.json(), answer.properties["content_type"]) == ({"answer": 42}, "application/json")
    assert seen.messages[0].body == b"24"


def test_consumers_that_receive_and_pull_have_a_decoder_too(gateway: GatewayProcess, topic: str) -> None:
    with Producer(gateway.url, encoder=reverse) as producer:
        producer.send(topic, 42)
    with SimpleConsumer(topic, brokers=gateway.url, decoder=forwards) as consumer:
        (message,) = consumer.receive(topic, wait_s=60)
        assert (message.body, message.decode(int)) == (b"24", 42)
    with PullConsumer(topic, brokers=gateway.url, consume_from="first", decoder=forwards) as consumer:
        consumer.subscribe(topic)
        while not (batch := consumer.poll(wait_s=60)):
            pass
        assert batch[0].decode(int) == 42
