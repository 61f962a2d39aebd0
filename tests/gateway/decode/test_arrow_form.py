from __future__ import annotations

import gc
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakemq.gateway.decode import ArrowRows, Limits, TakesLong, arrow_values, decode
from lakemq.gateway.decode.limits import AT_ONCE_BYTES_MAX, AT_ONCE_VALUES_MAX
from lakemq.model.columns import REQUEST
from lakemq.model.errors import InvalidArrow, MessageTooLarge
from tests.gateway.decode.streams import (
    ARROW,
    LIMITS,
    bodies,
    replaced,
    tables,
    with_column,
    write_stream,
)


def rows_of(stream: bytes, limits: Limits = LIMITS) -> pa.RecordBatch:
    decoded = decode(ARROW, {}, stream, limits)
    assert isinstance(decoded, ArrowRows)
    return decoded.batch


def refused(stream: bytes) -> str:
    with pytest.raises(InvalidArrow) as caught:
        decode(ARROW, {}, stream, LIMITS)
    return caught.value.detail


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables(), st.sampled_from([None, "lz4", "zstd"]), st.integers(1, 8))
def test_rows_come_out_as_they_were_written(table: pa.Table, compression: str | None, rows: int) -> None:
    batch = rows_of(write_stream(table, compression, rows))
    assert batch.to_pylist() == table.select(batch.schema.names).to_pylist()
    present = [field for field in REQUEST if field.name in table.column_names]
    assert batch.schema.equals(pa.schema(present), check_metadata=True)
    batch.validate(full=True)


def test_bodies_are_not_copied() -> None:
    stream = write_stream(bodies(b"a" * 1024, b"b" * 1024))
    start = pa.py_buffer(stream).address
    data = rows_of(stream).column("body").buffers()[2]
    assert start <= data.address < start + len(stream)


def test_rows_outlive_the_request() -> None:
    stream = bytearray(write_stream(bodies(b"a" * 4096)))
    batch = rows_of(bytes(stream))
    del stream
    gc.collect()
    assert batch.column("body").to_pylist() == [b"a" * 4096]


def test_the_mark_at_the_end_may_be_missing() -> None:
    assert rows_of(write_stream(bodies(b"x"))[:-8]).num_rows == 1


def test_misaligned_bytes_are_read() -> None:
    stream = write_stream(pa.table({"body": [b"x"] * 9, "born_time_ms": range(9)}))
    for shift in range(8):
        moved = memoryview(b"\0" * shift + stream)[shift:]
        assert rows_of(bytes(moved)).column("born_time_ms").to_pylist() == list(range(9))


def test_all_null_columns_of_no_type_are_taken() -> None:
    table = pa.table({"body": pa.array([b"x", b"y"]), **{name: pa.nulls(2) for name in OTHERS}})
    batch = rows_of(write_stream(table))
    assert batch.schema.names == REQUEST.names
    assert all(batch.column(name).null_count == 2 for name in OTHERS)


OTHERS = [name for name in REQUEST.names if name != "body"]


def test_names_of_nested_fields_and_metadata_are_made_alike() -> None:
    element = pa.field("element", pa.string(), nullable=False, metadata={"a": "b"})
    table = pa.table({"body": [b"x"], "keys": pa.array([["k"]], pa.list_(element))})
    batch = rows_of(write_stream(table.replace_schema_metadata({"pandas": "{}"})))
    expected = pa.schema([REQUEST.field("body"), REQUEST.field("keys")])
    assert batch.schema.equals(expected, check_metadata=True)


def test_a_body_as_text_is_taken_as_its_utf8() -> None:
    assert rows_of(write_stream(pa.table({"body": ["é"]}))).to_pylist() == [{"body": "é".encode()}]


