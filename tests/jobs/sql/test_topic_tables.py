"""A topic as a table: over a real gateway and a real lake, as the schema and the messages change."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from lakemq.jobs.errors import InvalidStatement
from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.session.connect import server_of, token_of
from lakemq.jobs.sql import connect_client
from lakemq.jobs.sql.connect_client import ConnectClient
from lakemq.jobs.sql.live import LiveViews
from lakemq.jobs.sql.topic_tables import TopicTables, topic_of, with_columns
from lakemq.jobs.tables.driver import Driver
from lakemq.model.errors import SchemaNotFound
from lakemq.settings import Lake, Settings
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import connect, put_topic
from tests.jobs.conftest import produce_to
from tests.jobs.empty_lake import put_tables
from tests.jobs.lake_checks import wait_until_compacted
from tests.jobs.order_schema import ORDER
from tests.jobs.streams import LakeRun, begun
from tests.model.protobuf_files import Members, class_of, files_of, schema_of

WAIT_S = 300.0
WIDER: dict[str, Any] = {**ORDER, "properties": {**ORDER["properties"], "paid": {"type": "boolean"}}}


class Scene:
    """A gateway and a lake of their own."""

    def __init__(self, spark: SparkSession, gateway: GatewayProcess, lake: Path) -> None:
        self.spark, self.gateway, self.lake = spark, gateway, lake
        self.views = LiveViews(spark, lake, lambda: gateway.url)

    def produce(self, topic: str, *bodies: Any) -> None:
        texts = [each if isinstance(each, str) else json.dumps(each) for each in bodies]
        produce_to(self.gateway.url, topic, [{"body": each, "keys": ["k"], "queue_id": 0} for each in texts])

    def put_schema(self, topic: str, schema: Any, **said: Any) -> None:
        with connect(self.gateway) as http:
            done = http.put(f"/v1/topics/{topic}/schema", json={"schema": schema, **said})
        assert done.is_success, done.text
        self.views.refresh_topics()

    def compact(self) -> None:
        settings = Settings(lake=Lake(dir=self.lake, trigger_ms=0, merge_files=64))
        driver = Driver(self.spark, settings.lake)
        run = LakeRun(lambda: LakeQuery(self.spark, settings, self.gateway.url, self.views, driver=driver))
        try:
            wait_until_compacted(self.gateway.url, run.is_alive)
        finally:
            run.stop()

    def rows(self, statement: str) -> list[Any]:
        return [tuple(row) for row in self.spark.sql(statement).collect()]


@pytest.fixture(scope="module")
def connected(spark: SparkSession) -> Iterator[ConnectClient]:
    """A client of the session's server."""
    with ConnectClient(server_of(spark, Settings()), token_of(spark)) as client:
        yield client


