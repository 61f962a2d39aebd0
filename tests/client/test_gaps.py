"""Consumers of every kind are told of what a queue holds no more, each stretch once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from lakemq.client import MessageQueue, PullConsumer, PushConsumer, SimpleConsumer, aio
from lakemq.client.consume.fetch import read_holes
from lakemq.client.consume.gaps import RANGES_MAX, Gaps, Told
from lakemq.client.http import HttpClient
from lakemq.model.errors import InvalidRequest
from lakemq.model.message import Draft
from lakemq.testing import GatewayProcess
from tests.as_administrator import AsAdministrator
from tests.client.consuming import WAIT_S_MAX, Seen, make_topic, numbered

TOPIC = "holed"
QUEUE = MessageQueue(TOPIC, "broker-a", 0)
ERASED = (0, 3, 4, 7, 9)
HOLES = [(0, 1), (3, 5), (7, 8), (9, 10)]
LEFT = ["m1", "m2", "m5", "m6", "m8", "end"]
LEFT_OF_A = ["m2", "m6", "m8", "end"]
FILTERS = [("*", LEFT), ("A", LEFT_OF_A)]


class Holes:
    """What `on_gap` was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[MessageQueue, int, int]] = []

    def add(self, queue: MessageQueue, offset: int, next_offset: int) -> None:
        self.calls.append((queue, offset, next_offset))

    def ranges(self, queue: MessageQueue = QUEUE) -> list[tuple[int, int]]:
        """Those of a queue, which has to be the only one; what touches is joined."""
        told = Told()
        for each, begin, end in self.calls:
            assert each == queue
            assert told.add(begin, end) == [(begin, end)], "it was told twice"
        return told.ranges


def erase(url: str, positions: Sequence[int]) -> None:
    answer = httpx.post(
        f"{url}/v1/log/erasures",
        json={"positions": list(positions)},
        trust_env=False,
        timeout=WAIT_S_MAX,
        auth=AsAdministrator(),
    )
    assert answer.json()["erased"] == len(positions), answer.text


def fill(url: str, topic: str, texts: Sequence[str]) -> list[int]:
    """Messages of one queue, with tags A and B in turn; their positions."""
    with HttpClient(url) as http:
        receipts = http.produce(topic, [Draft(text.encode(), "AB"[at % 2]) for at, text in enumerate(texts)])
    return [receipt.position for receipt in receipts]


@pytest.fixture(scope="module")
def url(gateway: GatewayProcess) -> str:
    """A gateway that has a topic with messages that were erased."""
    make_topic(gateway.url, TOPIC, 1)
    positions = fill(gateway.url, TOPIC, [*numbered(10), "end"])
    erase(gateway.url, [positions[offset] for offset in ERASED])
    return gateway.url


@pytest.mark.parametrize(("tags", "texts"), FILTERS)
@pytest.mark.parametrize("orderly", [False, True])
def test_a_push_consumer_is_told(url: str, group: str, tags: str, texts: list[str], orderly: bool) -> None:
    """Regression: only what a queue began after was told of."""
    holes, seen = Holes(), Seen()
    options: dict[str, Any] = {"brokers": url, "consume_from": "first", "orderly": orderly, "on_gap": holes.add}
    with PushConsumer(group, seen.add, **options) as consumer:
        consumer.subscribe(TOPIC, tags)
        seen.wait(texts)
    assert holes.ranges() == HOLES


@pytest.mark.parametrize(("tags", "texts"), FILTERS)
def test_a_pull_consumer_is_told_once_wherever_it_seeks(url: str, group: str, tags: str, texts: list[str]) -> None:
    holes = Holes()
    with PullConsumer(group, brokers=url, on_gap=holes.add) as consumer:
        consumer.assign([QUEUE], tags)
        for offset in (5, 0, 0):
            consumer.seek(QUEUE, offset)
            found: list[str] = []
            while "end" not in found:
                found += [message.text() for message in consumer.poll(1, wait_s=30)]
        assert found == texts
    assert holes.ranges() == HOLES


@pytest.mark.parametrize(("tags", "texts"), FILTERS)
@pytest.mark.parametrize("ordered", [False, True])
def test_a_simple_consumer_is_told(url: str, group: str, tags: str, texts: list[str], ordered: bool) -> None:
    holes = Holes()
    with SimpleConsumer(group, brokers=url, ordered=ordered, on_gap=holes.add) as consumer:
        found: list[str] = []
        while len(found) < len(texts):
            messages = consumer.receive(TOPIC, 1, tags=tags)
            found += [message.text() for message in messages]
            consumer.ack(messages)
        assert found == texts
    assert holes.ranges() == HOLES


