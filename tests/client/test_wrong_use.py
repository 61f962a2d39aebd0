"""What a program gives by mistake is refused where it gives it, with what was expected."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakemq.client import Message, MessageView, PushConsumer, Resolution, SimpleConsumer, TransactionProducer, aio
from lakemq.client.consume.offset_store import LocalOffsets, offset_files
from lakemq.client.consume.subscription import make_subscription
from lakemq.client.outgoing import check_topic, parts_of
from lakemq.model.errors import InvalidRequest, InvalidTopic

NOWHERE = "http://127.0.0.1:1"


async def asynchronous(_message: MessageView) -> None: ...


def plain(_message: MessageView) -> None: ...


def generator(_message: MessageView) -> Iterator[None]:
    yield


async def asynchronous_generator(_message: MessageView) -> AsyncIterator[None]:
    yield


class Called:
    def __call__(self, _message: MessageView) -> None: ...


class CalledAsync:
    async def __call__(self, _message: MessageView) -> None: ...


@pytest.mark.parametrize(
    ("listener", "said"),
    [
        (asynchronous, "asynchronous is an async def, which a call doesn't run: use lakemq.client.aio"),
        (functools.partial(asynchronous), "is an async def"),
        (CalledAsync(), "CalledAsync is an async def"),
        (generator, "has a yield in it"),
        (asynchronous_generator, "has a yield in it"),
        (lambda: None, "can't be called with .message."),
        ("listen", "a listener is a function that takes messages, not 'listen'"),
    ],
)
@pytest.mark.parametrize("name", ["listener", "batch_listener"])
def test_a_consumer_in_threads_refuses_what_a_call_would_not_run(name: str, listener: Any, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        PushConsumer("g", brokers=NOWHERE, **{name: listener})


@pytest.mark.parametrize(
    ("listener", "said"),
    [
        (plain, "plain is no async def: a plain function would hold up all else here; use lakemq.client"),
        (Called(), "Called is no async def"),
        (asynchronous_generator, "has a yield in it"),
    ],
)
@pytest.mark.parametrize("name", ["listener", "batch_listener"])
def test_a_consumer_with_asyncio_refuses_what_it_can_not_await(name: str, listener: Any, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        aio.PushConsumer("g", brokers=NOWHERE, **{name: listener})


def test_each_takes_its_own_kind_of_function() -> None:
    PushConsumer("g", plain, brokers=NOWHERE)
    PushConsumer("g", Called(), brokers=NOWHERE)
    aio.PushConsumer("g", asynchronous, brokers=NOWHERE)
    aio.PushConsumer("g", CalledAsync(), brokers=NOWHERE)


class Mixed:
    """Executes as the one, checks as the other."""

    def execute_local_transaction(self, _message: Message, _transaction_id: str, _argument: Any) -> Resolution:
        return Resolution.COMMIT

    async def check_local_transaction(self, _message: MessageView) -> Resolution:
        return Resolution.COMMIT


def test_transaction_producers_refuse_the_other_kind_of_listener() -> None:
    mixed: Any = Mixed()
    with pytest.raises(InvalidRequest, match="check_local_transaction is an async def"):
        TransactionProducer("g", mixed, NOWHERE)
    with pytest.raises(InvalidRequest, match="execute_local_transaction is no async def"):
        aio.TransactionProducer("g", mixed, NOWHERE)


class Checks:
    """Answers checks, and executes nothing."""

    def check_local_transaction(self, _message: MessageView) -> Resolution:
        return Resolution.COMMIT


class Unmade(Checks):
    """As a class it lacks its `self`."""

    def execute_local_transaction(self, _message: Message, _transaction_id: str, _argument: Any) -> Resolution:
        return Resolution.COMMIT


@pytest.mark.parametrize(
    ("listener", "said"),
    [
        (
            plain,
            r"an object with execute_local_transaction\(message, transaction_id, argument\) and check_.*, not <func",
        ),
        (None, "an object with .*, not None"),
        (Checks(), "an object with .*, not <.*Checks"),
        (Unmade, r"execute_local_transaction can't be called with \(message, transaction_id, argument\)"),
    ],
)
@pytest.mark.parametrize("make", [TransactionProducer, aio.TransactionProducer])
def test_what_is_no_listener_of_transactions_is_refused_with_what_was_expected(
    make: Any, listener: Any, said: str
) -> None:
    """Regression: it was an AttributeError."""
    with pytest.raises(InvalidRequest, match=said if make is TransactionProducer else "listener"):
        make("g", listener, NOWHERE)


@pytest.mark.parametrize(
    ("body", "fields", "said"),
    [
        (5, {}, "a body is bytes, text, a dictionary, a list, a dataclass or a model, not 5 (int)"),
        (None, {}, "a message has a body, or json, not None (NoneType)"),
        ("x", {"keys": [42]}, "a key is text, not 42 (int)"),
        ("x", {"keys": 42}, "keys are text, or a list of texts, not 42 (int)"),
        ("x", {"keys": b"k"}, "keys are text, or a list of texts, not b'k' (bytes)"),
        ("x", {"tag": 5}, "tag is text, not 5 (int)"),
        ("x", {"properties": ["a"]}, "properties are a mapping of text to text, not ['a'] (list)"),
        ("x", {"properties": {"a": 1}}, "the names and values of properties are text, not 1 (int)"),
        ("x", {"queue_id": "0"}, "queue_id is a whole number, not '0' (str)"),
        ("x", {"queue_id": True}, "queue_id is a whole number, not True (bool)"),
        ("x", {"delay": "5s"}, "delay is seconds, or a timedelta, not '5s' (str)"),
        ("x", {"deliver_at": 1}, "deliver_at is a datetime with a time zone, not 1 (int)"),
    ],
)
def test_what_no_message_can_be_is_refused_with_what_was_expected(body: Any, fields: Any, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parts_of(body, fields)
    assert refused.value.detail == said
    assert isinstance(refused.value, TypeError), "as Python's own functions say it"
    if fields:
        with pytest.raises(InvalidRequest):
            Message(body=body, **fields)


@pytest.mark.parametrize(
    ("body", "fields", "what"),
    [
        ("\ud800", {}, "the body"),
        ("x", {"tag": "\ud800"}, "tag"),
        ("x", {"ordering_key": "é\udfff"}, "ordering_key"),
        ("x", {"keys": "\ud800"}, "a key"),
        ("x", {"keys": ["k", "\ud800"]}, "a key"),
        ("x", {"properties": {"a": "\ud800"}}, "a property"),
        ("x", {"properties": {"\ud800": "a"}}, "a property"),
    ],
)
def test_half_a_surrogate_pair_is_refused_where_it_is_given(body: str, fields: Any, what: str) -> None:
    """Regression: an ordering key was a UnicodeEncodeError, and any other text was found out as it was sent."""
    with pytest.raises(InvalidRequest, match=f"{what} is no text that UTF-8 can say"):
        parts_of(body, fields)
    if fields:
        with pytest.raises(InvalidRequest):
            Message(body=body, **fields)
    assert parts_of("é", {"tag": "é", "keys": "😀", "properties": {"é": "é"}})[0] == "é".encode()


def test_a_topic_is_looked_at_before_anything_is_sent() -> None:
    for topic, error in (("", InvalidTopic), ("a b", InvalidTopic), (None, InvalidRequest)):
        with pytest.raises(error):
            check_topic(topic)
        with pytest.raises(error):
            make_subscription(topic, "*", None)  # pyright: ignore[reportArgumentType]


def opened(*paths: Path) -> LocalOffsets:
    offsets = LocalOffsets(paths, None)  # pyright: ignore[reportArgumentType]  nothing is loaded
    offsets.open()
    return offsets


def test_broadcasters_without_a_name_each_have_a_file_that_the_next_finds_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    files = offset_files("g", None)
    first, second = opened(*files), opened(*files)
    assert (first.path, second.path) == (files[0], files[1])
    first.close()
    again = opened(*files)
    assert again.path == files[0], "one that is started again goes on where it was"
    again.close()
    second.close()


def test_a_broadcaster_with_a_name_has_its_own_file_and_nobody_else_may_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    named = [offset_files("g", name) for name in ("a", "b", "../a", "+0", "x" * 300)]
    assert len({files[0] for files in named} | {offset_files("g", None)[0]}) == 6
    assert {files[0].parent for files in named} == {tmp_path / ".lakemq" / "offsets" / "g"}
    offsets = opened(*named[0])
    with pytest.raises(InvalidRequest, match="another consumer keeps its offsets in"):
        opened(*named[0])
    offsets.close()
    opened(*named[0]).close()


def a_consumer(group: Any, brokers: Any) -> Any:
    return PushConsumer(group, plain, brokers=brokers)


def a_simple_consumer(group: Any, brokers: Any) -> Any:
    return SimpleConsumer(group, brokers=brokers)


@pytest.mark.parametrize("make", [a_consumer, a_simple_consumer])
def test_a_group_and_addresses_that_are_no_text_are_named(make: Any) -> None:
    with pytest.raises(TypeError, match=r"a group is text, not None \(NoneType\)"):
        make(None, NOWHERE)
    for brokers in (42, [42]):
        with pytest.raises(TypeError, match="brokers are addresses, in a list or with commas between, not "):
            make("g", brokers)
