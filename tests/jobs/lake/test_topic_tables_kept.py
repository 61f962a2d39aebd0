"""Topics' own Delta tables: each message once, whatever happens."""

from __future__ import annotations

import json
import shutil
import time
from base64 import b64encode
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from lakemq.jobs.errors import LakeOutOfStep
from lakemq.jobs.lake import topic_merging, topic_tables_kept
from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.lake.topic_tables_kept import TopicTablesKept
from lakemq.jobs.maintenance.cuts import read_cuts, remember_cuts
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.maintenance.runs import DONE, Run
from lakemq.jobs.maintenance.verify import _is_kept  # pyright: ignore[reportPrivateUsage]
from lakemq.jobs.maintenance.verify_topic_tables import TopicTablesVerified
from lakemq.jobs.maintenance.work import Work
from lakemq.jobs.sql.live import LiveViews
from lakemq.jobs.tables import topic_file, topic_rows
from lakemq.jobs.tables.delta_writer import forget_cached_logs
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.merged_add import tier_of
from lakemq.jobs.tables.merger import TableMerger
from lakemq.jobs.tables.tables import MESSAGES
from lakemq.jobs.tables.topic_table import LIFE, find_topic_table, layout_of_topic_table, make_topic_table
from lakemq.jobs.tables.topic_writer import TopicWriter
from lakemq.model import topic_step
from lakemq.model.merging import Limits
from lakemq.model.row_room import room_of
from lakemq.model.schema import SchemaVersion, parse_schema
from lakemq.model.topic_columns import SOURCES, TYPES
from lakemq.model.topic_table import table_name
from lakemq.settings import Lake, Maintenance, Settings
from lakemq.storage.lake.live_files import LiveFiles
from lakemq.storage.lake.log_marks import append_identifiers, log_identifier
from lakemq.storage.lake.progress import read_progress
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import connect, put_topic
from tests.jobs.changed_rows import append_rows, delete_rows, rows_having, set_values
from tests.jobs.conftest import produce_to
from tests.jobs.empty_lake import put_tables
from tests.jobs.lake_checks import wait_until_compacted
from tests.jobs.order_schema import ORDER
from tests.jobs.streams import LakeRun
from tests.model.protobuf_files import Members, class_of, files_of, schema_of

