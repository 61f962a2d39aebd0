"""Pull consumers against a real gateway."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime

import httpx
import polars as pl
import pytest

from lakemq.client import Closed, MessageBatch, MessageQueue, PullConsumer, Unreachable, aio
from lakemq.model.errors import InvalidFilter, InvalidRequest, QueueNotFound, TopicNotFound
from lakemq.testing import GatewayProcess
from tests.client.consuming import WAIT_S_MAX, make_topic, numbered, offsets, put, view, wait_until
from tests.client.producing import DEAD, stored


def poll_all(consumer: PullConsumer, count: int, max_messages: int = 500) -> list[str]:
    """Poll until so many have come."""
    texts: list[str] = []
    end = time.monotonic() + WAIT_S_MAX
    while len(texts) < count:
        assert time.monotonic() < end, f"{len(texts)} of {count} came"
        batch = consumer.poll(max_messages)
        assert len(batch) <= max_messages
        texts += [message.text() for message in batch]
    return texts


def test_all_comes_and_is_committed_on_close(gateway: GatewayProcess, topic: str, group: str) -> None:
    put(gateway.url, topic, numbered(1000))
    with PullConsumer(group, brokers=gateway.url, consume_from="first") as consumer:
        consumer.subscribe(topic)
        assert Counter(poll_all(consumer, 1000, 70)) == Counter(numbered(1000))
        assert len(consumer.poll(wait_s=0.05)) == 0
    assert offsets(gateway.url, group, topic) == dict.fromkeys(range(4), 250)
    assert view(gateway.url, group)["members"] == []
    with PullConsumer(group, brokers=gateway.url, consume_from="first") as consumer:
        consumer.subscribe(topic)
        put(gateway.url, topic, ["more"])
        assert poll_all(consumer, 1) == ["more"]


def test_what_failed_in_the_block_is_not_committed(gateway: GatewayProcess, topic: str, group: str) -> None:
    make_topic(gateway.url, topic, 1)
    put(gateway.url, topic, numbered(10))

    def fail() -> None:
        with PullConsumer(group, brokers=gateway.url, consume_from="first") as consumer:
            consumer.subscribe(topic)
            assert poll_all(consumer, 4, 4) == numbered(4)
            poll_all(consumer, 4, 4)
            raise RuntimeError("these four can't be processed")

    with pytest.raises(RuntimeError, match="these four"):
        fail()
    assert offsets(gateway.url, group, topic) == {0: 4}


def test_without_auto_commit_only_commit_commits(gateway: GatewayProcess, topic: str, group: str) -> None:
    make_topic(gateway.url, topic, 1)
    put(gateway.url, topic, numbered(10))
    with PullConsumer(group, brokers=gateway.url, consume_from="first", auto_commit=False) as consumer:
        consumer.subscribe(topic)
        poll_all(consumer, 3, 3)
        consumer.commit()
        poll_all(consumer, 3, 3)
        [queue] = [queue for queue in consumer.queues if queue.topic == topic]
        assert consumer.committed(queue) == 3
        assert consumer.position(queue) == 6
    assert offsets(gateway.url, group, topic) == {0: 3}


def test_members_share_a_topic(gateway: GatewayProcess, topic: str, group: str) -> None:
    put(gateway.url, topic, numbered(40))
    with (
        PullConsumer(group, brokers=gateway.url, consume_from="first") as one,
        PullConsumer(group, brokers=gateway.url, consume_from="first") as two,
    ):
        for consumer in (one, two):
            consumer.subscribe(topic)
            consumer.start()
        wait_until(lambda: len(one.queues) == len(two.queues) == 2)
        assert sorted([*poll_all(one, 20), *poll_all(two, 20)]) == sorted(numbered(40))
        two.close()
        wait_until(lambda: len(one.queues) == 4)
        one.unsubscribe(topic)
        wait_until(lambda: not one.queues)


def test_positions_are_where_they_are_put(gateway: GatewayProcess, topic: str, group: str) -> None:
    make_topic(gateway.url, topic, 2)
    for queue_id in range(2):
        put(gateway.url, topic, numbered(10, f"q{queue_id}-"), queue_id=queue_id)
    time.sleep(0.01)
    middle = datetime.fromtimestamp(max(m.store_time_ms for m in stored(gateway.url, topic)) / 1000 + 0.005, UTC)
    put(gateway.url, topic, ["late"], queue_id=1)
    with PullConsumer(group, brokers=gateway.url, consume_from="first") as consumer:
        zero, one = consumer.queues_of(topic)
        consumer.assign([zero, one])
        consumer.seek(zero, 7)
        consumer.seek_to_end(one)
        assert poll_all(consumer, 3) == ["q0-7", "q0-8", "q0-9"]
        assert (consumer.position(zero), consumer.position(one)) == (10, 11)
        consumer.seek_to_time(middle)
        assert poll_all(consumer, 1) == ["late"]
        consumer.seek_to_begin()
        assert len(poll_all(consumer, 21)) == 21
        consumer.seek(zero, 99)
        while consumer.position(zero) == 99:
            assert consumer.poll(wait_s=0.2).to_arrow().num_rows == 0
        assert consumer.position(zero) == 10, "there is no such offset: on from the end"
        assert consumer.bounds(one) == (0, 11)


def test_what_is_paused_is_left_out(gateway: GatewayProcess, topic: str, group: str) -> None:
    make_topic(gateway.url, topic, 2)
    for queue_id in range(2):
        put(gateway.url, topic, numbered(5, f"q{queue_id}-"), queue_id=queue_id)
    with PullConsumer(group, brokers=gateway.url, consume_from="first") as consumer:
        zero, one = consumer.queues_of(topic)
        consumer.assign([zero, one])
        consumer.pause(zero)
        assert poll_all(consumer, 5) == numbered(5, "q1-")
        assert len(consumer.poll(wait_s=0.1)) == 0
        consumer.resume(zero)
        assert poll_all(consumer, 5) == numbered(5, "q0-")
        consumer.assign([one])
        assert consumer.queues == [one]
        with pytest.raises(InvalidRequest, match="doesn't read"):
            consumer.seek(zero, 0)
        consumer.assign([zero, one], tags="none of them")
        consumer.seek_to_begin()
        assert len(consumer.poll(wait_s=0.1)) == 0


def test_a_batch_is_a_table_and_a_frame(gateway: GatewayProcess, topic: str, group: str) -> None:
    put(gateway.url, topic, numbered(20), properties={"colour": "red", "size": "7"}, keys=("k1", "k2"))
    put(gateway.url, topic, numbered(20, "plain"))
    with PullConsumer(group, brokers=gateway.url, consume_from="first") as consumer:
        consumer.assign(consumer.queues_of(topic))
        frames: list[pl.DataFrame] = []
        batch = MessageBatch(consumer.poll(wait_s=0).to_arrow())
        while sum(map(len, frames)) < 40:
            batch = consumer.poll()
            assert batch.to_arrow().column("body").to_pylist() == [message.body for message in batch]
            if len(batch):
                frames.append(batch.to_polars())
                assert batch[0].queue_offset == batch[:1][0].queue_offset
                assert f"{len(batch)} messages" in repr(batch)
    frame = pl.concat(frames)
    red = frame.filter(pl.col("properties").list.len() == 2)
    assert red.height == 20
    assert red["properties"].to_list()[0] == [{"name": "colour", "value": "red"}, {"name": "size", "value": "7"}]
    assert frame.filter(pl.col("properties").is_null()).height == 20
    assert frame.group_by("queue_id").len().height == 4


def test_the_asyncio_face_is_the_same(gateway: GatewayProcess, topic: str, group: str) -> None:
    put(gateway.url, topic, numbered(10), tag="A")

    async def run() -> list[str]:
        texts: list[str] = []
        async with aio.PullConsumer(group, brokers=gateway.url, consume_from="first") as consumer:
            await consumer.subscribe(topic, tags="A")
            while len(texts) < 10:
                texts += [message.text() for message in await consumer.poll()]
        return texts

    assert Counter(asyncio.run(asyncio.wait_for(run(), 60))) == Counter(numbered(10))


def test_what_cannot_be_is_refused(gateway: GatewayProcess, topic: str, group: str) -> None:
    make_topic(gateway.url, topic)
    with PullConsumer(group, brokers=gateway.url) as consumer:
        assert len(consumer.poll(wait_s=0.01)) == 0
        with pytest.raises(TopicNotFound):
            consumer.queues_of("nowhere")
        consumer.subscribe(topic)
        with pytest.raises(InvalidRequest, match="subscribes"):
            consumer.assign([])
        with pytest.raises(InvalidRequest, match="max_messages"):
            consumer.poll(0)
    with pytest.raises(Closed):
        consumer.poll()
    with PullConsumer(group, brokers=gateway.url) as consumer:
        queue = consumer.queues_of(topic)[0]
        consumer.assign([queue])
        with pytest.raises(InvalidRequest, match="assigned"):
            consumer.subscribe(topic)
        with pytest.raises(InvalidRequest, match="offset"):
            consumer.seek(queue, -1)
        with pytest.raises(QueueNotFound, match="77"):
            consumer.assign([queue._replace(queue_id=77)])
        assert consumer.queues == [queue]
        consumer.assign([MessageQueue(topic, queue.broker, 0)], sql="a >< b")
        with pytest.raises(InvalidFilter):
            poll_all(consumer, 1)
    with PullConsumer(group, brokers=DEAD) as consumer:
        with pytest.raises(Unreachable):
            consumer.subscribe(topic)
        with pytest.raises(Unreachable):
            consumer.poll()


def test_several_brokers_are_read_as_one(
    two_brokers: tuple[GatewayProcess, GatewayProcess], topic: str, group: str
) -> None:
    one, two = two_brokers
    for process in two_brokers:
        put(process.url, topic, numbered(10, process.url))
    with PullConsumer(group, brokers=[one.url, two.url], consume_from="first") as consumer:
        consumer.subscribe(topic)
        assert len(poll_all(consumer, 20)) == 20
        assert {queue.broker for queue in consumer.queues} == {"broker-a", "broker-b"}
    for process in two_brokers:
        assert sum(offsets(process.url, group, topic).values()) == 10
        assert (
            httpx.get(f"{process.url}/v1/groups/{group}/members", trust_env=False, timeout=WAIT_S_MAX).json()["members"]
            == []
        )


def test_what_is_sent_after_subscribing_comes_whatever_the_consumer_begins_with(
    gateway: GatewayProcess, topic: str, group: str
) -> None:
    put(gateway.url, topic, ["old"])
    with PullConsumer(group, brokers=gateway.url) as consumer:
        consumer.subscribe(topic)
        put(gateway.url, topic, numbered(4))
        assert sorted(poll_all(consumer, 4)) == numbered(4)
    with PullConsumer(f"{group}-assigned", brokers=gateway.url) as consumer:
        consumer.assign(consumer.queues_of(topic))
        put(gateway.url, topic, numbered(4, "more"))
        assert sorted(poll_all(consumer, 4)) == numbered(4, "more")


def test_who_has_queues_assigned_undoes_no_reset(gateway: GatewayProcess, topic: str, group: str) -> None:
    put(gateway.url, topic, numbered(8))
    with PullConsumer(group, brokers=gateway.url, consume_from="first", auto_commit=False) as consumer:
        consumer.assign(consumer.queues_of(topic))
        assert len(poll_all(consumer, 8)) == 8
        consumer.commit()
        assert offsets(gateway.url, group, topic) == dict.fromkeys(range(4), 2)
        path = f"{gateway.url}/v1/groups/{group}/offsets/reset"
        assert httpx.post(path, json={"topic": topic, "to": "earliest"}, trust_env=False, timeout=WAIT_S_MAX).is_success
        put(gateway.url, topic, numbered(8, "more"))
        assert len(poll_all(consumer, 8)) == 8
        consumer.commit()
    assert offsets(gateway.url, group, topic) == dict.fromkeys(range(4), 0)
