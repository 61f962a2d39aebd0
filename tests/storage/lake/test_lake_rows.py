"""Files of all the forms that writers of Delta tables have given them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakemq.model.errors import LakeUnreadable
from lakemq.storage.lake.bounds import Between, OneOf, equal, time_of
from lakemq.storage.lake.history import CONSUME_QUEUE
from lakemq.storage.lake.row_groups import FileGone, RowGroups, TooMuch

ROWS = 1000
TIMES = [datetime(2026, 1, 1, 0, number // 60, number % 60, 7000, UTC) for number in range(ROWS)]


def _table(rows: int = ROWS) -> pa.Table:
    return pa.table(
        {
            "topic": ["t" if number % 2 else "u" for number in range(rows)],
            "queue_id": pa.array([number % 3 for number in range(rows)], pa.int32()),
            "queue_offset": list(range(rows)),
            "broker": ["b"] * rows,
            "position": [number * 2 for number in range(rows)],
            "store_time": pa.array(TIMES[:rows], pa.timestamp("us", tz="UTC")),
        }
    )


def _offsets(rows: RowGroups, path: Path, **bounds: Between | OneOf) -> list[int]:
    return [
        offset
        for batch in rows.rows(path, CONSUME_QUEUE, bounds)
        for offset in batch.column("queue_offset").to_pylist()
    ]


@pytest.mark.parametrize("int96", [False, True])
@pytest.mark.parametrize("cache_bytes", [2**20, 1000])
def test_rows_within_bounds_are_found_whatever_the_form_of_times_and_the_room(
    tmp_path: Path, int96: bool, cache_bytes: int
) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(_table(), path, row_group_size=300, use_deprecated_int96_timestamps=int96)
    rows = RowGroups(cache_bytes)
    for _ in range(2):
        assert _offsets(rows, path, topic=equal("t"), queue_id=equal(1)) == list(range(1, ROWS, 6))
        assert _offsets(rows, path, position=OneOf([1, 2, 4, 1998])) == [1, 2, 999]
        assert _offsets(rows, path, queue_offset=Between(298, 302)) == [298, 299, 300, 301, 302]
        assert _offsets(rows, path, topic=equal("none")) == []
        late = time_of(int(TIMES[995].timestamp() * 1000))
        assert _offsets(rows, path, store_time=Between(late, None)) == [995, 996, 997, 998, 999]
        (batch,) = rows.rows(path, CONSUME_QUEUE, {"queue_offset": equal(5)})
        assert batch.schema.equals(CONSUME_QUEUE)
        assert batch.column("size").to_pylist() == [None]
        assert batch.column("store_time").to_pylist() == [TIMES[5]]
    assert rows.kept_bytes <= cache_bytes


def test_of_many_row_groups_the_last_used_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(_table(), path, row_group_size=10)
    rows = RowGroups(10_000)
    assert _offsets(rows, path) == list(range(ROWS))
    assert 0 < rows.kept_bytes <= 10_000
    rows.forget()
    assert rows.kept_bytes == 0


def test_a_file_that_is_gone_and_one_that_is_none_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileGone):
        _offsets(RowGroups(2**20), tmp_path / "f.parquet")
    (tmp_path / "g.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(LakeUnreadable):
        _offsets(RowGroups(2**20), tmp_path / "g.parquet")


def test_bytes_that_have_changed_are_noticed_by_their_checksum(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(_table(), path, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    at = content.index((500).to_bytes(8, "little"))
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(LakeUnreadable):
        _offsets(RowGroups(2**20), path)


def test_a_large_value_that_a_file_holds_once_is_not_in_memory_once_a_row(tmp_path: Path) -> None:
    """2,200 MB of bodies in a file of 1 MB: they took that much memory, and the last of them vanished."""
    path = tmp_path / "f.parquet"
    count = 2200
    body = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([b"x" * 1_000_000]))
    schema = pa.schema(
        [("position", pa.int64()), ("body", pa.binary()), ("properties", pa.map_(pa.string(), pa.string()))]
    )
    properties = pa.array([[("a", "v" * 1000)]] * count, schema.field("properties").type)
    pq.write_table(pa.table({"position": list(range(count)), "body": body, "properties": properties}), path)
    before = pa.total_allocated_bytes()
    rows = RowGroups(64 * 2**20)
    found = [batch for bound in ([1], [2199]) for batch in rows.rows(path, schema, {"position": OneOf(bound)})]
    assert [batch.column("position").to_pylist() for batch in found] == [[1], [2199]]
    assert all(batch.schema.equals(schema) for batch in found)
    assert found[1].column("body")[0].as_py() == b"x" * 1_000_000
    assert pa.total_allocated_bytes() - before < 64 * 2**20
    with pytest.raises(TooMuch):
        list(rows.rows(path, schema, {"position": Between(0, 100)}, 16 * 2**20))
    assert rows.kept_bytes < 64 * 2**20


def test_a_column_of_another_type_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    table = _table(5)
    pq.write_table(table.set_column(2, "queue_offset", pa.array(list("abcde"))), path)
    with pytest.raises(LakeUnreadable):
        _offsets(RowGroups(2**20), path)


def test_no_time_is_too_late_or_too_early_to_ask_for() -> None:
    assert time_of(2**53) == datetime.max.replace(tzinfo=UTC)
    assert time_of(0) == datetime(1970, 1, 1, tzinfo=UTC)