@pytest.fixture(scope="module")
def scene(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """With `orders`, of which three are in the lake and two in the log alone."""
    folder = tmp_path_factory.mktemp("topics")
    with start_gateway(folder / "log", routing__grace_ms=-1) as gateway:
        put_tables(spark, folder / "lake")
        made = Scene(spark, gateway, folder / "lake")
        with connect(gateway) as http:
            for topic in ("orders", "my-Topic", "avro", "proto", "others"):
                put_topic(http, topic)
        line = {"sku": "a"}
        made.produce("orders", {"id": 1, "total": 0.1, "at": "2026-01-02T03:04:05.6Z", "lines": [line]}, "no JSON")
        made.produce("orders", {"id": 2, "labels": {"x": "y"}})
        made.produce("others", {"id": 7})
        made.compact()
        made.views.register()
        made.put_schema("orders", ORDER)
        made.produce("orders", {"id": 3}, {"id": "four"})
        yield made
        with connect(gateway) as http:
            http.delete("/v1/topics/orders/schema")


def test_bodies_are_columns_live_and_historical(scene: Scene) -> None:
    rows = scene.rows("SELECT id, total, at, lines, labels FROM topics.orders WHERE _error IS NULL ORDER BY id")
    assert rows[0][:2] == (1, Decimal("0.10"))
    at = scene.rows("SELECT unix_millis(at) FROM topics.orders WHERE id = 1")
    assert at == [(int(datetime(2026, 1, 2, 3, 4, 5, 600_000, UTC).timestamp() * 1000),)]
    assert [each["sku"] for each in rows[0][3]] == ["a"]
    assert [(row[0], row[4]) for row in rows[1:]] == [(2, {"x": "y"}), (3, None)]
    assert scene.rows("SELECT sum(total) FROM topics.orders WHERE _offset >= 0") == [(Decimal("0.10"),)]


def test_a_body_that_does_not_fit_is_a_row_with_its_error(scene: Scene) -> None:
    found = scene.rows(
        "SELECT id, CAST(_body AS STRING), _error, _offset, _keys FROM topics.orders"
        " WHERE _error IS NOT NULL ORDER BY _offset"
    )
    assert found == [
        (None, "no JSON", "the body is no JSON: Expecting value at character 0", 1, ["k"]),
        (None, '{"id": "four"}', "id: expected an integer, found string", 4, ["k"]),
    ]
    assert scene.rows("SELECT count(*) FROM topics.orders") == [(5,)]


def test_a_new_version_reads_what_was_written_before(scene: Scene) -> None:
    scene.put_schema("others", ORDER)
    assert scene.rows("SELECT id FROM topics.others") == [(7,)]
    scene.put_schema("others", WIDER)
    scene.produce("others", {"id": 8, "paid": True})
    assert scene.rows("SELECT id, paid FROM topics.others ORDER BY id") == [(7, None), (8, True)]
    kinds = {name: kind for name, kind, _ in scene.rows("DESCRIBE topics.others")}
    assert kinds["lines"] == "array<struct<sku:string>>"
    scene.compact()
    assert scene.rows("SELECT id, paid FROM topics.others ORDER BY id") == [(7, None), (8, True)]
    with connect(scene.gateway) as http:
        http.delete("/v1/topics/others/schema")
    scene.views.refresh_topics()
    with pytest.raises(AnalysisException):
        scene.rows("SELECT * FROM topics.others")


def test_a_name_may_be_quoted_and_every_session_has_it(scene: Scene) -> None:
    scene.put_schema("my-Topic", {"type": "object", "properties": {"a`b": {"type": "string"}, "Or": {}}})
    scene.produce("my-Topic", {"a`b": "x", "Or": [1, "y"]})
    assert scene.rows("SELECT `a``b`, or FROM topics.`my-topic`") == [("x", '[1,"y"]')]
    other = scene.spark.newSession()
    assert [tuple(row) for row in other.table("topics.`my-Topic`").select("`a``b`").collect()] == [("x",)]


def test_names_that_only_a_sign_tells_apart_are_two_tables(scene: Scene) -> None:
    schema = {"type": "object", "properties": {"of": {"type": "string"}}}
    for topic in ("a-b", "a_b", "a__b"):
        with connect(scene.gateway) as http:
            put_topic(http, topic)
        scene.put_schema(topic, schema)
        scene.produce(topic, {"of": topic})
    for topic in ("a-b", "a_b", "a__b"):
        assert scene.rows(f"SELECT of FROM topics.`{topic}`") == [(topic,)]
        assert scene.rows(f"SELECT of FROM live.`topics.{topic}`") == [(topic,)]


def test_of_two_brokers_topics_that_only_case_tells_apart_the_first_has_the_table(
    scene: Scene, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    schema = {"type": "object", "properties": {"of": {"type": "string"}}}
    wider = {"type": "object", "properties": {"of": {"type": "string"}, "more": {"type": "string"}}}
    with start_gateway(tmp_path / "log", broker__name="broker-b") as second:
        for gateway, topic in ((scene.gateway, "Twice"), (second, "twice")):
            with connect(gateway) as http:
                put_topic(http, topic)
                for each in [schema] if topic == "Twice" else [schema, wider]:
                    http.put(f"/v1/topics/{topic}/schema", json={"schema": each}).raise_for_status()
        scene.produce("Twice", {"of": "Twice"})
        tables = TopicTables(scene.spark, lambda: f"{scene.gateway.url},{second.url}")
        for _ in range(2):
            tables.refresh()
        assert topic_of(scene.spark, "twice") == "Twice"
        assert scene.rows("SELECT of FROM topics.twice") == [("Twice",)]
        assert caplog.text.count("SQL shows no table of these topics") == 1
        assert "twice (Twice)" in caplog.text
    scene.views.refresh_topics()


def test_avro_is_read_by_the_version_that_wrote_it(scene: Scene) -> None:
    first = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    text = {"name": "s", "type": "string", "default": "none"}
    scene.put_schema("avro", first, type="avro")
    scene.produce("avro", "\x06")
    scene.put_schema("avro", {**first, "fields": [text, {"name": "n", "type": "long"}]}, type="avro")
    scene.produce("avro", "\x02y\x08", "\x00\x00\x00\x00\x01\x06", "\x00\x00\x00\x00\x02\x02z\x0a", "\x02")
    found = scene.rows("SELECT s, n, _error IS NULL FROM topics.avro ORDER BY _offset")
    assert found[:4] == [("none", 3, True), ("y", 4, True), ("none", 3, True), ("z", 5, True)]
    assert scene.rows("SELECT DISTINCT typeof(n) FROM topics.avro") == [("bigint",)]


def test_protobuf_has_typed_columns_and_a_new_version_reads_all(scene: Scene) -> None:
    line: Members = {"sku": "1 string", "count": "2 int32"}
    first: Members = {
        "id": "1 uint64",
        "at": "2 google.protobuf.Timestamp",
        "took": "3 google.protobuf.Duration",
        "lines": "4 repeated Line",
        "labels": "5 map<string,State>",
        "card": "6 oneof:by string",
        "cash": "7 oneof:by bool",
    }
    state: Members = {"NEW": 0, "PAID": 1}
    files = files_of(M=first, Line=line, State=state)
    scene.put_schema("proto", schema_of(files), type="protobuf")
    body = class_of(files)(id=2**64 - 1, lines=[{"sku": "a"}], labels={"x": 1, "y": 9}, cash=True)
    body.at.FromJsonString("2026-01-02T03:04:05.678Z")
    body.took.FromTimedelta(timedelta(seconds=1.5))
    encoded = [b64encode(each).decode() for each in (body.SerializeToString(), b"\x08", b"")]
    said = [{"body": each, "body_encoding": "base64", "queue_id": 0} for each in encoded]
    produce_to(scene.gateway.url, "proto", said)
    unix_millis = "unix_millis(at) AS at"
    found = scene.rows(
        f"SELECT id, {unix_millis}, took, lines, labels, card, cash, _error FROM topics.proto ORDER BY _offset"
    )
    assert found == [
        (Decimal(2**64 - 1), 1_767_323_045_678, Decimal("1.5"), [("a", 0)], {"x": "PAID", "y": "9"}, None, True, None),
        (*[None] * 7, "id: the body ends too early"),
        (Decimal(0), None, None, [], {}, None, None, None),
    ]
    scene.put_schema(
        "proto", schema_of(files_of(M={**first, "more": "8 string"}, Line=line, State=state)), type="protobuf"
    )
    assert scene.rows("SELECT id, more FROM topics.proto ORDER BY _offset")[0] == (Decimal(2**64 - 1), "")


def test_what_is_asked_for_by_time_and_place_passes_over_the_rest(scene: Scene) -> None:
    plan = scene.spark.sql("SELECT id FROM topics.orders WHERE _time > '2026-01-01' AND _offset > 3 AND id > 0")
    java: Any = plan._jdf  # pyright: ignore[reportPrivateUsage]
    text = str(java.queryExecution().optimizedPlan())
    filters = [line for line in text.splitlines() if "Filter" in line and "queue_offset" in line]
    assert filters, text
    assert all("store_time" in line for line in filters), text


def test_a_stream_has_the_columns_too(scene: Scene, tmp_path: Path) -> None:
    def run() -> list[Any]:
        read = scene.spark.readStream.format("lakemq").option("broker", scene.gateway.url).option("subscribe", "orders")
        rows = with_columns(read.option("startingOffsets", "earliest").load(), "orders", scene.gateway.url)
        written = rows.writeStream.format("memory").queryName("typed_orders").trigger(availableNow=True)
        written.option("checkpointLocation", str(tmp_path / "stream")).start().awaitTermination()
        return scene.rows("SELECT id, _error IS NULL FROM typed_orders ORDER BY _offset")

    assert begun(run) == [(1, True), (None, False), (2, True), (3, True), (None, False)]
    with pytest.raises(SchemaNotFound):
        with_columns(scene.spark.table("live.messages"), "nothing", scene.gateway.url)


def test_a_client_waits_for_a_table_that_is_made_as_it_asks(
    scene: Scene, connected: ConnectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect_client, "_NEW_TABLE_S", WAIT_S)
    with connect(scene.gateway) as http:
        put_topic(http, "late")
        http.put("/v1/topics/late/schema", json={"schema": ORDER}).raise_for_status()
    Timer(0.5, scene.views.schemas_changed).start()
    (batch,) = connected.run("SELECT count(*) AS count FROM topics.late").batches
    assert batch.to_pylist() == [{"count": 0}]
    monkeypatch.setattr(connect_client, "_NEW_TABLE_S", 0.5)
    with pytest.raises(InvalidStatement, match="`nothing`"):
        connected.run("SELECT * FROM topics.nothing")
