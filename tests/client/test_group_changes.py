"""Groups whose members come, go, and are killed, against a real gateway."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from lakemq.client import ConsumeResult, MessageView, PushConsumer
from lakemq.client.consume import rebalancer
from lakemq.model.message_queue import MessageQueue
from lakemq.model.rebalance import STRATEGIES, by_configuration
from lakemq.testing import GatewayProcess, start_gateway
from tests.client.consumer_process import ConsumerProcess
from tests.client.consuming import WAIT_S_MAX, Seen, make_topic, numbered, offsets, put, view, wait_until
from tests.ports import free_port


def queues_of(consumer: PushConsumer, topic: str) -> set[int]:
    return {queue.queue_id for queue in consumer.queues if queue.topic == topic}


def shared(topic: str, queues: int, *consumers: PushConsumer, strategy: str = "averagely") -> Callable[[], bool]:
    """Whether each queue has its owner, and no other."""
    every = [MessageQueue(topic, "broker-a", number) for number in range(queues)]

    def check() -> bool:
        expected = STRATEGIES[strategy](every, [consumer.client_id for consumer in consumers])
        return all(
            queues_of(consumer, topic) == {queue.queue_id for queue in expected[consumer.client_id]}
            for consumer in consumers
        )

    return check


@pytest.fixture
def notices_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever shares out queues does it by notice of a change: nobody looks by himself now and then."""
    monkeypatch.setattr(rebalancer, "REBALANCE_S", 3_600.0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_queues_are_shared_out_when_members_come_and_go(
    gateway: GatewayProcess, topic: str, group: str, strategy: str, notices_only: None
) -> None:
    make_topic(gateway.url, topic, 16)
    options: dict[str, Any] = {"brokers": gateway.url, "strategy": strategy}

    def member(name: str) -> PushConsumer:
        consumer = PushConsumer(group, Seen().add, client_id=name, **options)
        consumer.subscribe(topic)
        consumer.start()
        return consumer

    one = member("one")
    try:
        assert queues_of(one, topic) == set(range(16))
        two = member("two")
        three = member("three")
        wait_until(shared(topic, 16, one, two, three, strategy=strategy))
        two.close()
        wait_until(shared(topic, 16, one, three, strategy=strategy))
        three.close()
        wait_until(shared(topic, 16, one, strategy=strategy))
    finally:
        one.close()


def test_by_configuration_each_gets_what_it_is_to_get(gateway: GatewayProcess, topic: str, group: str) -> None:
    make_topic(gateway.url, topic, 3)
    queue = [MessageQueue(topic, "broker-a", number) for number in range(3)]
    options: dict[str, Any] = {
        "brokers": gateway.url,
        "strategy": by_configuration({"one": [queue[2]], "two": [queue[0], queue[1]]}),
    }
    with (
        PushConsumer(group, Seen().add, client_id="one", **options) as one,
        PushConsumer(group, Seen().add, client_id="two", **options) as two,
    ):
        for consumer in (one, two):
            consumer.subscribe(topic)
        wait_until(lambda: (queues_of(one, topic), queues_of(two, topic)) == ({2}, {0, 1}))


def test_what_a_member_hands_over_comes_once(gateway: GatewayProcess, topic: str, group: str) -> None:
    texts = numbered(4000)
    seen = Seen()
    options: dict[str, Any] = {"brokers": gateway.url, "consume_from": "first"}
    with PushConsumer(group, seen.add, **options) as one:
        one.subscribe(topic)
        put(gateway.url, topic, texts[:1000])
        for number in range(3):
            with PushConsumer(group, seen.add, **options) as other:
                other.subscribe(topic)
                put(gateway.url, topic, texts[1000 * (number + 1) : 1000 * (number + 2)])
                wait_until(shared(topic, 4, one, other))
        seen.wait(texts)
    assert Counter(seen.texts) == Counter(texts), "whoever loses a queue commits before another begins"
    assert offsets(gateway.url, group, topic) == dict.fromkeys(range(4), 1000)


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_the_queues_of_a_killed_member_move_and_nothing_is_lost(
    expiring: GatewayProcess, topic: str, group: str, orderly: bool, notices_only: None
) -> None:
    texts = numbered(400)
    make_topic(expiring.url, topic, 4)
    put(expiring.url, topic, texts)
    seen = Seen()
    with ConsumerProcess(expiring.url, group, topic, orderly, 0.01) as victim:
        wait_until(lambda: len(victim.texts) > 10)
        options: dict[str, Any] = {"brokers": expiring.url, "consume_from": "first", "orderly": orderly}
        with PushConsumer(group, seen.add, **options) as other:
            other.subscribe(topic)
            wait_until(lambda: len(queues_of(other, topic)) == 2)
            victim.kill()
            wait_until(lambda: len(queues_of(other, topic)) == 4)
            wait_until(lambda: set(texts) <= {*victim.texts, *seen.texts})
            for queue_id in range(4):  # what comes before is done, or begun, by whoever sees the last
                put(expiring.url, topic, [f"last {queue_id}"], queue_id=queue_id)
            seen.wait(numbered(4, "last "))
    assert offsets(expiring.url, group, topic) == dict.fromkeys(range(4), 101)


class Ordered:
    """A listener that keeps what each ordering key's messages were, in their order, and sees to it that
    no two of a queue are processed at a time."""

    def __init__(self, work_s: float = 0.0) -> None:
        self.by_key: dict[str, list[int]] = defaultdict(list)
        self.overlaps = 0
        self._busy: set[int] = set()
        self._work_s = work_s
        self._lock = threading.Lock()

    def listener(self, message: MessageView) -> ConsumeResult:
        with self._lock:
            self.overlaps += message.queue_id in self._busy
            self._busy.add(message.queue_id)
        if self._work_s:
            time.sleep(self._work_s)
        key, _, number = message.text().partition(":")
        with self._lock:
            self.by_key[key].append(int(number))
            self._busy.discard(message.queue_id)
        return ConsumeResult.SUCCESS

    @property
    def count(self) -> int:
        return sum(len(numbers) for numbers in self.by_key.values())


def test_order_is_kept_while_members_come_and_go(brisk: GatewayProcess, topic: str, group: str) -> None:
    keys, each = 8, 60
    make_topic(brisk.url, topic, 4)
    for key in range(keys):
        put(brisk.url, topic, numbered(each, f"k{key}:"), ordering_key=f"k{key}")
    ordered = Ordered(0.002)
    options: dict[str, Any] = {"brokers": brisk.url, "consume_from": "first", "orderly": True}
    with PushConsumer(group, ordered.listener, **options) as stays:
        stays.subscribe(topic)
        for _ in range(4):
            with PushConsumer(group, ordered.listener, **options) as comes:
                comes.subscribe(topic)
                wait_until(lambda: bool(queues_of(comes, topic)))
                time.sleep(0.1)
        wait_until(lambda: ordered.count >= keys * each)
    assert ordered.overlaps == 0
    assert dict(ordered.by_key) == {f"k{key}": list(range(each)) for key in range(keys)}
    assert view(brisk.url, group)["locks"] == []


def test_an_ordered_message_that_fails_holds_up_its_queue_only(brisk: GatewayProcess, topic: str, group: str) -> None:
    make_topic(brisk.url, topic, 2)
    put(brisk.url, topic, ["bad", "after bad"], queue_id=0)
    put(brisk.url, topic, ["other", "and another"], queue_id=1)
    healed, order, seen = threading.Event(), list[tuple[str, int]](), Seen()

    def listener(message: MessageView) -> ConsumeResult | None:
        order.append((message.text(), message.reconsume_times))
        if message.text() == "bad" and not healed.is_set():
            return ConsumeResult.SUSPEND
        seen.add(message)
        return None

    options: dict[str, Any] = {"brokers": brisk.url, "consume_from": "first", "orderly": True, "suspend_s": 0.05}
    with PushConsumer(group, listener, **options) as consumer:
        consumer.subscribe(topic)
        seen.wait(["other", "and another"])
        wait_until(lambda: ("bad", 2) in order)
        assert "after bad" not in seen.texts
        healed.set()
        seen.wait(["after bad"])
    attempts = [times for text, times in order if text == "bad"]
    assert attempts == list(range(len(attempts)))
    assert [text for text in seen.texts if "bad" in text] == ["bad", "after bad"]


def test_an_ordered_message_that_fails_too_often_goes_to_the_dead_letters(
    brisk: GatewayProcess, topic: str, group: str
) -> None:
    make_topic(brisk.url, topic, 1)
    put(brisk.url, topic, ["bad", "after bad"])
    seen, attempts = Seen(), list[int]()

    def listener(message: MessageView) -> None:
        if message.text() == "bad":
            attempts.append(message.reconsume_times)
            raise RuntimeError("no")
        seen.add(message)

    options: dict[str, Any] = {"orderly": True, "suspend_s": 0.01, "max_reconsume_times": 2}
    with PushConsumer(group, listener, brokers=brisk.url, consume_from="first", **options) as consumer:
        consumer.subscribe(topic)
        seen.wait(["after bad"])
    assert attempts == [0, 1, 2]
    topics = httpx.get(f"{brisk.url}/v1/topics/%25DLQ%25{group}", trust_env=False, timeout=WAIT_S_MAX).json()
    assert topics["queues"][0]["max_offset"] == 1


def test_a_restart_of_the_broker_moves_no_queue(tmp_path_factory: pytest.TempPathFactory, topic: str) -> None:
    folder = tmp_path_factory.mktemp("restarted") / "data"
    texts = numbered(200)
    seen = Seen()
    port = free_port()
    gateway = start_gateway(folder, gateway__port=port)
    try:
        make_topic(gateway.url, topic)
        with (
            PushConsumer("g", seen.add, brokers=gateway.url, consume_from="first") as one,
            PushConsumer("g", seen.add, brokers=gateway.url, consume_from="first") as two,
        ):
            one.subscribe(topic)
            two.subscribe(topic)
            put(gateway.url, topic, texts[:100])
            seen.wait(texts[:100])
            wait_until(shared(topic, 4, one, two))
            before = (one.queues, two.queues)
            gateway.kill()
            gateway = start_gateway(folder, gateway__port=port)
            put(gateway.url, topic, texts[100:])
            seen.wait(texts)
            assert (one.queues, two.queues) == before
    finally:
        gateway.stop()
