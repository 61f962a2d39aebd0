"""How many bytes an answer has, as it is sent."""

from __future__ import annotations

import io
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakemq.jobs.served.answer import FORMATS, answer_of
from lakemq.jobs.served.statement import Found
from lakemq.web.problems import Answer
from tests.jobs.served.scene import Scene

BYTES_MAX = 20_000
ROWS = 5_000
LONG = "x" * 3_000

SMALL_IN_ARROW: dict[str, list[Any]] = {
    "booleans": [pa.array([False] * ROWS)] * 30,
    "nulls": [pa.nulls(ROWS)] * 30,
    "names of fields": [pa.array([{LONG: True}] * ROWS)],
    "names of fields in lists": [pa.array([[{LONG: True}] * 100] * 50)],
    "a row alone": [pa.array([[{LONG: True}] * 1_000] * 2)],
    "maps": [pa.array([[("k", {LONG: 1})]] * ROWS, pa.map_(pa.string(), pa.struct([(LONG, pa.int8())])))],
    "characters that JSON escapes": [pa.array(["\x00" * 1_000] * 19)],
    "lines": [pa.array(['"' * 1_000] * 19)],
}


def found(columns: list[Any]) -> Found:
    batch = pa.RecordBatch.from_arrays(columns, names=[f"c{at}" for at in range(len(columns))])
    return Found(batch.schema, ("x",) * len(columns), [batch], truncated=False)


def rows_in(answer: Answer, form: str) -> tuple[int, bool]:
    """How many rows it has, and whether it says that there are more."""
    says = dict(answer.headers)[b"lakemq-truncated"] == b"true"
    if form == "json":
        content = orjson.loads(answer.body)
        assert content["truncated"] is says
        return len(content["rows"]), says
    if form == "csv":
        return bytes(answer.body).count(b"\r\n") - 1, says
    if form == "parquet":
        return pq.read_table(io.BytesIO(answer.body)).num_rows, says
    return pa.ipc.open_stream(answer.body).read_all().num_rows, says


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", SMALL_IN_ARROW)
def test_an_answer_has_so_many_bytes_whatever_its_rows_are(name: str, form: str) -> None:
    rows = found(SMALL_IN_ARROW[name])
    answer = answer_of(rows, form, BYTES_MAX)
    assert len(answer.body) <= BYTES_MAX
    count, is_cut = rows_in(answer, form)
    assert is_cut is (count < rows.batches[0].num_rows)
    whole = answer_of(rows, form, 1 << 30)
    assert rows_in(whole, form) == (rows.batches[0].num_rows, False)
    assert len(whole.body) > BYTES_MAX or not is_cut


@pytest.mark.parametrize("form", FORMATS)
def test_as_many_rows_as_have_room_are_answered(form: str) -> None:
    rows = found([pa.array(range(1_000)), pa.array([{"a": None}, None] * 500)])
    whole = answer_of(rows, form, 1 << 30)
    assert answer_of(rows, form, len(whole.body) + 1) == whole
    count, is_cut = rows_in(answer_of(rows, form, len(whole.body) - 1), form)
    assert is_cut
    assert 900 < count < 1_000


def test_an_answer_has_so_many_columns_and_bytes_of_names(scene: Scene) -> None:
    many = "SELECT " + ", ".join(f"{n} AS c{n}" for n in range(300))
    status, _, detail = scene.problem(f"SELECT a.*, a.*, a.*, a.* FROM ({many}) a", "olga")
    assert status == 400
    assert "columns at most" in detail
    name = "n" * 15_000
    long = ", ".join(["a.*"] * 20)
    assert "bytes at most" in scene.problem(f"SELECT {long} FROM (SELECT 1 AS `{name}`) a", "olga")[2]