def test_batches_without_rows_are_passed_over() -> None:
    empty = bodies().to_batches() or [pa.record_batch({"body": pa.array([], pa.binary())})]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, bodies(b"x").schema) as writer:
        for batch in (*empty, *bodies(b"x").to_batches(), *empty):
            writer.write_batch(batch)
    assert rows_of(sink.getvalue().to_pybytes()).num_rows == 1


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("tag", ["t", "a||b"], "column 'tag', row 1: can't be"),
        ("tag", ["*"], "row 0: can't be"),
        ("tag", ["a", None, " a"], "row 2: can't be"),
        ("tag", ["a\n"], "row 0: can't be"),
        ("tag", ["a", ""], "column 'tag', row 1: empty"),
        ("tag", ["a" * 1025], "column 'tag', row 0: longer than 1024 bytes"),
        ("ordering_key", [None, ""], "column 'ordering_key', row 1: empty"),
        ("ordering_key", ["é" * 513], "row 0: longer than 1024 bytes"),
        ("keys", [[], ["k"], ["k", ""]], "column 'keys', row 2: empty"),
        ("keys", [["k"], ["k", None]], "column 'keys', row 1: an entry is null"),
        ("keys", [["k"] * 65], "column 'keys', row 0: more than 64 entries"),
        ("keys", [None, ["k" * 1025]], "column 'keys', row 1: longer than 1024 bytes"),
        ("properties", [[("a", "b")], [("", "b")]], "column 'properties', row 1: empty"),
        ("properties", [[], [("a", None)]], "column 'properties', row 1: a value is null"),
        ("properties", [[("a", "b"), ("a", "c")]], "row 0: 'a' is there twice"),
        ("properties", [None, [(str(at), "") for at in range(257)]], "row 1: more than 256"),
        ("properties", [[("a", "b")], [("a", "v" * 65_536)]], "row 1: more than 65536 bytes"),
        ("queue_id", [0, -1], "column 'queue_id', row 1: must be from 0 to 65534"),
        ("queue_id", [65_535], "column 'queue_id', row 0"),
        ("born_time_ms", [None, -5], "column 'born_time_ms', row 1"),
        ("deliver_at_ms", [2**53 + 1], "column 'deliver_at_ms', row 0"),
    ],
)
def test_a_value_out_of_its_range_is_named_with_its_row(name: str, values: list[Any], says: str) -> None:
    assert says in refused(with_column(name, values))


def test_values_at_their_limits_are_taken() -> None:
    wide = [(f"{at:03}", "v" * 253) for at in range(256)]
    for name, value in {
        "tag": "a" * 1024,
        "ordering_key": "k" * 1024,
        "keys": ["k" * 1024] * 64,
        "properties": wide,
        "queue_id": 65_534,
        "deliver_at_ms": 2**53,
        "born_time_ms": 0,
    }.items():
        assert rows_of(with_column(name, [value, None])).column(name).to_pylist() == [value, None]


def test_the_same_property_in_two_messages_is_no_repetition() -> None:
    value = [("a", "1"), ("b", "2")]
    assert rows_of(with_column("properties", [value, value])).num_rows == 2


NAMES = st.sampled_from(["", "a", "b", "n" * 65_535, "n" * 65_536])
VALUES = st.sampled_from(["", "v", "v" * 65_535, "v" * 65_536])
MAPS = st.none() | st.dictionaries(NAMES, VALUES, max_size=2)


