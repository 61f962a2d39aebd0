"""A state that is in use becomes another one, and who has topics and queues in hand goes on with them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.topic_config import TopicConfig
from lakemq.storage.state.topics import TopicRecord, TopicTable

RECORDS = st.lists(
    st.builds(
        lambda op, topic, queues: TopicRecord(op=op, topic=topic, queues=queues, permission="rw"),
        st.sampled_from(["put", "put", "delete"]),
        st.sampled_from("abc"),
        st.integers(1, 4),
    ),
    max_size=8,
)


def table(records: Sequence[TopicRecord], stored: Sequence[int] = ()) -> TopicTable:
    """What the records make, with so many messages in the first queues."""
    made = TopicTable()
    for record in records:
        made.apply(record)
    for queue, count in zip(made.all_queues(), stored, strict=False):
        queue.next_offset += count
    return made


@given(RECORDS, RECORDS, st.lists(st.integers(0, 3), max_size=6), st.integers(0, 2))
def test_what_is_renewed_says_what_was_dumped(
    before: list[TopicRecord], after: list[TopicRecord], stored: list[int], lost: int
) -> None:
    renewed, other = table(before), table(after, stored)
    other.pass_over(lost)
    topics = {topic.name: (topic, list(topic.queues)) for topic in renewed}
    renewed.renew(other.dump())
    assert renewed.dump() == other.dump()
    assert renewed.queue_count == other.queue_count
    assert all(queue.floor <= queue.min_offset <= queue.next_offset for queue in renewed.all_queues())
    for name, (topic, queues) in topics.items():
        found = renewed.find(name)
        if found is topic:
            assert not topic.deleted
            assert all(kept is queue for kept, queue in zip(topic.queues, queues, strict=False))
        else:
            assert topic.deleted
            assert all(queue in renewed.deleted for queue in queues)


def test_who_waits_is_woken_only_by_what_is_new() -> None:
    made = [TopicRecord(op="put", topic=name, queues=1, permission="rw") for name in ("still", "grows", "goes")]
    renewed, other = table(made), table(made[:2])
    other.queue("grows", 0).next_offset += 1
    loop = asyncio.new_event_loop()
    waiters: dict[str, asyncio.Future[None]] = {record["topic"]: loop.create_future() for record in made}
    for name, waiter in waiters.items():
        renewed.queue(name, 0).waiters.add(waiter)
    renewed.renew(other.dump())
    assert {name for name, waiter in waiters.items() if waiter.done()} == {"grows", "goes"}
    assert waiters["still"] in renewed.queue("still", 0).waiters
    loop.close()


@pytest.mark.parametrize("permission", ["r", "w"])
def test_a_permission_is_what_was_dumped(permission: str) -> None:
    renewed = table([TopicRecord(op="put", topic="t", queues=1, permission="rw")])
    topic = renewed.get("t")
    renewed.renew(table([TopicRecord(op="put", topic="t", queues=2, permission=permission)]).dump())
    assert renewed.get("t") is topic
    assert (topic.permission, len(topic.queues)) == (permission, 2)


def test_a_configuration_is_what_was_dumped() -> None:
    renewed = table([TopicRecord(op="put", topic="t", queues=1, permission="rw", config={"ttl_ms": 5})])
    topic = renewed.get("t")
    renewed.renew(table([TopicRecord(op="put", topic="t", queues=1, permission="rw", config={"ttl_ms": 7})]).dump())
    assert renewed.get("t") is topic
    assert topic.config == TopicConfig(ttl_ms=7)
    renewed.renew(table([TopicRecord(op="put", topic="t", queues=1, permission="rw")]).dump())
    assert topic.config == TopicConfig()
