"""The table of topics, apart from the log that makes it."""

from __future__ import annotations

import asyncio
import json

import pytest

from lakemq.model.errors import InvalidRequest, QueueNotFound, TopicNotFound
from lakemq.model.topic_config import TopicConfig
from lakemq.storage.state.topics import TOPICS_TOPIC, TopicRecord, TopicTable


@pytest.fixture
def table() -> TopicTable:
    """A table with topic `a` of three queues."""
    made = TopicTable()
    made.apply({"op": "put", "topic": "a", "queues": 3, "permission": "rw"})
    return made


def test_table_names_its_topics(table: TopicTable) -> None:
    assert [topic.name for topic in table] == [TOPICS_TOPIC, "a"]
    assert len(table) == 2
    table.apply({"op": "delete", "topic": "a", "queues": 3, "permission": "rw"})
    assert [topic.name for topic in table] == [TOPICS_TOPIC]
    assert len(table) == 1
    assert len(list(table.all_queues())) == table.queue_count == 1
    with pytest.raises(TopicNotFound, match="'a'"):
        table.get("a")


@pytest.mark.parametrize("queue_id", [-1, 3, 65_535])
def test_queue_that_is_not_there_is_named(table: TopicTable, queue_id: int) -> None:
    assert table.queue("a", 2).key == ("a", 2)
    with pytest.raises(QueueNotFound, match=f"queues 0 to 2, not {queue_id}"):
        table.queue("a", queue_id)


