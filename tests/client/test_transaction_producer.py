"""Transactions from the client, in both faces, against real gateways."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from lakemq.client import Message, MessageView, Resolution, TransactionListener, TransactionProducer, aio
from lakemq.client.http import HttpClient
from lakemq.model.errors import InvalidRequest, TransactionResolved
from lakemq.model.message import Draft
from lakemq.testing import GatewayProcess
from tests.client.producing import bodies
from tests.gateway.http_client import connect
from tests.gateway.routing.asking import decide, position


class Ledger(TransactionListener):
    """Ends each transaction as the message's property `end` says; an answer to a check is `answer`."""

    def __init__(self, answer: Resolution = Resolution.COMMIT) -> None:
        self.executed: list[tuple[str, Any]] = []
        self.checked: list[MessageView] = []
        self.answer = answer
        self.asked = threading.Event()

    def execute_local_transaction(self, message: Message, transaction_id: str, argument: Any) -> Resolution:
        self.executed.append((transaction_id, argument))
        assert message.properties is not None
        end = message.properties["end"]
        if end == "error":
            raise ZeroDivisionError
        return Resolution(end)

    def check_local_transaction(self, message: MessageView) -> Resolution:
        self.checked.append(message)
        self.asked.set()
        return self.answer


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def producer(gateway: GatewayProcess, ledger: Ledger, topic: str) -> Iterator[TransactionProducer]:
    with TransactionProducer(topic, ledger, gateway.url) as made:
        yield made


def test_only_what_commits_is_seen(
    producer: TransactionProducer, ledger: Ledger, gateway: GatewayProcess, topic: str
) -> None:
    ends = ["commit", "rollback", "unknown", "commit"]
    results = [
        producer.send_in_transaction(topic, f"{number}", number, properties={"end": end})
        for number, end in enumerate(ends)
    ]
    assert [result.resolution for result in results] == [Resolution(end) for end in ends]
    assert ledger.executed == [(result.transaction_id, number) for number, result in enumerate(results)]
    assert sorted(bodies(gateway.url, topic)) == [b"0", b"3"]


def test_an_error_in_the_listener_is_raised_and_leaves_the_transaction_open(
    producer: TransactionProducer, ledger: Ledger, gateway: GatewayProcess, topic: str
) -> None:
    with pytest.raises(ZeroDivisionError):
        producer.send_in_transaction(topic, "x", properties={"end": "error"})
    with HttpClient(gateway.url) as http:
        http.resolve(ledger.executed[0][0], topic, "commit")
    assert bodies(gateway.url, topic) == [b"x"]


def test_what_was_resolved_otherwise_meanwhile_is_an_error(gateway: GatewayProcess, topic: str) -> None:
    class Meddler(Ledger):
        def execute_local_transaction(self, message: Message, transaction_id: str, argument: Any) -> Resolution:
            with HttpClient(gateway.url) as http:
                http.resolve(transaction_id, topic, "rollback")
            return Resolution.COMMIT

    with TransactionProducer(topic, Meddler(), gateway.url) as producer, pytest.raises(TransactionResolved):
        producer.send_in_transaction(topic, "x")