def test_consumers_with_asyncio_are_told(url: str, group: str) -> None:
    pushed, pulled, received = Holes(), Holes(), Holes()
    texts: list[str] = []
    done = asyncio.Event()

    async def listen(message: Any) -> None:
        texts.append(message.text())
        if len(texts) == len(LEFT):
            done.set()

    async def run() -> None:
        options: dict[str, Any] = {"brokers": url, "consume_from": "first"}
        async with aio.PushConsumer(f"{group}-push", listen, on_gap=pushed.add, **options) as pushing:
            await pushing.subscribe(TOPIC)
            async with aio.PullConsumer(f"{group}-pull", on_gap=pulled.add, **options) as pulling:
                await pulling.assign([QUEUE])
                found: list[str] = []
                while "end" not in found:
                    found += [message.text() for message in await pulling.poll(100, wait_s=30)]
            async with aio.SimpleConsumer(f"{group}-simple", brokers=url, on_gap=received.add) as receiving:
                assert len(await receiving.receive(TOPIC, 100)) == len(LEFT)
            await asyncio.wait_for(done.wait(), 60)

    asyncio.run(run())
    assert [each.ranges() for each in (pushed, pulled, received)] == [HOLES] * 3


def test_more_holes_than_a_head_has_room_for_are_all_told(gateway: GatewayProcess, topic: str, group: str) -> None:
    make_topic(gateway.url, topic, 1)
    positions = fill(gateway.url, topic, numbered(301))
    erase(gateway.url, positions[1::2])
    queue, holes = MessageQueue(topic, "broker-a", 0), Holes()
    with PullConsumer(group, brokers=gateway.url, consume_from="first", on_gap=holes.add) as consumer:
        consumer.assign([queue])
        found: list[str] = []
        while "m300" not in found:
            found += [message.text() for message in consumer.poll(500, wait_s=30)]
    assert found == numbered(301)[::2]
    assert holes.ranges(queue) == [(at, at + 1) for at in range(1, 300, 2)]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("tags", ["*", "A"])
def test_what_a_receive_passed_without_finding_anything_is_told_with_the_next_message(
    gateway: GatewayProcess, topic: str, group: str, ordered: bool, tags: str
) -> None:
    """Regression: it was looked at once, and told to nobody."""
    make_topic(gateway.url, topic, 1)
    positions = fill(gateway.url, topic, numbered(4))
    erase(gateway.url, positions[1:])
    holes = Holes()
    with SimpleConsumer(group, brokers=gateway.url, ordered=ordered, on_gap=holes.add) as consumer:
        consumer.ack(consumer.receive(topic, 1, tags=tags))
        assert consumer.receive(topic, wait_s=0, tags=tags) == []
        assert consumer.receive(topic, wait_s=0, tags=tags) == []
        fill(gateway.url, topic, ["late"])
        assert [message.text() for message in consumer.receive(topic, tags=tags)] == ["late"]
    assert holes.ranges(MessageQueue(topic, "broker-a", 0)) == [(1, 4)]


def test_a_range_is_told_once() -> None:
    told = Told()
    assert told.add(5, 9) == [(5, 9)]
    assert told.add(5, 9) == []
    assert told.add(20, 30) == [(20, 30)]
    assert told.add(0, 40) == [(0, 5), (9, 20), (30, 40)]
    assert told.add(40, 42) == [(40, 42)]
    assert told.ranges == [(0, 42)]
    for at in range(100, 100 + 2 * RANGES_MAX, 2):
        told.add(at, at + 1)
    assert len(told.ranges) == RANGES_MAX, "what is lowest may be told again"


def test_one_line_is_logged_for_all_that_a_pull_passes(caplog: pytest.LogCaptureFixture) -> None:
    gaps = Gaps(None)
    gaps.note(QUEUE, [(at, at + 2) for at in range(0, 21, 3)])
    gaps.note(QUEUE, [(0, 2)])
    gaps.note(QUEUE, [(2, 3)])
    gaps.note_out_of_range(QUEUE, 90, 50)
    said = [record.getMessage() for record in caplog.records if record.thread == threading.get_ident()]
    lines = [each.partition(" no longer has the messages at ")[2] for each in said]
    assert lines[:2] == ["offsets 0 to 1, 3 to 4, 6 to 7, 9 to 10, 12 to 13, 2 ranges more", "offset 2"]
    assert said[2].endswith("ends before offset 90: continuing at 50")


def test_a_head_names_its_ranges() -> None:
    assert read_holes("") == ([], True)
    assert read_holes("3-7,9-9") == ([(3, 8), (9, 10)], True)
    assert read_holes("3-7,more") == ([(3, 8)], False)


async def asynchronous(queue: MessageQueue, offset: int, next_offset: int) -> None: ...


@pytest.mark.parametrize(("on_gap", "said"), [(asynchronous, "is an async def"), ("told", "is a function of queue")])
@pytest.mark.parametrize("kind", [SimpleConsumer, aio.SimpleConsumer, PullConsumer, aio.PullConsumer])
def test_what_would_never_be_told_is_refused(kind: Any, on_gap: Any, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        kind("g", brokers="http://127.0.0.1:1", on_gap=on_gap)
