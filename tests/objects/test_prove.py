"""How far a lake in a bucket is proved: what that asks of the store doesn't grow with what was proved before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakemq.objects.path import ObjectPath
from lakemq.storage.lake.delta_log import APPLICATION, entry_of
from lakemq.storage.lake.prove import prove
from lakemq.testing.object_store import ObjectStore
from tests.objects.stores import path_in

TABLES = ("consume_queue", "message_index", "messages")


def commit(lake: ObjectPath, table: str, version: int) -> None:
    actions = [{"commitInfo": {"operation": "WRITE"}}, {"txn": {"appId": f"{APPLICATION}b", "version": version * 10}}]
    entry_of(lake / table, version).write_bytes("\n".join(map(json.dumps, actions)).encode())


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    store = ObjectStore()
    yield store
    store.close()


@pytest.fixture
def lake(store: ObjectStore, tmp_path: Path) -> ObjectPath:
    lake = path_in(store, "s3://bucket/lake", tmp_path)
    for version in range(30):
        for table in TABLES:
            commit(lake, table, version)
    (lake / "notes" / "of" / "mine").write_bytes(b"no table")
    return lake


def test_a_batch_is_proved_by_one_listing_and_what_is_new(lake: ObjectPath, store: ObjectStore) -> None:
    prove(lake)
    for table in TABLES:
        commit(lake, table, 30)
    store.asked.clear()
    marks = prove(lake)
    assert {name: (mark.version, mark.held[f"{APPLICATION}b"]) for name, mark in marks.items()} == dict.fromkeys(
        TABLES, (30, 300)
    )
    # Of the lake; and whether that other folder has become a table.
    assert store.asked["LIST"] == 2
    # The marks; of each table the entry that was proved, the new one, where the one after it would be, and its sum.
    assert store.asked["GET"] == 1 + 4 * len(TABLES)
    assert store.asked["HEAD"] == 0
    assert store.asked["PUT"] == 1


def test_a_table_that_went_or_came_again_or_is_new_is_seen(lake: ObjectPath, store: ObjectStore) -> None:
    prove(lake)
    for path in list((lake / "messages").rglob("*")):
        path.unlink()
    (lake / "messages" / "part.parquet").write_bytes(b"its log is gone")
    for path in list((lake / "consume_queue").rglob("*")):
        path.unlink()
    commit(lake, "consume_queue", 0)
    commit(lake, "scheduled", 0)
    marks = prove(lake)
    assert {name: mark.version for name, mark in marks.items()} == {
        "consume_queue": 0,
        "message_index": 29,
        "scheduled": 0,
    }
    assert prove(lake) == marks
