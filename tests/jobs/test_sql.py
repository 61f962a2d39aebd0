"""SQL over a small lake, in every format."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.errors import InvalidStatement, LakeNotFound
from lakemq.jobs.lake_tables import MESSAGE_INDEX
from lakemq.jobs.sql import Format, run_sql, write_rows
from lakemq.settings import Lake, Settings

ROW = (
    "SELECT 1 AS n, CAST('héllo' AS binary) AS body, X'FF00' AS raw, CAST(NULL AS string) AS tag, "
    "array('k1', 'k2') AS keys, map('a', 'b') AS properties, 1.5D AS ratio, true AS ok, "
    "TIMESTAMP '2026-01-02 03:04:05.678' AS store_time, DATE '2026-01-02' AS store_date"
)


def written(spark: SparkSession, statement: str, form: Format) -> bytes:
    out = io.BytesIO()
    write_rows(spark.sql(statement), form, out)
    return out.getvalue()


@pytest.fixture
def settings(spark: SparkSession, tmp_path: Path) -> Settings:
    MESSAGE_INDEX.create(spark, tmp_path)
    path = MESSAGE_INDEX.path(tmp_path)
    spark.sql(f"INSERT INTO delta.`{path}` VALUES ('a', 'k', 'broker-a', 7, NULL)")
    return Settings(lake=Lake(dir=tmp_path))


def test_json_is_an_object_a_line_with_bodies_as_text(spark: SparkSession) -> None:
    lines = written(spark, ROW, "json").decode().splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "n": 1,
            "body": "héllo",
            "raw": "/wA=",
            "tag": None,
            "keys": ["k1", "k2"],
            "properties": {"a": "b"},
            "ratio": 1.5,
            "ok": True,
            "store_time": "2026-01-02T03:04:05.678Z",
            "store_date": "2026-01-02",
        }
    ]


def test_csv_has_a_header_and_null_is_empty(spark: SparkSession) -> None:
    (row,) = csv.DictReader(io.StringIO(written(spark, ROW, "csv").decode()))
    assert row["body"] == "héllo"
    assert row["tag"] == ""
    assert json.loads(row["keys"]) == ["k1", "k2"]
    assert row["ok"] == "true"


def test_a_table_has_a_line_a_row_and_their_number(spark: SparkSession) -> None:
    lines = written(spark, "SELECT 'a\nb' AS name, 5 AS n", "table").decode().splitlines()
    assert lines == ["name  n", "----  -", "a\\nb  5", "(1 row)"]


def test_arrow_keeps_types_and_all_rows(spark: SparkSession) -> None:
    table = pa.ipc.open_stream(written(spark, ROW, "arrow")).read_all()
    row = table.to_pylist()[0]
    assert row["body"] == "héllo".encode()
    assert row["properties"] == [("a", "b")]
    assert table.schema.field("store_time").type == pa.timestamp("us", tz="UTC")
    assert row["store_time"].isoformat() == "2026-01-02T03:04:05.678000+00:00"
    many = pa.ipc.open_stream(written(spark, "SELECT id FROM range(10000)", "arrow")).read_all()
    assert sorted(many["id"].to_pylist()) == list(range(10_000))


def test_no_rows_are_a_header_and_a_schema(spark: SparkSession) -> None:
    empty = "SELECT 1 AS n WHERE false"
    assert written(spark, empty, "json") == b""
    assert written(spark, empty, "csv").decode().strip() == "n"
    assert pa.ipc.open_stream(written(spark, empty, "arrow")).read_all().schema.names == ["n"]


def test_tables_of_the_lake_go_by_their_bare_names(settings: Settings) -> None:
    out = io.BytesIO()
    run_sql(settings, "SELECT key, position FROM message_index;", "json", out)
    assert json.loads(out.getvalue()) == {"key": "k", "position": 7}


@pytest.mark.parametrize("statement", ["selec 1", "SELECT nope FROM message_index", "SELECT 1/0 + *"])
def test_a_mistake_is_told_in_one_line(settings: Settings, statement: str) -> None:
    with pytest.raises(InvalidStatement) as caught:
        run_sql(settings, statement, "table", io.BytesIO())
    assert caught.value.detail
    assert "\n" not in caught.value.detail
    assert "org.apache" not in caught.value.detail


def test_without_a_lake_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(LakeNotFound, match="there is no lake"):
        run_sql(Settings(lake=Lake(dir=tmp_path)), "SELECT 1", "table", io.BytesIO())