def test_that_the_broker_could_not_be_told_is_no_error(
    gateway: GatewayProcess, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Closing(Ledger):
        def execute_local_transaction(self, message: Message, transaction_id: str, argument: Any) -> Resolution:
            producer.close()
            return Resolution.COMMIT

    producer = TransactionProducer(topic, Closing(), gateway.url)
    receipt = producer.send_in_transaction(topic, "x")
    assert receipt.resolution is Resolution.COMMIT
    assert "could not report the outcome of transaction" in caplog.text
    with HttpClient(gateway.url) as http:
        http.resolve(receipt.transaction_id, topic, "commit")  # as the answer to the broker's question would
    assert bodies(gateway.url, topic) == [b"x"]


def test_an_error_in_the_listener_is_raised_though_the_transaction_has_ended(
    gateway: GatewayProcess, topic: str
) -> None:
    class Meddler(Ledger):
        def execute_local_transaction(self, message: Message, transaction_id: str, argument: Any) -> Resolution:
            with HttpClient(gateway.url) as http:
                http.resolve(transaction_id, topic, "rollback")
            raise ZeroDivisionError

    with TransactionProducer(topic, Meddler(), gateway.url) as producer, pytest.raises(ZeroDivisionError):
        producer.send_in_transaction(topic, "x")


def test_a_transaction_can_not_be_delayed_and_other_messages_are_sent_as_ever(
    producer: TransactionProducer, gateway: GatewayProcess, topic: str
) -> None:
    with pytest.raises(InvalidRequest, match="delayed"):
        producer.send_in_transaction(topic, "x", delay=1, properties={"end": "commit"})
    producer.send(topic, "plain")
    queues = {
        producer.send_in_transaction(topic, "x", ordering_key="k", properties={"end": "commit"}).broker
        for _ in range(2)
    }
    assert len(queues) == 1
    assert sorted(bodies(gateway.url, topic)) == [b"plain", b"x", b"x"]


@pytest.mark.parametrize(("answer", "seen"), [(Resolution.COMMIT, [b"left"]), (Resolution.ROLLBACK, [])])
def test_any_producer_of_the_group_is_asked_about_what_another_left_open(
    gateway: GatewayProcess, topic: str, answer: Resolution, seen: list[bytes]
) -> None:
    ledger = Ledger(answer)
    with HttpClient(gateway.url) as http, TransactionProducer(topic, ledger, gateway.url):
        (left,) = http.begin_transactions(topic, topic, [Draft(b"left")])
        _check(gateway, left.transaction_id)
        assert ledger.asked.wait(60)
    (message,) = ledger.checked
    assert (message.body, message.transaction_id, message.topic) == (b"left", left.transaction_id, topic)
    with HttpClient(gateway.url) as http:
        http.resolve(left.transaction_id, topic, answer.value)  # waits for the one that is under way
    assert bodies(gateway.url, topic) == seen


def test_a_check_that_fails_leaves_the_transaction_open(gateway: GatewayProcess, topic: str) -> None:
    class Failing(Ledger):
        def check_local_transaction(self, message: MessageView) -> Resolution:
            self.asked.set()
            raise ZeroDivisionError

    ledger = Failing()
    with HttpClient(gateway.url) as http, TransactionProducer(topic, ledger, gateway.url):
        (left,) = http.begin_transactions(topic, topic, [Draft(b"left")])
        _check(gateway, left.transaction_id)
        assert ledger.asked.wait(60)
        http.resolve(left.transaction_id, topic, "commit")
    assert bodies(gateway.url, topic) == [b"left"]


def _check(gateway: GatewayProcess, transaction_id: str) -> None:
    """Decide as the transaction query would after the time-out."""
    with connect(gateway) as http:
        assert decide(http, "check", [position(transaction_id)])["accepted"] == 1


def test_the_same_with_asyncio(gateway: GatewayProcess, topic: str) -> None:
    class Listener(aio.TransactionListener):
        async def execute_local_transaction(self, message: Message, transaction_id: str, argument: Any) -> Resolution:
            await asyncio.sleep(0)
            return argument

        async def check_local_transaction(self, message: MessageView) -> Resolution:
            return Resolution.UNKNOWN

    async def send() -> None:
        async with aio.TransactionProducer(topic, Listener(), gateway.url) as producer:
            await producer.start()
            result = await producer.send_in_transaction(topic, "a", Resolution.COMMIT)
            assert result.resolution is Resolution.COMMIT
            await producer.send_in_transaction(topic, "b", Resolution.ROLLBACK)
            await producer.send(topic, "c")

    asyncio.run(send())
    assert sorted(bodies(gateway.url, topic)) == [b"a", b"c"]
