"""A broker in memory is a broker: the contract, its limits and its errors, without a file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from lakemq.client import MessageView, Producer, PushConsumer, SimpleConsumer
from lakemq.client.http import HttpClient
from lakemq.model.errors import SettingsError, StoreUnwritable, Unauthenticated
from lakemq.model.message import Draft
from lakemq.testing import ManualClock, MemoryBroker
from lakemq.web.listen import CantListen

WAIT_S_MAX = 60
MANY = 1_000
SOON_MS, HOUR_MS = 600_000, 3_600_000
LATE_MS = 1_000
"""What is due beyond the lead is found by the second."""


@pytest.fixture(scope="module")
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker() as broker:
        yield broker
    assert not Path("/lakemq").exists()


def wait_until(done: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WAIT_S_MAX
    while not done():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_its_administrator_has_a_token() -> None:
    with MemoryBroker(auth__required="true") as broker:
        with HttpClient(broker.url, token=broker.token) as admin:
            assert admin.produce("orders", [Draft(b"x")])
        with HttpClient(broker.url) as nobody, pytest.raises(Unauthenticated):
            nobody.produce("orders", [Draft(b"x")])


def test_messages_go_through_it_by_all_clients(broker: MemoryBroker) -> None:
    heard: list[str] = []
    done = threading.Event()

    def listen(message: MessageView) -> None:
        heard.append(message.text())
        if len(heard) == 20:
            done.set()

    with Producer(brokers=broker.url) as producer:
        producer.send("all", "0", tag="t", keys=["k"])
        with PushConsumer("pushed", listen, brokers=broker.url, consume_from="first") as pushed:
            pushed.subscribe("all")
            for number in range(1, 20):
                producer.send("all", str(number))
            assert done.wait(WAIT_S_MAX)
    assert sorted(heard, key=int) == [str(number) for number in range(20)]
    with HttpClient(broker.url) as client:
        (found,), complete = client.messages_by_key("all", "k")
        assert (found.body, complete) == (b"0", True)
        assert client.is_ready()
    with SimpleConsumer("simple", brokers=broker.url) as consumer:
        messages = consumer.receive("all", 32, wait_s=10)
        assert consumer.ack(messages) == ["ok"] * len(messages) != []


def test_a_transaction_is_seen_once_it_is_committed(broker: MemoryBroker) -> None:
    with HttpClient(broker.url) as client:
        begun = client.begin_transactions("paid", "pg", [Draft(b"yes"), Draft(b"no")])
        client.resolve(begun[0].transaction_id, "pg", "commit")
        client.resolve(begun[1].transaction_id, "pg", "rollback")
        queues = client.topic("paid")["queues"]
        pulled = [each for queue in queues for each in client.pull("paid", queue["queue_id"], 0).messages]
        assert [message.body for message in pulled] == [b"yes"]


def test_time_passes_when_the_clock_says_so() -> None:
    clock = ManualClock()
    with MemoryBroker(clock=clock) as broker, HttpClient(broker.url) as client:
        begin_ms = clock.time_ms
        client.create_topic("later", 1)
        client.produce("later", [Draft(b"soon", delay_ms=SOON_MS), Draft(b"in an hour", delay_ms=HOUR_MS)])
        clock.time_ms += SOON_MS - 1
        assert client.pull("later", 0, 0, wait_ms=1_500).messages == ()
        clock.time_ms += 1
        (message,) = client.pull("later", 0, 0, wait_ms=WAIT_S_MAX * 1000).messages
        assert (message.body, message.store_time_ms) == (b"soon", begin_ms + SOON_MS)
        clock.time_ms = begin_ms + HOUR_MS + LATE_MS
        (message,) = client.pull("later", 0, 1, wait_ms=WAIT_S_MAX * 1000).messages
        assert message.body == b"in an hour"


def test_the_log_goes_over_many_segments_and_ends_where_the_setting_says() -> None:
    mib = 2**20
    with MemoryBroker(
        storage__segment_bytes=mib, storage__log_bytes_max=4 * mib, storage__compression="none"
    ) as broker:
        with HttpClient(broker.url) as client:
            client.create_topic("full", 1)
            stored = fill(client)
            assert 10 < stored < MANY
            pulled = [client.pull("full", 0, offset, 1).messages[0] for offset in range(stored)]
            assert [message.body.rstrip(b"x") for message in pulled] == [b"%d" % number for number in range(stored)]
        assert broker.files.size_bytes > 3 * mib


def fill(client: HttpClient) -> int:
    """How many large messages it takes."""
    for stored in range(MANY):
        try:
            client.produce("full", [Draft(b"%d" % stored + b"x" * 300_000)])
        except StoreUnwritable:
            return stored
        time.sleep(0.02)  # it looks at its size every now and then
    return MANY


def test_each_is_a_broker_of_its_own_and_what_it_held_is_gone() -> None:
    for _ in range(2):
        with MemoryBroker(broker__name="a") as a, MemoryBroker(broker__name="b") as b:
            with HttpClient(a.url) as client:
                assert client.topics() == []
                client.create_topic("only-a", 1)
            with HttpClient(b.url) as client:
                assert (client.broker()["name"], client.topics()) == ("b", [])


def test_who_waits_is_answered_when_it_stops() -> None:
    broker = MemoryBroker()
    answers: list[int] = []
    with HttpClient(broker.url) as client:
        client.create_topic("t", 1)
        thread = threading.Thread(target=lambda: answers.append(client.pull("t", 0, 0, wait_ms=50_000).next_offset))
        thread.start()
        wait_until(lambda: "lakemq_waiting_requests 1.0" in metrics(broker.url))
        broker.stop()
        thread.join(WAIT_S_MAX)
    assert answers == [0]


def metrics(url: str) -> str:
    return httpx.get(f"{url}/metrics", trust_env=False, timeout=WAIT_S_MAX).text


def test_what_keeps_it_from_starting_is_raised_here(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="topics"):
        MemoryBroker(topics__no_such=1)
    with pytest.raises(CantListen):
        MemoryBroker(gateway__port=int(broker.url.rpartition(":")[2]))
    monkeypatch.setenv("LAKEMQ_TOPICS__DEFAULT_QUEUES", "7")  # of the environment it takes nothing
    with MemoryBroker(topics__default_queues=2) as other, Producer(brokers=other.url) as producer:
        producer.send("t", "x")
        with HttpClient(other.url) as client:
            assert len(client.topic("t")["queues"]) == 2
