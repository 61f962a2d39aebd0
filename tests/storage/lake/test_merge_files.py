"""Merging Parquet files: the same rows, in order, in a file like Spark's; or nothing."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakemq.storage.lake import merge_files as merging
from lakemq.storage.lake import table_file
from lakemq.storage.lake.intact import fault_of
from lakemq.storage.lake.merge_files import Abandoned, Input, Merged, merge_files

SCHEMA: pa.Schema = pa.schema(
    [
        ("topic", pa.string()),
        ("position", pa.int64()),
        ("keys", pa.list_(pa.string())),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("body", pa.binary()),
        ("store_time", pa.timestamp("us", tz="UTC")),
    ]
)
ORDER = ("topic", "store_time")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def _row(number: int, rng: random.Random) -> dict[str, Any]:
    return {
        "topic": rng.choice(["a", "b", "ä", None]),
        "position": number,
        "keys": rng.choice([None, [], ["k"], ["k", None, "l"]]),
        "properties": rng.choice([None, [], [("n", str(number)), ("m", None)]]),
        "body": rng.choice([None, b"", rng.randbytes(rng.randint(1, 300))]),
        "store_time": rng.choice([None, BEGIN + timedelta(microseconds=rng.randint(0, 1_000))]),
    }


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple((row[name] is None, row[name] or "" if name == "topic" else row[name] or BEGIN) for name in ORDER)


def _put(path: Path, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> Input:
    """A file, in order or not."""
    pq.write_table(pa.Table.from_pylist(rows, schema), path, row_group_size=40, write_page_checksum=True)
    return Input(path, ordered=rows == sorted(rows, key=_key))


def _merge(inputs: list[Input], folder: Path, **options: Any) -> tuple[Merged, list[dict[str, Any]]]:
    output = folder / "out.parquet"
    chosen: dict[str, Any] = {"scratch": folder / "scratch", "stop": lambda: False} | options
    made = merge_files(inputs, output, SCHEMA.names, ORDER, **chosen)
    assert list((folder / "scratch").glob("*")) == []
    assert fault_of(output, made.bytes) is None
    return made, pq.read_table(output).to_pylist()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.tuples(st.integers(0, 200), st.booleans()), min_size=1, max_size=6))
def test_all_rows_are_there_once_in_order_however_they_come(
    tmp_path_factory: pytest.TempPathFactory, seed: int, shapes: list[tuple[int, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    rng = random.Random(seed)
    rows, inputs = [], []
    for at, (count, ordered) in enumerate(shapes):
        new = [_row(len(rows) + number, rng) for number in range(count)]
        rows += new
        inputs.append(_put(folder / f"{at}.parquet", sorted(new, key=_key) if ordered else new))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "MEMORY_BYTES", 20_000)
        for module in (merging, table_file):
            patch.setattr(module, "GROUP_BYTES", 9_000)
        patch.setattr(table_file, "GROUP_ROWS", 100)
        made, merged = _merge(inputs, folder)
    assert made.rows == len(rows)
    assert [_key(row) for row in merged] == sorted(_key(row) for row in rows)
    assert sorted(merged, key=lambda row: row["position"]) == rows
    footer = pq.read_metadata(folder / "out.parquet")
    assert all(footer.row_group(at).num_rows <= 100 for at in range(footer.num_row_groups))


def test_parts_that_do_not_fit_in_memory_are_set_aside_and_then_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "MEMORY_BYTES", 5_000)
    rng = random.Random(1)
    rows = [_row(number, rng) for number in range(600)]
    lake, aside = tmp_path / "lake", list[int]()

    def look() -> bool:
        left = merging.scratch_of(lake) / "left.parquet"
        if left.parent.is_dir():
            left.write_text("a killed merge's")
            assert merging.remove_left_parts(lake) == 1, "none of this merge"
            aside.append(len(list(left.parent.iterdir())))
        return False

    scratch = merging.scratch_of(lake)
    _, merged = _merge([_put(tmp_path / "a.parquet", rows)], tmp_path, scratch=scratch, stop=look)
    assert max(aside) > 2
    assert list(scratch.iterdir()) == []
    assert sorted(row["position"] for row in merged) == list(range(600))


def test_a_column_that_older_files_lack_is_null_there_and_one_that_none_has_is_left_out(tmp_path: Path) -> None:
    old = SCHEMA.remove(SCHEMA.get_field_index("keys"))
    row = _row(1, random.Random(1)) | {"topic": "a", "keys": ["k"]}
    inputs = [_put(tmp_path / "a.parquet", [row]), _put(tmp_path / "b.parquet", [row | {"topic": "b"}], old)]
    output = tmp_path / "out.parquet"
    columns = [*SCHEMA.names, "a_new_one"]
    merge_files(inputs, output, columns, ORDER, scratch=tmp_path, stop=lambda: False)
    assert pq.read_schema(output).names == SCHEMA.names
    assert [each["keys"] for each in pq.read_table(output).to_pylist()] == [["k"], None]


def test_a_field_that_a_struct_lacks_in_older_files_is_null_there(tmp_path: Path) -> None:
    """As where a topic's schema got a field within its columns, which Spark may have written again."""
    old = pa.struct([("at", pa.timestamp("us"))])
    new = pa.struct([("count", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
    for name, kind, value in (("a", old, {"at": BEGIN}), ("b", new, {"at": BEGIN, "count": 2})):
        row = {"topic": name, "store_time": BEGIN, "one": value, "many": [value, None], "named": [("k", value)]}
        columns = [SCHEMA.field("topic"), SCHEMA.field("store_time"), ("one", kind), ("many", pa.list_(kind))]
        schema = pa.schema([*columns, ("named", pa.map_(pa.string(), kind))])
        pq.write_table(pa.Table.from_pylist([row], schema), tmp_path / f"{name}.parquet")
    inputs = [Input(tmp_path / f"{name}.parquet", ordered=False) for name in "ab"]
    output = tmp_path / "out.parquet"
    columns = ("topic", "store_time", "one", "many", "named")
    for order in (inputs, inputs[::-1]):
        merge_files(order, output, columns, ORDER, scratch=tmp_path, stop=lambda: False)
        lacking, whole = {"at": BEGIN, "count": None}, {"at": BEGIN, "count": 2}
        merged = pq.read_table(output).to_pylist()
        assert [each["one"] for each in merged] == [lacking, whole]
        assert [each["many"] for each in merged] == [[lacking, None], [whole, None]]
        assert [dict(each["named"]) for each in merged] == [{"k": lacking}, {"k": whole}]
        output.unlink()


def test_the_first_form_of_sparks_times_becomes_the_present_one(tmp_path: Path) -> None:
    rows = [{"topic": "a", "store_time": datetime(year, 1, 1, tzinfo=UTC)} for year in (1970, 2026, 9000)]
    table = pa.Table.from_pylist(rows, pa.schema([SCHEMA.field("topic"), SCHEMA.field("store_time")]))
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    made, merged = _merge([Input(tmp_path / "a.parquet", ordered=True)], tmp_path)
    assert (made.rows, merged) == (3, rows)
    assert pq.read_schema(tmp_path / "out.parquet").field("store_time").type == pa.timestamp("us", tz="UTC")


def test_the_file_has_what_readers_look_for(tmp_path: Path) -> None:
    rng = random.Random(2)
    rows = [_row(number, rng) | {"topic": "a", "store_time": BEGIN} for number in range(50)]
    _merge([_put(tmp_path / "a.parquet", rows)], tmp_path)
    group = pq.read_metadata(tmp_path / "out.parquet").row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert set(columns) == {
        *("topic", "position", "body", "store_time"),
        *("keys.list.element", "properties.key_value.key", "properties.key_value.value"),
    }
    assert columns["position"].statistics.max == 49
    assert columns["topic"].statistics.min == "a"
    assert columns["topic"].has_dictionary_page
    assert columns["store_time"].physical_type == "INT64"
    assert not columns["body"].has_dictionary_page
    assert columns["position"].has_column_index


def test_a_merge_that_is_abandoned_or_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MEMORY_BYTES", 5_000)
    rng = random.Random(3)
    rows = [_row(number, rng) for number in range(400)]
    inputs = [_put(tmp_path / "a.parquet", rows), _put(tmp_path / "b.parquet", sorted(rows, key=_key))]
    asked = iter([False] * 20 + [True] * 1000)
    with pytest.raises(Abandoned):
        _merge(inputs, tmp_path, stop=lambda: next(asked))
    torn = bytearray(inputs[1].path.read_bytes())
    torn[len(torn) // 2] ^= 255
    inputs[1].path.write_bytes(torn)
    with pytest.raises((OSError, pa.ArrowException)):
        _merge(inputs, tmp_path)
    with pytest.raises(FileNotFoundError):
        _merge([Input(tmp_path / "gone.parquet", ordered=False)], tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*.parquet")) == ["a.parquet", "b.parquet"]