def test_queues_take_turns(table: TopicTable) -> None:
    assert [table.get("a").next_queue().queue_id for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize(
    ("name", "queues", "permission", "allowed"),
    [
        ("a", 3, "r", True),
        ("a", 10, "w", True),
        ("a", 2, "rw", False),
        ("a", 11, "rw", False),
        ("b", 1, "rw", True),
        ("b", 0, "rw", False),
        ("b", 1, "x", False),
        ("b", 1, "", False),
    ],
)
def test_queues_only_grow(table: TopicTable, name: str, queues: int, permission: str, allowed: bool) -> None:
    if allowed:
        table.check_put(name, queues, permission, 10)
    else:
        with pytest.raises(InvalidRequest):
            table.check_put(name, queues, permission, 10)


def test_frame_of_an_unknown_queue_makes_it(table: TopicTable) -> None:
    assert table.ensure_queue("lost", 2) is table.queue("lost", 2)
    assert table.ensure_queue("a", 4) is table.queue("a", 4)
    assert len(table.get("a").queues) == 5
    assert table.ensure_queue("a", 0) is table.queue("a", 0)


def test_dump_restores_everything(table: TopicTable) -> None:
    table.queue("a", 1).next_offset = 7
    table.apply({"op": "put", "topic": "b", "queues": 2, "permission": "r"})
    table.queue("b", 0).next_offset = 5
    table.apply({"op": "delete", "topic": "b", "queues": 2, "permission": "r"})
    table.apply({"op": "put", "topic": "c", "queues": 1, "permission": "rw", "config": {"message_type": "fifo"}})
    table.ensure_queue("c", 1)
    other = TopicTable()
    other.restore(table.dump())
    assert other.dump() == table.dump()
    assert other.find("b") is None
    assert other.get("c").config == TopicConfig("fifo")
    assert other.get("c").restricts
    other.apply({"op": "put", "topic": "b", "queues": 2, "permission": "rw"})
    assert [(q.floor, q.next_offset) for q in other.get("b").queues] == [(5, 5), (0, 0)]


def test_deletion_wakes_those_who_wait(table: TopicTable) -> None:
    async def wait() -> None:
        loop = asyncio.get_running_loop()
        waiting, gone = loop.create_future(), loop.create_future()
        gone.cancel()
        queue = table.queue("a", 0)
        queue.waiters |= {waiting, gone}
        table.apply({"op": "delete", "topic": "a", "queues": 3, "permission": "rw"})
        await waiting
        assert not queue.waiters

    asyncio.run(wait())


def test_a_schema_is_in_what_is_dumped_restored_and_renewed(table: TopicTable) -> None:
    """An older record says nothing of schemas, and changes none."""
    put: TopicRecord = {"op": "put", "topic": "a", "queues": 3, "permission": "rw"}
    for version in (1, 2):
        schema = {"version": version, "type": "json", "text": f"[{version}]", "created_ms": 7}
        table.apply({**put, "schema": schema})
    table.apply({**put, "permission": "r"})
    schemas = table.get("a").schemas
    assert [each.version for each in schemas.versions] == [1, 2]
    dumped = json.loads(json.dumps(table.dump()))
    restored, renewed = TopicTable(), TopicTable()
    restored.restore(dumped)
    renewed.apply({**put, "schema": None})
    renewed.renew(dumped)
    assert restored.get("a").schemas == renewed.get("a").schemas == schemas
    before = restored.schema_changes
    restored.apply({**put, "schema": None})
    assert (restored.get("a").schemas.versions, restored.get("a").schemas.last) == ((), 2)
    assert restored.schema_changes > before
    assert "schemas" not in json.dumps(TopicTable().dump()), "a log without schemas is as it was before there were any"


def test_what_waits_for_a_deleted_topic_is_for_no_other_of_its_name(table: TopicTable) -> None:
    made: TopicRecord = {"op": "put", "topic": "b", "queues": 1, "permission": "rw", "made": True}
    changed: TopicRecord = {"op": "put", "topic": "b", "queues": 2, "permission": "r"}
    gone: TopicRecord = {"op": "delete", "topic": "b", "queues": 2, "permission": "r"}
    for position, record in ((10, made), (12, changed), (13, made)):
        table.apply_body(json.dumps(record).encode(), position)
    assert table.find_for("b", 11) is table.find("b"), "it is the same, whatever changes it"
    table.apply_body(json.dumps(gone).encode(), 20)
    assert table.find_for("b", 11) is None
    table.apply_body(json.dumps(made).encode(), 30)
    for again in (TopicTable(), table):
        again.restore(table.dump())
        assert again.find_for("b", 29) is None
        assert again.find_for("b", 31) is again.find("b")
    renewed = TopicTable()
    renewed.apply(made, 5)
    renewed.renew(table.dump())
    assert renewed.find_for("b", 29) is None


def test_a_topic_counts_for_the_user_that_its_last_record_that_says_one_names(table: TopicTable) -> None:
    """A record of an older version, or a change of nobody's, names none: the topic counts for whom it did."""
    made: TopicRecord = {"op": "put", "topic": "b", "queues": 1, "permission": "rw", "made": True, "created_by": "ann"}
    table.apply(made)
    table.apply({"op": "put", "topic": "b", "queues": 2, "permission": "rw"})
    table.apply({**made, "topic": "c"})
    restored, renewed = TopicTable(), TopicTable()
    restored.restore(json.loads(json.dumps(table.dump())))
    renewed.apply({"op": "put", "topic": "b", "queues": 1, "permission": "rw"})
    renewed.renew(table.dump())
    for each in (table, restored, renewed):
        assert each.made_by("ann") == (2, 3)
        assert each.made_by("bob") == (0, 0)
        each.apply({**made, "queues": 4, "created_by": "bob"})
        assert (each.made_by("ann"), each.made_by("bob")) == ((1, 1), (1, 4))
        each.apply({"op": "delete", "topic": "b", "queues": 4, "permission": "rw"})
        each.apply({"op": "put", "topic": "b", "queues": 1, "permission": "rw", "made": True})
        assert (each.made_by("ann"), each.made_by("bob")) == ((1, 1), (0, 0)), "one that is made again is another"
    older = table.dump()
    for entry in older["topics"]:
        entry.pop("created_by", None)
    restored.restore(older)
    assert restored.made_by("ann") == (0, 0)
    assert "created_by" not in json.dumps(older), "a log in which nobody is known is as it was"


def test_a_topic_whose_record_was_lost_is_taken_for_the_one_that_it_was(table: TopicTable) -> None:
    table.ensure_queue("b", 0)
    table.apply({"op": "put", "topic": "c", "queues": 1, "permission": "rw"}, 50)
    assert table.find_for("a", 0) is not None
    assert table.find_for("b", 0) is not None
    assert table.find_for("c", 0) is not None
