"""SQL over a small lake, in every format."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.errors import BrokerUnavailable, InvalidOption, InvalidStatement, LakeNotFound
from lakemq.jobs.maintenance.runs import Run, append_run
from lakemq.jobs.session.connect import server_of, token_of
from lakemq.jobs.sql import live
from lakemq.jobs.sql.chart import check_chart_file, draw_chart, make_figure, rows_of_bars
from lakemq.jobs.sql.connect_client import ConnectClient
from lakemq.jobs.sql.statement import embedded_client
from lakemq.jobs.sql.written import Format, format_of, write_file, write_rows
from lakemq.jobs.tables.tables import MESSAGE_INDEX
from lakemq.settings import Lake, Settings
from tests.docs.column_texts import VIEW_COLUMNS

ROW = (
    "SELECT 1 AS n, CAST('héllo' AS binary) AS body, X'FF00' AS raw, CAST(NULL AS string) AS tag, "
    "array('k1', 'k2') AS keys, map('a', 'b') AS properties, 1.5D AS ratio, true AS ok, "
    "TIMESTAMP '2026-01-02 03:04:05.678' AS store_time, DATE '2026-01-02' AS store_date"
)


DOCUMENT = Path(__file__).parents[3] / "docs" / "sql.md"
GATEWAY_AWAY = "http://127.0.0.1:9"


@pytest.fixture
def client(spark: SparkSession) -> Iterator[ConnectClient]:
    with ConnectClient(server_of(spark, Settings()), token_of(spark)) as client:
        yield client


def written(client: ConnectClient, statement: str, form: Format) -> bytes:
    out = io.BytesIO()
    write_rows(client.run(statement), form, out)
    return out.getvalue()


def answer(settings: Settings, statement: str) -> list[dict[str, Any]]:
    out = io.BytesIO()
    with embedded_client(settings, GATEWAY_AWAY, statement) as client:
        write_rows(client.run(statement), "json", out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with one row."""
    lake = tmp_path_factory.mktemp("made")
    MESSAGE_INDEX.create(spark, lake)
    spark.sql(f"INSERT INTO delta.`{MESSAGE_INDEX.path(lake)}` VALUES ('a', 'k', 'broker-a', 7, NULL)")
    return lake


