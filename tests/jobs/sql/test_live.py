"""The catalog and the live views, over a real gateway and a real lake."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.sql import live
from lakemq.jobs.sql.catalog import ALL, GONE_MAX, HIDING, VIEWS
from lakemq.jobs.sql.live import LiveViews
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.tables import MESSAGES
from lakemq.settings import Lake, Settings
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import connect, put_topic
from tests.jobs.conftest import produce_to
from tests.jobs.empty_lake import put_tables
from tests.jobs.lake_checks import wait_until_compacted
from tests.jobs.streams import LakeRun

SEEN_BATCHES = 3
SEEN_S_MAX = 300


class Scene:
    """A gateway and a lake of their own, with views that the lake query keeps."""

    def __init__(self, spark: SparkSession, gateway: GatewayProcess, lake: Path) -> None:
        self.spark, self.gateway, self.lake = spark, gateway, lake
        self.views = LiveViews(spark, lake, lambda: gateway.url)

    def produce(self, topic: str, numbers: range) -> None:
        messages = [{"body": json.dumps({"n": n}), "keys": [f"k{n}"], "tag": f"T{n % 2}"} for n in numbers]
        produce_to(self.gateway.url, topic, messages)

    def start(self) -> LakeRun:
        # It merges no files: tests count the tables' versions.
        settings = Settings(lake=Lake(dir=self.lake, trigger_ms=0, merge_files=64))
        return LakeRun(
            lambda: LakeQuery(
                self.spark, settings, self.gateway.url, self.views, driver=Driver(self.spark, settings.lake)
            )
        )

    def compact(self) -> None:
        """Until the lake holds all."""
        run = self.start()
        try:
            wait_until_compacted(self.gateway.url, run.is_alive)
        finally:
            run.stop()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(statement).collect()]


@pytest.fixture(scope="module")
def scene(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """With twenty messages of the topic `old` in the lake."""
    folder = tmp_path_factory.mktemp("live")
    with start_gateway(folder / "log", routing__grace_ms=-1) as gateway:
        put_tables(spark, folder / "lake")
        scene = Scene(spark, gateway, folder / "lake")
        scene.produce("old", range(20))
        scene.compact()
        yield scene


def test_live_views_have_what_is_only_in_the_log(scene: Scene, topic: str) -> None:
    scene.views.register()
    scene.produce(topic, range(20, 25))
    both = f"topic IN ('old', '{topic}')"
    assert scene.rows(f"SELECT count(*) FROM messages WHERE {both}") == [(20,)]
    assert scene.rows(f"SELECT count(*) FROM live.messages WHERE {both}") == [(25,)]
    places = "SELECT count(*), count(DISTINCT position) FROM live.consume_queue WHERE"
    assert scene.rows(f"{places} {both}") == [(25, 25)]
    found = scene.rows(
        "SELECT position_of(message_id) = position, broker_of(message_id), body_text(body), has_tag(tag, 'T9 || T0') "
        "FROM live.messages JOIN live.message_index USING (topic, broker, position) "
        f"WHERE topic = '{topic}' AND key = 'k24'"
    )
    assert found == [(True, "broker-a", '{"n": 24}', True)]
    assert scene.rows(f"SELECT queues, deleted, system FROM live.topics WHERE topic = '{topic}'") == [(4, False, False)]
    assert scene.rows(f"SELECT sum(body_json(body):n::int) FROM live.messages WHERE {both}") == [(300,)]
    scene.views.refresh()
    assert scene.rows(f"SELECT count(*) FROM live.messages WHERE {both}") == [(25,)]


def test_views_follow_the_tables_at_intervals_and_lack_nothing_meanwhile(
    scene: Scene, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version() -> int:
        return scene.views._versions[MESSAGES.name]  # pyright: ignore[reportPrivateUsage]

    def held() -> int:
        return DeltaTable(str(MESSAGES.path(scene.lake))).version()

    monkeypatch.setattr(live, "FOLLOW_S", 3600.0)
    with connect(scene.gateway) as http:
        put_topic(http, topic)
    query = scene.start()
    try:
        wait_until_compacted(scene.gateway.url, query.is_alive)  # each batch from now on is one of this test's
        scene.views.refresh()
        scene.views._seen_s = time.monotonic()  # pyright: ignore[reportPrivateUsage]
        before = version()
        scene.produce(topic, range(3))
        wait_until_compacted(scene.gateway.url, query.is_alive)
        assert (version(), held()) == (before, before + 1)
        assert scene.rows(f"SELECT count(*) FROM live.messages WHERE topic = '{topic}'") == [(3,)]
        monkeypatch.setattr(live, "FOLLOW_MESSAGES", 0)
        scene.produce(topic, range(1))
        wait_until_compacted(scene.gateway.url, query.is_alive)
        wait_for(lambda: version() == held() == before + 2)
        monkeypatch.setattr(live, "FOLLOW_MESSAGES", 10**9)
        scene.views.stop_following()
        monkeypatch.setattr(live, "FOLLOW_S", 0.5)
        # So that it comes by the timer.
        scene.views._seen_s = time.monotonic() + 3600  # pyright: ignore[reportPrivateUsage]
        scene.produce(topic, range(1))
        wait_until_compacted(scene.gateway.url, query.is_alive)
        wait_for(lambda: version() == held() == before + 3)
    finally:
        query.stop()
    assert scene.rows(f"SELECT count(*) FROM live.messages WHERE topic = '{topic}'") == [(5,)]


def wait_for(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + SEEN_S_MAX
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_functions_take_what_is_not_what_they_expect(scene: Scene) -> None:
    scene.views.register()
    texts = "body_text(X'FF'), body_json(CAST('{' AS BINARY)), body_text(NULL)"
    ids = "position_of('x'), position_of('a.99999999999999999999'), broker_of('a.b.1'), broker_of(NULL)"
    tags = "has_tag(NULL, '*'), has_tag(NULL, 'a'), has_tag('a', ' a|| b'), has_tag('ab', 'a||b')"
    topics = ", ".join(f"is_system('{topic}')" for topic in ("SCHEDULE_TOPIC_XXXX", "%DLQ%g", "RMQ_SYS_X", "orders"))
    (row,) = scene.rows(f"SELECT {texts}, {ids}, {tags}, {topics}, is_system(NULL)")
    assert row == (*[None] * 7, True, False, True, False, True, True, True, False, None)
    half = "broker-a.5b1f3c6e0d0a-1.42"
    assert scene.rows(f"SELECT half_of('{half}-0123456789abcdef'), half_of('{half}'), half_of(NULL)") == [
        (half, half, None)
    ]


def test_a_version_and_a_time_are_travelled_to(scene: Scene) -> None:
    scene.views.register()
    assert scene.rows("SELECT count(*) FROM messages VERSION AS OF 0") == [(0,)]
    history = scene.spark.sql("DESCRIBE HISTORY messages").where("version = 0")
    made = history.selectExpr("date_format(timestamp, 'yyyy-MM-dd HH:mm:ss.SSS') AS made").collect()[0]["made"]
    assert scene.rows(f"SELECT count(*) FROM messages TIMESTAMP AS OF '{made}'") == [(0,)]
    assert scene.rows("SELECT count(*) FROM messages WHERE topic = 'old'") == [(20,)]


def test_other_engines_read_the_tables_as_they_are(scene: Scene) -> None:
    path = str(MESSAGES.path(scene.lake))
    old = DeltaTable(path).to_pyarrow_dataset().to_table(filter=ds.field("topic") == "old", columns=["body", "keys"])
    assert sorted(json.loads(body)["n"] for body in old["body"].to_pylist()) == list(range(20))
    messages = DeltaTable(path).to_pyarrow_dataset()
    with duckdb.connect() as database:
        database.register("messages", messages)
        database.execute("SELECT tag, count(*) FROM messages WHERE topic = 'old' GROUP BY tag ORDER BY tag")
        assert database.fetchall() == [("T0", 10), ("T1", 10)]
    frame = polars.scan_delta(path).filter(polars.col("topic") == "old").group_by("tag").len().sort("tag").collect()
    assert frame.rows() == [("T0", 10), ("T1", 10)]
    assert DeltaTable(path, version=0).to_pyarrow_table().num_rows == 0


def test_the_seam_has_no_gap_and_no_duplicate_while_compaction_runs(scene: Scene, topic: str) -> None:
    query, done = scene.start(), Event()

    def produce() -> None:
        for at in range(0, 50_000, 7):
            if done.wait(0.02):
                return
            scene.produce(topic, range(at, at + 7))

    producer = Thread(target=produce)
    producer.start()
    try:
        seen = 0
        give_up = time.monotonic() + SEEN_S_MAX
        while query.is_alive() and query.query.batches < SEEN_BATCHES and time.monotonic() < give_up:
            ((count, distinct, first, last),) = scene.rows(
                "SELECT count(*), count(DISTINCT position), min(position), max(position) FROM live.all_messages"
            )
            assert (first, count, distinct) == (0, last + 1, last + 1)
            assert count >= seen
            seen = count
    finally:
        done.set()
        producer.join()
        query.stop()
    assert query.query.failure() is None
    assert query.query.batches >= SEEN_BATCHES


def test_live_views_hide_system_topics_and_their_twins_have_them(scene: Scene) -> None:
    scene.views.register()
    for name in HIDING:
        topics = f"SELECT DISTINCT topic, is_system(topic) FROM live.{{}}{name}"
        shown, every = (set(scene.rows(topics.format(prefix))) for prefix in ("", ALL))
        assert shown == {row for row in every if not row[1]}, name
        assert ("old", False) in shown, name
        assert ("RMQ_SYS_TOPICS", True) in every or name != "messages"


def test_offsets_that_counted_are_the_history_of_a_group(scene: Scene) -> None:
    scene.views.register()

    def commit(offset: int, **more: Any) -> None:
        body = {"offsets": [{"topic": "old", "queue_id": 0, "offset": offset}], **more}
        http.put("/v1/groups/g/offsets", json=body).raise_for_status()

    with connect(scene.gateway) as http:
        commit(1)
        commit(2)
        commit(0, if_absent=True)
        reset = http.post("/v1/groups/g/offsets/reset", json={"topic": "old", "to": "earliest"})
        reset.raise_for_status()
        commit(2, resets=0)
        commit(1)
    history = "SELECT kind, offset FROM live.consumer_offsets WHERE group = 'g' AND queue_id = 0 ORDER BY position"
    assert scene.rows(history) == [("offsets", 1), ("offsets", 2), ("reset", 0), ("offsets", 1)]
    at = "SELECT max_by(offset, position) FROM live.consumer_offsets WHERE group = 'g' AND queue_id = 0"
    assert scene.rows(at) == [(1,)]
    with connect(scene.gateway) as http:
        http.delete("/v1/groups/g").raise_for_status()
        assert scene.rows(history) == [], "it has none, as at the broker"
        commit(2, if_absent=True)
    assert scene.rows(history) == [("offsets", 2)], "the first of its queue once more"


def test_a_dead_letter_is_in_its_view(scene: Scene, topic: str) -> None:
    scene.views.register()
    scene.produce(topic, range(1))
    with connect(scene.gateway) as http:
        ((message_id,),) = scene.rows(f"SELECT message_id FROM live.messages WHERE topic = '{topic}'")
        reason = {"class": "ValueError", "text": "no amount"}
        nack = {"client_id": "c", "messages": [{"message_id": message_id, "delay_level": -1, "reason": reason}]}
        http.post("/v1/groups/failing/nacks", json=nack).raise_for_status()
    columns = (
        "real_topic, origin_message_id, group, failure_class, failure_text, deliveries, state, store_time = failed_at"
    )
    found: list[tuple[Any, ...]] = []
    give_up = time.monotonic() + SEEN_S_MAX
    while not found and time.monotonic() < give_up:
        found = scene.rows(f"SELECT {columns} FROM live.dead_letters WHERE topic = '%DLQ%failing'")
    assert found == [(topic, message_id, "failing", "ValueError", "no amount", 1, "open", True)]


def test_dead_letters_are_open_redriven_discarded_or_gone(scene: Scene, topic: str) -> None:
    scene.views.register()
    scene.produce(topic, range(3))
    state = (
        "SELECT group, tag, failure_class, state, redriven_at IS NOT NULL, discarded_at >= failed_at "
        "FROM {}dead_letters WHERE group IN ('kept', 'left') ORDER BY 1, 2, 3"
    )
    with connect(scene.gateway) as http:
        ids = scene.rows(f"SELECT message_id FROM live.messages WHERE topic = '{topic}' ORDER BY position")
        reasons = [{"reason": {"class": "ValueError"}}, {}, {"reason": "by hand"}]
        for group in ("kept", "left"):
            messages = [
                {"message_id": message_id, "delay_level": -1, **reason}
                for (message_id,), reason in zip(ids, reasons, strict=True)
            ]
            http.post(f"/v1/groups/{group}/nacks", json={"messages": messages}).raise_for_status()
        letters = (("T0", None), ("T0", "ValueError"), ("T1", None))
        is_open = [(group, *letter, "open", False, None) for group in ("kept", "left") for letter in letters]
        assert scene.rows(state.format("live.")) == is_open
        where = {"where": "failure_class = 'ValueError' AND deliveries = 1 AND state = 'open'"}
        begun = http.post("/v1/groups/kept/dead-letters/redrive", json=where).raise_for_status().json()
        assert begun["matched"] == 1
        wait_for(lambda: http.get(f"/v1/redrives/{begun['redrive_id']}").json()["state"] == "done")
        given_up = {"where": "tag = 'T1'"}
        done = http.post("/v1/groups/kept/dead-letters/discard", json=given_up).raise_for_status().json()
        assert (done["matched"], done["discarded"]) == (1, 1)
        http.delete("/v1/groups/left").raise_for_status()
    ended = [
        ("kept", "T0", None, "open", False, None),
        ("kept", "T0", "ValueError", "redriven", True, None),
        ("kept", "T1", None, "discarded", False, True),
        *(("left", *letter, "gone", False, None) for letter in letters),
    ]
    assert scene.rows(state.format("live.")) == ended
    scene.compact()
    assert scene.rows(state.format("")) == ended
    # What is stored no more is told by its place, as far as something after it is stored.
    before = DeltaTable(str(MESSAGES.path(scene.lake))).version()
    scene.spark.sql("DELETE FROM messages WHERE topic = '%DLQ%kept' AND queue_offset = 1")
    places = "SELECT queue_offset, state, deliveries, message_id IS NULL, is_system(topic) FROM dead_letters"
    try:
        assert scene.rows(f"{places} WHERE group = 'kept' ORDER BY 1") == [
            (0, "redriven", 1, False, True),
            (1, "gone", None, True, True),
            (2, "open", 1, False, True),
        ]
    finally:  # others of this lake look for gaps
        scene.spark.sql(f"RESTORE TABLE messages TO VERSION AS OF {before}")


def test_of_many_letters_that_are_gone_the_newest_are_shown(spark: SparkSession) -> None:
    """One letter may be all that is stored of millions, which would be as many rows in the driver."""
    letter = {"broker": "b", "position": 1, "topic": "%DLQ%g", "queue_id": 0, "queue_offset": 5 * GONE_MAX}
    spark.createDataFrame(pa.Table.from_pylist([letter], MESSAGES.schema)).createOrReplaceTempView("one_letter")
    view = VIEWS["dead_letters"].format(messages="one_letter")
    found = spark.sql(
        f"SELECT state, count(*), min(queue_offset), max(queue_offset) FROM ({view}) GROUP BY 1 ORDER BY 2"
    )
    assert [tuple(row) for row in found.collect()] == [
        ("open", 1, 5 * GONE_MAX, 5 * GONE_MAX),
        ("gone", GONE_MAX, 4 * GONE_MAX, 5 * GONE_MAX - 1),
    ]
    spark.catalog.dropTempView("one_letter")


def test_a_broker_that_has_left_has_no_tail_any_more(scene: Scene, tmp_path: Path) -> None:
    addresses = [scene.gateway.url]
    views = LiveViews(scene.spark, scene.lake, lambda: ",".join(addresses))
    count = "SELECT count(*) FROM live.messages WHERE broker = 'retired'"
    try:
        with start_gateway(tmp_path, broker__name="retired") as second:
            addresses.append(second.url)
            produce_to(second.url, "old", [{"body": "x"}])
            views.register()
            assert scene.rows(count) == [(1,)]
        addresses.pop()
        views.register()
        assert scene.rows(count) == [(0,)]
    finally:
        scene.views.register()


def test_who_did_what_is_in_the_audit(spark: SparkSession, tmp_path: Path) -> None:
    with start_gateway(tmp_path / "log", auth__audit="true") as gateway, connect(gateway) as http:
        put_topic(http, "orders")
        assert http.delete("/v1/sinks/none").status_code == 404, "as the administrator, at the second try"
        put_tables(spark, tmp_path / "lake")
        scene = Scene(spark, gateway, tmp_path / "lake")
        scene.views.register()
        columns = "user, source, outcome, what, times, missed"
        found = scene.rows(f"SELECT {columns} FROM live.audit WHERE at > TIMESTAMP '2020-01-01 00:00:00'")
        here = "127.0.0.1"
        assert ("", here, "allowed", "PUT /v1/topics/orders", 1, 0) in found
        assert ("", here, "refused", "DELETE /v1/sinks/none", 1, 0) in found
        assert ("admin.token", here, "login", "", 1, 0) in found
        assert ("admin.token", here, "allowed", "DELETE /v1/sinks/none", 1, 0) in found
        scene.compact()
        assert set(found) <= set(scene.rows(f"SELECT {columns} FROM audit"))


def test_a_table_elsewhere_is_forgotten_when_another_lake_is_registered(scene: Scene, tmp_path: Path) -> None:
    other = tmp_path / "it's another"
    MESSAGES.create(scene.spark, other)
    LiveViews(scene.spark, other, lambda: scene.gateway.url).register()
    assert scene.rows("SELECT count(*) FROM messages") == [(0,)]
    scene.views.register()
    assert scene.rows("SELECT count(*) FROM messages WHERE topic = 'old'") == [(20,)]


def test_what_a_client_puts_in_the_way_of_a_name_is_put_away(scene: Scene) -> None:
    scene.views.register()
    for statement in ("DROP TABLE consume_queue", "CREATE VIEW consume_queue AS SELECT 1 AS n", "DROP TABLE messages"):
        scene.spark.sql(statement)
    scene.spark.sql("DROP VIEW live.topics")
    scene.spark.sql("DROP FUNCTION is_system")
    scene.spark.sql("CREATE OR REPLACE FUNCTION has_tag(tag STRING, tags STRING) RETURNS BOOLEAN RETURN NULL")
    for view in ("VIEW topics", "VIEW lake_stats", "GLOBAL TEMPORARY VIEW dead_letters"):
        scene.spark.sql(f"CREATE OR REPLACE {view} AS SELECT 1 AS n")
    scene.views.renew()
    assert scene.rows("SELECT count(*) > 0 FROM consume_queue WHERE topic = 'old'") == [(True,)]
    assert scene.rows("SELECT is_system('RMQ_SYS_X'), has_tag('a', 'a')") == [(True, True)]
    for view, column in (("topics", "created_at"), ("lake_stats", "kind"), ("live.dead_letters", "state")):
        assert column in scene.spark.table(view).columns, view
    assert scene.rows("SELECT count(*) FROM live.topics WHERE topic = 'old'") == [(1,)]
    scene.spark.sql("DROP TABLE messages")
    scene.views.refresh()
    assert scene.rows("SELECT count(*) FROM messages WHERE topic = 'old'") == [(20,)]


def test_what_is_as_it_was_made_is_not_made_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """To plan the views took half a second of processor time, at each erasure and start of the lake query."""
    scene.views.register()
    statements: list[str] = []
    sql = SparkSession.sql

    def told(session: SparkSession, statement: str, **options: Any) -> Any:
        statements.append(statement)
        return sql(session, statement, **options)

    monkeypatch.setattr(SparkSession, "sql", told)
    scene.views.register()
    scene.views.renew()
    assert statements == []


def test_what_a_client_cached_goes_at_the_next_commit(scene: Scene, topic: str) -> None:
    scene.views.register()
    scene.spark.table("messages").cache().count()
    scene.produce(topic, range(3))
    scene.compact()
    assert scene.rows(f"SELECT count(*) FROM messages WHERE topic = '{topic}'") == [(3,)]