PAID = {**ORDER, "properties": {**ORDER["properties"], "paid": {"type": "boolean"}}}
PAID["properties"] |= {
    "lines": {"type": "array", "items": {"properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}}
}
AS_TEXT = {**PAID, "properties": {**PAID["properties"], "at": {"type": "string"}}}


class Scene:
    """A gateway, and a lake that a query writes all the time; topics' tables are kept where a test says so."""

    def __init__(self, spark: SparkSession, gateway: GatewayProcess, lake: Path) -> None:
        self.spark, self.gateway, self.lake = spark, gateway, lake
        self.views = LiveViews(spark, lake, lambda: gateway.url)
        self.settings = Settings(
            lake=Lake(dir=lake, trigger_ms=200, merge_files=64), maintenance=Maintenance(retry_pause_ms=0)
        )
        self.number = 0
        self.topics: list[str] = []
        self.query = self.start()

    def start(self, views: LiveViews | None = None) -> LakeRun:
        driver = Driver(self.spark, self.settings.lake)
        return LakeRun(lambda: LakeQuery(self.spark, self.settings, self.gateway.url, views, driver=driver))

    def new_topic(self) -> str:
        self.number += 1
        self.topics.append(f"Orders-{self.number}")
        with connect(self.gateway) as http:
            put_topic(http, self.topics[-1])
        return self.topics[-1]

    def forget(self) -> None:
        """The topics have no tables any more: what comes next looks after its own."""
        self.compact()  # nobody brings their files to disk just now
        for topic in self.topics:
            shutil.rmtree(self.lake / table_name(topic), ignore_errors=True)
        with connect(self.gateway) as http:
            for topic in self.topics:
                http.delete(f"/v1/topics/{topic}/schema")
        self.topics.clear()
        self.views.refresh_topics()

    def produce(self, topic: str, *bodies: Any) -> list[dict[str, Any]]:
        texts = [each if isinstance(each, str) else json.dumps(each) for each in bodies]
        return produce_to(self.gateway.url, topic, [{"body": each, "queue_id": 0} for each in texts])

    def put_schema(self, topic: str, schema: Any, **said: Any) -> None:
        with connect(self.gateway) as http:
            done = http.put(f"/v1/topics/{topic}/schema", json={"schema": schema, **said})
        assert done.is_success, done.text
        self.views.refresh_topics()

    def compact(self) -> None:
        wait_until_compacted(self.gateway.url, self.query.is_alive)

    def keeper(self) -> TopicTablesKept:
        """As a process that has just started has it."""
        forget_cached_logs(self.spark)
        driver = Driver(self.spark, self.settings.lake)
        progress = lambda: read_progress(MESSAGES.path(self.lake))  # noqa: E731
        wanted, made = self.views.kept_topics, self.views.tables_made
        return TopicTablesKept(self.spark, self.lake, driver, wanted, progress, made, lambda table: None)

    def keep(self) -> int:
        """Rounds until nothing is left to do; how many."""
        keeper, rounds = self.keeper(), 1
        while keeper.round():
            rounds += 1
        return rounds

    def rows(self, topic: str, *columns: str) -> list[tuple[Any, ...]]:
        """As a reader that is not Spark has them, in the order of the log."""
        found = find_topic_table(self.lake, topic)
        assert found is not None
        table = DeltaTable(str(found.path)).to_pyarrow_table(columns=["_position", *columns]).sort_by("_position")
        return list(zip(*(table[name].to_pylist() for name in columns), strict=True))

    def run(self, job: str, parameters: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        done = self._run(job, parameters, **options)
        assert done.result == DONE, done
        return dict(done.detail)

    def _run(self, job: str, parameters: dict[str, Any] | None = None, **options: Any) -> Run:
        settings = self.settings.model_copy(update={"maintenance": Maintenance(retry_pause_ms=0, **options)})
        driver = Driver(self.spark, settings.lake)
        runner = Runner(self.spark, settings, lambda: self.gateway.url, self.views.renew, driver=driver)
        return runner.run(job, "command", parameters)

    def verified(self, topic: str) -> tuple[int, list[dict[str, Any]]]:
        """How many rows of the topic's own table `verify` looked at, and what it found."""
        name, done = table_name(topic), self._run("verify")
        found = [each for each in done.detail["findings"] if each["check"] == name]
        assert done.result == ("differs" if done.detail["findings"] else DONE), done
        return done.detail["topic_tables"][name], found

    def verified_alone(self, topic: str) -> tuple[int, list[dict[str, Any]]]:
        """The same, without a look at the lake's tables."""
        work = Work(self.spark, self.settings, self.gateway.url, driver=Driver(self.spark, self.settings.lake))
        held, found = read_progress(MESSAGES.path(self.lake)), list[dict[str, Any]]()
        is_kept = _is_kept(read_cuts(self.lake))
        messages = work.rows(MESSAGES, held.version).where(is_kept)
        looked_at = TopicTablesVerified(work, messages, held, is_kept, lambda **said: found.append(said)).verify()
        name = table_name(topic)
        return looked_at[name], [each for each in found if each["check"] == name]


@contextmanager
def opened(spark: SparkSession, folder: Path) -> Generator[Scene]:
    """One there, until it is closed."""
    with start_gateway(folder / "log", routing__grace_ms=-1) as gateway:
        put_tables(spark, folder / "lake")
        made = Scene(spark, gateway, folder / "lake")
        made.views.register()
        yield made
        made.query.stop()


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with opened(spark, tmp_path_factory.mktemp("topic-tables")) as made:
        yield made


@pytest.fixture
def scene(shared: Scene) -> Iterator[Scene]:
    yield shared
    shared.forget()


def test_protobuf_bodies_are_rows_as_the_schema_grows(scene: Scene) -> None:
    topic = scene.new_topic()
    first: Members = {
        "id": "1 uint32",
        "at": "2 google.protobuf.Timestamp",
        "by": "3 map<int32,L>",
        "lines": "4 repeated L",
    }
    line: Members = {"sku": "1 string"}
    files, wider = (
        files_of(M=members, L=lines)
        for members, lines in ((first, line), ({**first, "more": "5 optional double"}, {**line, "count": "2 int32"}))
    )
    scene.put_schema(topic, schema_of(files), type="protobuf", table=True)
    body = class_of(wider)(id=7, lines=[{"sku": "a", "count": 2}], more=0.5)
    body.at.FromSeconds(1_700_000_000)
    body.by[-1].sku = "b"
    encoded = [b64encode(each).decode() for each in (body.SerializeToString(), b"", b"\x08")]
    said = [{"body": each, "body_encoding": "base64", "queue_id": 0} for each in encoded]
    produce_to(scene.gateway.url, topic, said)
    scene.compact()
    scene.keep()
    at = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert scene.rows(topic, "id", "at", "by", "lines", "_error") == [
        (7, at, [("-1", {"sku": "b"})], [{"sku": "a"}], None),
        (0, None, [], [], None),
        (None, None, None, None, "id: the body ends too early"),
    ]
    scene.put_schema(topic, schema_of(wider), type="protobuf")
    produce_to(scene.gateway.url, topic, said[:1])
    scene.compact()
    scene.keep()
    assert scene.rows(topic, "more", "_schema_version") == [(None, 1), (None, 1), (None, 1), (0.5, 2)]
    assert scene.rows(topic, "lines")[3] == ([{"sku": "a", "count": 2}],)


def test_history_and_what_comes_are_rows_once_across_restarts(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = scene.new_topic()
    scene.produce(topic, {"id": 1, "total": 0.1, "lines": [{"sku": "a"}]}, "no JSON")
    scene.compact()
    assert scene.keep() == 1
    assert find_topic_table(scene.lake, topic) is None, "nobody has asked for it"
    scene.put_schema(topic, ORDER, table=True)
    scene.keep()
    scene.produce(topic, {"id": 2, "at": "2026-01-02T03:04:05Z"})
    scene.produce("other", {"id": 9})
    scene.compact()
    monkeypatch.setattr(topic_file, "HERE_BYTES_MAX", -1)  # by tasks of Spark
    scene.keep()
    scene.keep()
    assert [row[0] for row in scene.rows(topic, "id")] == [1, None, 2]
    (first, second, third) = scene.rows(topic, "total", "lines", "_error", "_schema_version", "_body", "_queue_id")
    assert (str(first[0]), *first[1:4]) == ("0.10", [{"sku": "a"}], None, 1)
    assert second[2].startswith("the body is no JSON")
    assert second[4:] == (b"no JSON", 0)
    assert third[2] is None
    found = scene.spark.sql(
        f"SELECT id, total, _time FROM {table_name(topic)} WHERE _error IS NULL ORDER BY id"
    ).collect()
    assert [(row.id, str(row.total)) for row in found] == [(1, "0.10"), (2, "None")]
    live = scene.spark.sql(f"SELECT id, total, _time FROM topics.`{topic}` WHERE _error IS NULL ORDER BY id").collect()
    assert live == found


def test_its_own_columns_are_of_the_types_that_messages_has() -> None:
    assert {name: TYPES[name] for name in SOURCES} == {name: MESSAGES.columns[each] for name, each in SOURCES.items()}


def test_a_commit_that_somebody_else_made_first_is_not_made_again(scene: Scene) -> None:
    topic = scene.new_topic()
    scene.produce(topic, {"id": 1})
    scene.compact()
    scene.put_schema(topic, ORDER, table=True)
    slow = scene.keeper()
    slow.round()
    scene.produce(topic, {"id": 2})
    scene.compact()
    scene.keep()  # another process, as the first one stood still
    slow.round()
    assert scene.rows(topic, "id") == [(1,), (2,)]
    found, _ = make_topic_table(scene.spark, scene.lake, topic, parse_schema("json", json.dumps(ORDER)).columns)
    writer = TopicWriter(scene.spark, found, Driver(scene.spark, scene.settings.lake))
    before = found.held()
    writer.append(None, {"broker-a": before.positions["broker-a"] + 1}, {}, before)
    with pytest.raises(LakeOutOfStep):
        writer.append(None, {"broker-a": before.positions["broker-a"] + 2}, {}, before)


def test_columns_are_added_and_where_a_type_changes_the_table_begins_anew(scene: Scene) -> None:
    topic = scene.new_topic()
    at = "2026-01-02T03:04:05Z"
    scene.put_schema(topic, ORDER, table=True)
    scene.produce(topic, {"id": 1, "paid": True, "at": at, "lines": [{"sku": "a", "count": 1}]})
    scene.compact()
    scene.keep()
    scene.put_schema(topic, PAID)
    scene.produce(topic, {"id": 2, "paid": True, "lines": [{"sku": "b", "count": 2}]})
    scene.compact()
    scene.keep()
    assert scene.rows(topic, "id", "paid", "_schema_version") == [(1, None, 1), (2, True, 2)]
    assert scene.rows(topic, "lines")[1] == ([{"sku": "b", "count": 2}],)
    scene.put_schema(topic, AS_TEXT)
    scene.keep()
    assert scene.rows(topic, "id", "paid", "at", "_schema_version") == [(1, True, at, 3), (2, True, None, 3)]


def test_who_is_killed_as_a_table_begins_anew_leaves_no_row_that_comes_twice(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = scene.new_topic()
    scene.put_schema(topic, ORDER, table=True)
    scene.produce(topic, {"id": 1, "at": "2026-01-02T03:04:05Z"})
    scene.compact()
    scene.keep()
    scene.put_schema(topic, AS_TEXT)
    with monkeypatch.context() as patched:
        patched.setattr(SparkSession, "sql", _killed_after(SparkSession.sql, LIFE))
        scene.keep()
    with connect(scene.gateway) as http:
        assert http.delete(f"/v1/topics/{topic}/schema").is_success
    scene.put_schema(topic, ORDER, table=True)
    scene.keep()
    assert scene.rows(topic, "id") == [(1,)]


def _killed_after(run: Any, part: str) -> Any:
    """Ends, as a kill would, after the first statement that has that part."""

    def runs(session: SparkSession, statement: str, **options: Any) -> Any:
        done = run(session, statement, **options)
        if part in statement:
            raise OSError("killed")
        return done

    return runs


def test_who_knows_an_earlier_life_of_a_table_writes_nothing_to_it(scene: Scene) -> None:
    topic = scene.new_topic()
    scene.put_schema(topic, ORDER, table=True)
    scene.produce(topic, {"id": 1})
    scene.compact()
    scene.keep()
    found, _ = make_topic_table(scene.spark, scene.lake, topic, parse_schema("json", json.dumps(ORDER)).columns)
    slow, before = TopicWriter(scene.spark, found, Driver(scene.spark, scene.settings.lake)), found.held()
    scene.put_schema(topic, AS_TEXT)
    scene.keep()  # another process, which begins the table anew
    with pytest.raises(LakeOutOfStep):
        slow.append(None, {"broker-a": before.positions["broker-a"] + 1}, {}, before)


def test_a_backfill_goes_in_steps(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = scene.new_topic()
    for number in range(3):
        scene.produce(topic, {"id": number})
        scene.compact()
    monkeypatch.setattr(topic_step, "ROWS_MAX", 1)
    scene.put_schema(topic, ORDER, table=True)
    assert scene.keep() >= 3
    assert scene.rows(topic, "id") == [(0,), (1,), (2,)]


def test_few_bodies_are_decoded_at_a_time_where_each_may_become_many_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps({"type": "object", "properties": {"lines": {"type": "array", "items": ORDER}}})
    body = b'{"lines":[{"id":1}]}'
    row = {"topic": "t", "broker": "b", "message_id": "m", "store_time": datetime(2026, 1, 2, tzinfo=UTC), "body": body}
    rows = [{**row, "position": at} for at in range(10)]
    path = tmp_path / "messages.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=MESSAGES.schema), path)
    counts: list[int] = []

    def counted(versions: Any) -> Any:
        decoded = topic_rows.decoding(versions)
        return lambda bodies, times: (counts.append(len(bodies)), decoded(bodies, times))[1]

    monkeypatch.setattr(topic_file, "decoding", counted)
    versions = (SchemaVersion(1, "json", text, 0),)
    size = room_of(parse_schema("json", text).columns).bytes_at_most(body)
    file = topic_file.TopicFile("t", versions, (topic_step.Range("b", 0, 10),), (path,), 1, tmp_path)
    assert file.write() is not None
    assert counts == [10]
    monkeypatch.setattr(topic_file, "_DECODED_BYTES", size * 4)
    action = file.write()
    assert counts[1:] == [4, 4, 2]
    assert action is not None
    written = pq.read_table(tmp_path / json.loads(action)["add"]["path"])
    assert written["_position"].to_pylist() == list(range(10))
    assert written["lines"].to_pylist()[9][0]["id"] == 1


def test_what_is_erased_or_past_its_retention_is_gone_from_it(scene: Scene) -> None:
    topic = scene.new_topic()
    scene.put_schema(topic, ORDER, table=True)
    scene.produce(topic, {"id": 1, "name": "Ann"}, {"id": 2})
    scene.compact()
    scene.keep()
    found = find_topic_table(scene.lake, topic)
    assert found is not None
    detail = scene.run("erase", {"where": f"topic = '{topic}' AND body_text(body) LIKE '%Ann%'"})
    assert detail["tables"][found.path.name] == 1
    assert scene.rows(topic, "id") == [(2,)]
    held = b"".join(each.read_bytes() for each in found.path.glob("*.parquet"))
    assert b"Ann" not in held
    scene.produce(topic, {"id": 3})
    scene.compact()
    assert scene.verified_alone(topic) == (1, []), "what is erased, or so far in `messages` alone, isn't missing"
    scene.keep()
    assert scene.rows(topic, "id") == [(2,), (3,)]
    scene.run("optimize", small_files_min=2)
    assert len(DeltaTable(str(found.path)).file_uris()) == 1
    assert found.path.name in scene.run("stats")["tables"]
    removed = scene.run("retention", keep={topic: "1ms"})["removed"]
    assert removed[found.path.name] == 2
    assert scene.rows(topic, "id") == []


def test_verify_compares_it_with_messages_and_names_each_kind_of_damage(scene: Scene) -> None:
    topic = scene.new_topic()
    scene.put_schema(topic, ORDER, table=True)
    places = scene.produce(topic, *({"id": number} for number in range(5)))
    scene.compact()
    scene.keep()
    path = scene.lake / table_name(topic)
    delete_rows(path, id=1)
    append_rows(path, rows_having(path, id=2))
    set_values(path, {"_offset": 77}, id=3)
    set_values(path, {"_position": 1_000_000}, id=4)
    rows, (twice, other) = scene.verified(topic)
    at = [place["position"] for place in places]
    key = {"broker": "broker-a", "queue_id": 0}
    assert (rows, twice["duplicates"]) == (5, 1)
    assert twice["sample"] == [{**key, "position": at[2], "count": 2}]
    assert (other["topic"], other["missing"], other["extra"], other["differing"]) == (topic, 2, 1, 1)
    kinds = {(each["kind"], each["position"]) for each in other["sample"]}
    assert kinds == {("missing", at[1]), ("missing", at[4]), ("extra", 1_000_000), ("differing", at[3])}
    remember_cuts(scene.lake, {topic: 1 << 42})  # as of a retention that was killed: no row is to be there
    append_identifiers(path, {log_identifier("broker-a", "another"): 9})
    rows, (log,) = scene.verified_alone(topic)
    assert (rows, log["broker"], "lakemq lake adopt" in log["error"]) == (0, "broker-a", True)


def test_as_it_is_kept_its_files_stay_few_and_older_versions_are_what_they_were(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_tables_kept, "PAUSE_S", 0.05)
    monkeypatch.setattr(topic_merging, "PAUSE_S", 0.0)
    settings, topic = scene.settings, scene.new_topic()
    scene.query.stop()
    scene.settings = settings.model_copy(update={"lake": settings.lake.model_copy(update={"merge_files": 3})})
    scene.put_schema(topic, ORDER, table=True)
    scene.query = scene.start(scene.views)
    held: dict[int, list[Any]] = {}
    try:
        for number in range(5):  # a file each: of every three one is made, and of that and others none yet
            scene.produce(topic, {"id": number})
            scene.compact()
            wait_for(lambda: len(rows_or_none(scene, topic)) == number + 1, "the table is not kept")  # noqa: B023
            found = find_topic_table(scene.lake, topic)
            assert found is not None
            held[DeltaTable(str(found.path)).version()] = [(at,) for at in range(number + 1)]
        path = scene.lake / table_name(topic)
        wait_for(lambda: len(LiveFiles(path).added) < 5, "its files are not merged")
    finally:
        scene.query.stop()
        scene.settings = settings
        scene.query = scene.start()
    live = LiveFiles(path)
    assert max(tier_of(add) for add in live.added.values()) > 0
    assert not any(add["dataChange"] for add in merged_in(path))
    assert scene.rows(topic, "id") == [(number,) for number in range(5)]
    for version, rows in held.items():
        table = DeltaTable(str(path), version=version).to_pyarrow_table(columns=["_position", "id"])
        assert [(each,) for each in table.sort_by("_position")["id"].to_pylist()] == rows


def merged_in(table: Path) -> list[dict[str, Any]]:
    """What its log says of files that merges have made."""
    entries = (table / "_delta_log").glob("*.json")
    actions = [json.loads(line) for entry in entries for line in entry.read_text().splitlines()]
    found = [each["add"] for each in actions if "add" in each and tier_of(each["add"])]
    assert found
    return found


def test_a_merge_of_its_files_is_killed_or_meets_an_append_a_new_schema_and_an_erasure(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = scene.new_topic()

    def come(row: dict[str, Any]) -> None:
        scene.produce(topic, row)
        scene.compact()
        scene.keep()

    scene.put_schema(topic, ORDER, table=True)
    come({"id": 1, "name": "Ann", "lines": [{"sku": "a"}]})
    scene.put_schema(topic, PAID)
    come({"id": 2, "paid": True, "lines": [{"sku": "b", "count": 2}]})
    path = scene.lake / table_name(topic)
    later = [{"id": 3}]

    def stop() -> bool:
        while later:
            come(later.pop())  # while the merge is made
        return False

    driver, layout = Driver(scene.spark, scene.settings.lake), layout_of_topic_table(path)
    merger = TableMerger(scene.spark, layout, scene.lake, Limits(2, 1 << 30), stop, driver)
    before = set(LiveFiles(path).added)
    with monkeypatch.context() as patched:
        patched.setattr("lakemq.jobs.tables.merger._Delta.commit", _killed)
        with pytest.raises(OSError, match="killed"):
            merger.step()
    assert before < set(LiveFiles(path).added), "the append beside it"
    later.append({"id": 4})
    assert merger.step()
    assert len(LiveFiles(path).added) == 2
    rows = [(1, None, 1), (2, True, 2), (3, None, 2), (4, None, 2)]
    assert scene.rows(topic, "id", "paid", "_schema_version") == rows
    lines = [[{"sku": "a", "count": None}], [{"sku": "b", "count": 2}], None, None]
    assert [each for (each,) in scene.rows(topic, "lines")] == lines
    found = scene.spark.sql(f"SELECT id, paid, _schema_version FROM {table_name(topic)} ORDER BY _position").collect()
    assert [tuple(row) for row in found] == rows
    scene.run("erase", {"where": f"topic = '{topic}' AND body_text(body) LIKE '%Ann%'"})
    assert scene.rows(topic, "id", "paid", "_schema_version") == rows[1:]
    named = {Path(each).name for each in DeltaTable(str(path)).file_uris()}
    assert not any(b"Ann" in each.read_bytes() for each in path.glob("*.parquet") if each.name in named)
    come({"id": 5})
    assert merger.step()
    assert [row[0] for row in scene.rows(topic, "id")] == [2, 3, 4, 5]


def _killed(*_: object) -> None:
    raise OSError("killed")


def test_a_topic_that_no_longer_has_a_table_keeps_what_is_there(scene: Scene) -> None:
    topic = scene.new_topic()
    scene.put_schema(topic, ORDER, table=True)
    scene.produce(topic, {"id": 1})
    scene.compact()
    scene.keep()
    scene.put_schema(topic, ORDER, table=False)
    scene.produce(topic, {"id": 2})
    scene.compact()
    scene.keep()
    assert scene.rows(topic, "id") == [(1,)]
    scene.put_schema(topic, ORDER, table=True)
    scene.keep()
    assert scene.rows(topic, "id") == [(1,), (2,)]
    with connect(scene.gateway) as http:
        http.delete(f"/v1/topics/{topic}")
    scene.views.refresh_topics()
    scene.keep()
    assert topic not in scene.views.kept_topics()
    assert scene.rows(topic, "id") == [(1,), (2,)]


def test_a_table_that_cant_be_kept_stops_no_other_and_what_is_torn_is_written_again(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    others, sound = scene.new_topic(), scene.new_topic()
    foreign = scene.lake / table_name(others)
    write_deltalake(str(foreign), pa.table({"x": [1]}))
    for topic in (others, sound):
        scene.put_schema(topic, ORDER, table=True)
        scene.produce(topic, {"id": 1})
    scene.compact()
    scene.keep()
    assert scene.rows(sound, "id") == [(1,)]
    assert f"the table of topic {others} is not kept" in caplog.text
    scene.query.stop()
    shutil.rmtree(foreign)
    last = max((scene.lake / table_name(sound) / "_delta_log").glob("*.json"))
    last.write_bytes(last.read_bytes()[:100])
    scene.query = scene.start(scene.views)  # which keeps the tables by itself
    try:
        both = (others, sound)
        wait_for(lambda: all(rows_or_none(scene, each) == [(1,)] for each in both), "the tables are not kept")
    finally:  # tests run in any order: the next may say itself when tables are kept
        scene.query.stop()
        scene.query = scene.start()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < give_up, what
        time.sleep(0.2)


def rows_or_none(scene: Scene, topic: str) -> list[tuple[Any, ...]]:
    try:
        return scene.rows(topic, "id") if find_topic_table(scene.lake, topic) is not None else []
    except DeltaError:
        return []