@pytest.mark.parametrize("few", [0, 1, arrow_values.FEW])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_maps=st.lists(MAPS, min_size=1, max_size=3))
def test_properties_are_judged_alike_however_many_there_are(
    few: int, given_maps: list[dict[str, str] | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_values, "FEW", few)
    sizes = [sum(len(name) + len(value) for name, value in (each or {}).items()) for each in given_maps]
    is_fine = max(sizes) <= 65_536 and not any("" in each for each in given_maps if each)
    stream = with_column("properties", [None if each is None else list(each.items()) for each in given_maps])
    if is_fine:
        assert rows_of(stream).num_rows == len(given_maps)
    else:
        assert "column 'properties', row" in refused(stream)


@pytest.mark.parametrize("count", [1, arrow_values.FEW, arrow_values.FEW + 1, 5_000])
def test_one_property_each_is_taken_and_one_too_many_is_found(count: int) -> None:
    values: list[Any] = [[("send_id", f"sender.{number}")] for number in range(count)]
    batch = rows_of(with_column("properties", values))
    assert batch.column("properties").to_pylist() == values
    assert f"row {count - 1}: empty" in refused(with_column("properties", [*values[:-1], [("", "x")]]))
    assert f"row {count - 1}: 'a' is there twice" in refused(
        with_column("properties", [*values[:-1], [("a", "1"), ("a", "2")]])
    )


@pytest.mark.parametrize(
    ("table", "more"),
    [
        # Regression: a request of 464 bytes had a million messages, which the event loop went through.
        (bodies(*[b""] * AT_ONCE_VALUES_MAX), bodies(*[b""] * (AT_ONCE_VALUES_MAX + 1))),
        (bodies(b"x" * (AT_ONCE_BYTES_MAX - 16)), bodies(b"x" * AT_ONCE_BYTES_MAX)),
    ],
    ids=["values", "bytes"],
)
def test_what_takes_long_is_not_begun_where_others_wait(table: pa.Table, more: pa.Table) -> None:
    limits = Limits(message_bytes_max=2 * AT_ONCE_BYTES_MAX, request_bytes_max=2 * AT_ONCE_BYTES_MAX)
    packed = write_stream(more, "zstd")
    assert len(packed) < 4_096
    assert rows_of(packed, limits).num_rows == more.num_rows
    with pytest.raises(TakesLong):
        rows_of(packed, limits._replace(at_once=True))
    assert rows_of(write_stream(table, "zstd"), limits._replace(at_once=True)).num_rows == table.num_rows


def test_views_are_not_begun_where_others_wait() -> None:
    """Many of them may show the same bytes."""
    stream = write_stream(pa.table({"body": pa.array([b"x"], pa.binary_view())}))
    assert rows_of(stream).num_rows == 1
    with pytest.raises(TakesLong):
        rows_of(stream, LIMITS._replace(at_once=True))


def test_entries_of_properties_count_as_values() -> None:
    properties = [(f"{number}", "x") for number in range(256)]
    kind = REQUEST.field("properties").type
    rows = 100
    table = pa.table({"body": pa.array([b""] * rows, pa.binary()), "properties": pa.array([properties] * rows, kind)})
    with pytest.raises(TakesLong):
        rows_of(write_stream(table, "zstd"), LIMITS._replace(at_once=True))


def test_a_null_body_is_refused() -> None:
    assert "column 'body', row 1: null" in refused(write_stream(bodies(b"x", None)))


def test_a_body_above_the_limit_is_named_with_its_row() -> None:
    limits = Limits(message_bytes_max=100, request_bytes_max=10_000)
    assert rows_of(write_stream(bodies(b"x" * 100, b"y" * 100)), limits).num_rows == 2
    with pytest.raises(MessageTooLarge, match="'body', row 1: 101 bytes"):
        rows_of(write_stream(bodies(b"x", b"y" * 101)), limits)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"tag": ["t"]}, "'body' is missing"),
        ({"body": [b"x"], "tags": ["t"]}, "unknown column 'tags'"),
        ({"body": [b"x"], "message_id": ["t"]}, "unknown column 'message_id'"),
        ({"body": [1]}, "column 'body' has another type"),
        ({"body": [b"x"], "tag": [b"t"]}, "column 'tag' has another type"),
        ({"body": [b"x"], "tag": pa.array(["t"]).dictionary_encode()}, "dictionary-encoded"),
        ({"body": [b"x"], "queue_id": [1.5]}, "column 'queue_id' has another type"),
        ({"body": [b"x"], "keys": [[[1]]]}, "column 'keys' has another type"),
        ({"body": [b"x"], "keys": [{"a": 1}]}, "column 'keys' has another type"),
        ({"body": [b"x"], "properties": [{"a": "b"}]}, "column 'properties' has another type"),
        ({"body": [b"x"], "keys": pa.array([[None]], pa.list_(pa.null()))}, "a list of nulls"),
        ({"body": [b"x"], "tag": pa.array(["{}"], pa.json_())}, "extension type"),
        (
            {"body": [b"x"], "deliver_at_ms": pa.array([1], pa.timestamp("ms"))},
            "column 'deliver_at_ms' has another type",
        ),
        (
            {"body": [b"x"], "keys": pa.array([["a"]], pa.list_view(pa.string()))},
            "column 'keys' has another type",
        ),
        (
            {"body": [b"x"], "properties": pa.array([[(1, "a")]], pa.map_(pa.int8(), pa.string()))},
            "column 'properties' has another type",
        ),
    ],
)
def test_columns_that_are_no_message_s_are_named(columns: dict[str, Any], says: str) -> None:
    assert says in refused(write_stream(pa.table(columns)))


def test_a_column_that_is_there_twice_is_refused() -> None:
    body = pa.array([b"x"])
    table = pa.Table.from_arrays([body, body], names=["body", "body"])
    assert "'body' is there twice" in refused(write_stream(table))


def test_integers_that_do_not_fit_are_refused() -> None:
    assert "column 'queue_id': Integer" in refused(with_column("queue_id", [2**40], pa.int64()))
    assert "column 'born_time_ms': " in refused(with_column("born_time_ms", [2**63], pa.uint64()))


def test_a_stream_without_rows_is_refused() -> None:
    assert "no rows" in refused(write_stream(bodies()))


def test_text_that_is_no_utf8_is_refused() -> None:
    stream = replaced(with_column("tag", ["tag-tag"]), b"tag-tag", b"tag\xfftag")
    assert "column 'tag': Invalid: Invalid UTF8" in refused(stream)


def test_more_rows_than_a_request_may_have_are_refused_unread() -> None:
    stream = write_stream(pa.table({"body": pa.array([b""] * 1_000_001)}))
    with pytest.raises(MessageTooLarge, match="more than 1000000 messages"):
        rows_of(stream)


def test_more_batches_than_a_request_may_have_are_refused() -> None:
    stream = write_stream(bodies(*[b"x"] * 1025), rows=1)
    with pytest.raises(MessageTooLarge, match="more than 1024 record batches"):
        rows_of(stream)