@pytest.fixture
def settings(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A copy of it; no gateway is waited for, as there is none."""
    monkeypatch.setattr(live, "_LOOK_RETRY_S", 0.0)
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return Settings(lake=Lake(dir=tmp_path))


def test_json_is_an_object_a_line_with_bodies_as_text(client: ConnectClient) -> None:
    lines = written(client, ROW, "json").decode().splitlines()
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


def test_csv_has_a_header_and_null_is_empty(client: ConnectClient) -> None:
    (row,) = csv.DictReader(io.StringIO(written(client, ROW, "csv").decode()))
    assert row["body"] == "héllo"
    assert row["tag"] == ""
    assert json.loads(row["keys"]) == ["k1", "k2"]
    assert row["ok"] == "true"


def test_a_table_has_a_line_a_row_and_their_number(client: ConnectClient) -> None:
    lines = written(client, "SELECT 'a\nb' AS name, 5 AS n", "table").decode().splitlines()
    assert lines == ["name  n", "----  -", "a\\nb  5", "(1 row)"]


def test_arrow_keeps_types_and_all_rows(client: ConnectClient) -> None:
    table = pa.ipc.open_stream(written(client, ROW, "arrow")).read_all()
    row = table.to_pylist()[0]
    assert row["body"] == "héllo".encode()
    assert row["properties"] == [("a", "b")]
    assert table.schema.field("store_time").type == pa.timestamp("us", tz="UTC")
    assert row["store_time"].isoformat() == "2026-01-02T03:04:05.678000+00:00"
    many = pa.ipc.open_stream(written(client, "SELECT id FROM range(10000)", "arrow")).read_all()
    assert sorted(many["id"].to_pylist()) == list(range(10_000))


def test_no_rows_are_a_header_and_a_schema(client: ConnectClient) -> None:
    empty = "SELECT 1 AS n WHERE false"
    assert written(client, empty, "json") == b""
    assert written(client, empty, "csv").decode().strip() == "n"
    assert pa.ipc.open_stream(written(client, empty, "arrow")).read_all().schema.names == ["n"]


def test_the_second_column_of_a_name_is_not_lost(client: ConnectClient) -> None:
    twice = "SELECT 1 AS a, 2 AS a, 3 AS a_2"
    assert json.loads(written(client, twice, "json")) == {"a": 1, "a_3": 2, "a_2": 3}


def test_nested_values_are_plain_in_json(client: ConnectClient) -> None:
    nested = (
        "SELECT parse_json('{\"a\": [1, 2.5]}') AS v, array(map('k', X'41')) AS m, "
        "named_struct('raw', X'FF00', 'at', TIMESTAMP '2026-01-02 03:04:05') AS s, "
        "TIMESTAMP_NTZ '2026-01-02 03:04:05' AS local, 1.50BD AS d, INTERVAL '2' DAY AS wait, "
        "CAST(NULL AS MAP<STRING, STRING>) AS none"
    )
    assert json.loads(written(client, nested, "json")) == {
        "v": {"a": [1, "2.5"]},
        "s": {"raw": "/wA=", "at": "2026-01-02T03:04:05.000Z"},
        "m": [{"k": "A"}],
        "local": "2026-01-02T03:04:05.000",
        "d": "1.50",
        "wait": "2 days, 0:00:00",
        "none": None,
    }


def test_parquet_goes_through_a_pipe_and_keeps_all_rows(client: ConnectClient) -> None:
    table = pq.read_table(
        pa.py_buffer(written(client, "SELECT id, repeat('x', 100) AS b FROM range(250000)", "parquet"))
    )
    assert sorted(table["id"].to_pylist()) == list(range(250_000))
    assert table.schema.field("b").type == pa.string()


def test_a_table_of_too_many_rows_is_cut_and_says_so(client: ConnectClient) -> None:
    lines = written(client, "SELECT id FROM range(10001)", "table").decode().splitlines()
    assert len(lines) == 10_003
    assert lines[-1] == "(the first 10000 rows; --format csv has all)"


def test_a_row_as_large_as_a_message_may_be_comes_whole(client: ConnectClient) -> None:
    (row,) = pa.ipc.open_stream(written(client, "SELECT repeat('x', 6000000) AS body", "arrow")).read_all().to_pylist()
    assert len(row["body"]) == 6_000_000


def test_a_command_tells_its_rows(client: ConnectClient) -> None:
    client.run("CREATE TEMPORARY VIEW seven AS SELECT 7 AS n;")
    assert json.loads(written(client, "SELECT * FROM seven;", "json")) == {"n": 7}
    assert b"seven" in written(client, "SHOW VIEWS", "csv")


def test_an_output_file_appears_whole_or_not_at_all(client: ConnectClient, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    assert format_of(file) == "csv"
    write_file(client.run("SELECT 1 AS n"), "csv", file)
    assert file.read_text() == "n\n1\n"
    with pytest.raises(InvalidStatement):
        write_file(
            client.run("SELECT id, IF(id < 100000, 1, raise_error('late')) AS n FROM range(200000)"), "csv", file
        )
    assert file.read_text() == "n\n1\n"
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(InvalidOption, match=r"rows\.xls"):
        format_of(tmp_path / "rows.xls")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT TIMESTAMPADD(MINUTE, id, TIMESTAMP '2026-01-01') AS at, id AS n, id * 1.5BD AS m FROM range(50)",
        "SELECT concat('carrier ', id) AS carrier, id AS n, NULLIF(id, 3) AS m FROM range(20)",
        "SELECT id * id AS n FROM range(10)",
    ],
)
def test_rows_are_drawn_as_lines_or_bars(client: ConnectClient, tmp_path: Path, statement: str) -> None:
    for name in ("chart.png", "chart.svg"):
        draw_chart(client.run(statement), tmp_path / name)
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "chart.svg").read_text()


@pytest.mark.parametrize(
    "first",
    [
        "concat('a topic with a rather long name ', id)",
        "TIMESTAMPADD(HOUR, id, TIMESTAMP '2026-01-01')",
        "id * 1000000000",
        "concat('t', id)",
    ],
)
@pytest.mark.parametrize("rows", [3, 12, 60])
def test_labels_of_a_chart_do_not_overlap(client: ConnectClient, first: str, rows: int) -> None:
    figure = make_figure(client.run(f"SELECT {first} AS x, id AS n FROM range({rows})"))
    figure.canvas.draw()
    (axes,) = figure.axes
    for axis in (axes.xaxis, axes.yaxis):
        boxes = [each.get_window_extent() for each in axis.get_ticklabels() if each.get_text()]
        assert len(boxes) > 1
        assert not any(one.overlaps(other) for one, other in pairwise(boxes))


def test_days_of_a_chart_have_their_own_month(client: ConnectClient) -> None:
    figure = make_figure(
        client.run("SELECT DATE_ADD(DATE '2026-10-01', CAST(id AS int)) AS day, id AS n FROM range(31)")
    )
    axis = figure.axes[0].xaxis
    assert [each.get_text() for each in axis.get_ticklabels()][:2] == ["Oct 01", "Oct 05"]
    assert axis.get_major_formatter().get_offset() == "2026"


def test_a_chart_in_text_has_the_labels_and_numbers(client: ConnectClient) -> None:
    found = dict(
        rows_of_bars(client.run("SELECT topic, n, m FROM VALUES ('a', 1, 1.5BD), ('b', NULL, 2BD) t(topic, n, m)"))
    )
    assert found == {"n": [("a", 1), ("b (NULL)", 0)], "m": [("a", 1.5), ("b", 2.0)]}


PAID = (
    "VALUES (DATE '2026-10-02', 'BE', 3), (DATE '2026-10-01', 'DE', 2), (DATE '2026-10-01', 'BE', 1) t(day, country, n)"
)


def test_rows_of_days_and_countries_are_a_line_for_each_country_from_left_to_right(client: ConnectClient) -> None:
    (axes,) = make_figure(client.run(f"SELECT * FROM {PAID}")).axes
    drawn = {str(line.get_label()): [*map(float, line.get_ydata(orig=False))] for line in axes.lines}
    assert drawn.keys() == {"BE", "DE"}
    assert drawn["BE"] == [1, 3]
    assert drawn["DE"][0] == 2
    in_text = dict(rows_of_bars(client.run(f"SELECT * FROM {PAID}")))
    assert in_text["BE"] == [("2026-10-02", 3), ("2026-10-01", 1)]
    assert in_text["DE"] == [("2026-10-02 (NULL)", 0), ("2026-10-01", 2)]


def test_what_can_not_be_drawn_is_said(client: ConnectClient, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="column of numbers"):
        draw_chart(client.run("SELECT 'a' AS a, 'b' AS b"), tmp_path / "chart.png")
    with pytest.raises(InvalidOption, match="more than 200 rows"):
        draw_chart(client.run("SELECT CAST(id AS string) AS s, id FROM range(201)"), tmp_path / "chart.png")
    for draw in (make_figure, lambda result: list(rows_of_bars(result))):
        with pytest.raises(InvalidOption, match="no rows"):
            draw(client.run("SELECT 'a' AS a, 1 AS n LIMIT 0"))
    with pytest.raises(InvalidOption, match=r"chart\.doc"):
        check_chart_file(tmp_path / "chart.doc")
    assert list(tmp_path.iterdir()) == []


def test_tables_of_the_lake_go_by_their_bare_names(settings: Settings) -> None:
    assert answer(settings, "SELECT key, position FROM message_index;") == [{"key": "k", "position": 7}]


LISTED = DOCUMENT.read_text().partition("| name | rows |")[2].partition("\n\n")[0]
NAMES = [name for line in LISTED.splitlines() for name in re.findall(r"`([a-z_]+)`", "".join(line.split("|")[1:2]))]


def test_all_that_the_document_lists_is_there_before_anything_was_written(settings: Settings) -> None:
    """Regression: what no maintenance had run for was not found."""
    assert {"messages", "maintenance_runs", "lake_stats", "log_holes", "topics"} <= set(NAMES)
    counts = ", ".join(f"(SELECT count(*) FROM {name}) AS {name}" for name in NAMES)
    assert answer(settings, f"SELECT {counts}") == [dict.fromkeys(NAMES, 0) | {"message_index": 1}]
    run = Run("r", "optimize", "request", 1, 2, 1, "done", None, 0, 0, 0, 0, {})
    append_run(settings.lake.dir, run)
    assert answer(settings, "SELECT run_id, detail FROM maintenance_runs") == [{"run_id": "r", "detail": "{}"}]


def test_the_documented_columns_of_views_are_those_of_spark(settings: Settings) -> None:
    for view, columns in VIEW_COLUMNS.items():
        found = {row["col_name"]: row["data_type"] for row in answer(settings, f"DESCRIBE {view}")}
        assert {name: found.get(name) for name in columns} == columns
        assert view == "dead_letters" or set(found) == set(columns)


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("selec 1", (1, 1)),
        ("SELECT key,\n  nope FROM (SELECT 'k' AS key)", (2, 3)),
        ("\n SELECT * FROM nowhere", (2, 16)),
        ("SELECT 1/0 + *", (None, None)),
        ("SELECT 1,\n 1/0", (2, 2)),
        ("SELECT INTERVAL 1 MONTH", (None, None)),
    ],
)
def test_a_mistake_is_told_in_one_line_with_its_place(
    client: ConnectClient, statement: str, place: tuple[int | None, int | None]
) -> None:
    with pytest.raises(InvalidStatement) as caught:
        client.run(statement)
    assert (caught.value.line, caught.value.column) == place
    assert caught.value.detail
    assert "\n" not in caught.value.detail
    assert "org.apache" not in caught.value.detail
    assert "SQLSTATE" not in caught.value.detail


@pytest.mark.parametrize("statement", ["SELECT sum(v:n) {}", "SELECT 1 {} WHERE v:n > 1", "SELECT 1 {} GROUP BY v"])
def test_what_a_field_of_a_body_lacks_is_told(client: ConnectClient, statement: str) -> None:
    """Regression: only Spark's own words about VARIANT."""
    with pytest.raises(InvalidStatement) as caught:
        client.run(statement.format("FROM (SELECT parse_json('1') AS v)"))
    assert caught.value.detail.endswith(". Cast it: body_json(body):amount::double")
    assert "try_variant_get" not in caught.value.detail
    with pytest.raises(InvalidStatement) as caught:
        client.run("SELECT sum(array(1))")
    assert "Cast it" not in caught.value.detail


def test_what_helps_with_a_body_whose_number_is_a_word_is_told_and_does(settings: Settings) -> None:
    """Regression: the error of one such body among all named a function of Spark, and not how to write it."""
    texts = """VALUES ('{"amount": 20.5}'), ('{"amount": "many"}'), ('{}')"""
    bodies = f"(SELECT encode(text, 'UTF-8') AS body FROM {texts} AS t(text))"
    with pytest.raises(InvalidStatement) as caught:
        answer(settings, f"SELECT sum(body_json(body):amount::double) FROM {bodies}")
    found = re.search(r"try_variant_get\(.*?'double'\)", caught.value.detail)
    assert found is not None, caught.value.detail
    assert "Cast it" not in caught.value.detail
    assert answer(settings, f"SELECT sum({found[0]}) AS s, count(*) AS n FROM {bodies}") == [{"s": 20.5, "n": 3}]
    assert found[0].replace("amount", "dep_delay") in DOCUMENT.read_text("utf-8")


def test_without_a_lake_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(LakeNotFound, match="there is no lake"):
        answer(Settings(lake=Lake(dir=tmp_path)), "SELECT 1")


def test_live_views_of_an_embedded_spark_need_the_broker(settings: Settings) -> None:
    with pytest.raises(BrokerUnavailable, match="no answer from the broker"):
        answer(settings, "SELECT * FROM Live.messages")
