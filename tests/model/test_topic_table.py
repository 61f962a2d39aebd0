"""A topic's own Delta table: its name, its columns, and what it reads next."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.column_type import STRING, ColumnField, ColumnType, struct_of
from lakemq.model.errors import InvalidRequest
from lakemq.model.schema import NO_SCHEMAS, SchemaVersion, TopicSchemas, parse_schema
from lakemq.model.topic_step import BYTES_MAX, ROWS_MAX, Bounds, Range, next_step
from lakemq.model.topic_table import NewField, check_storable, new_fields, table_name

_TOPIC = st.from_regex(r"[A-Za-z0-9_-]{1,127}", fullmatch=True)


@given(_TOPIC, _TOPIC)
def test_no_two_topics_share_a_table_even_where_case_is_not_told(first: str, second: str) -> None:
    names = table_name(first), table_name(second)
    assert all(name.replace("_", "a").isalnum() and len(name) < 160 for name in names)
    assert (names[0].lower() == names[1].lower()) == (first == second)


def test_a_plain_name_stays_readable() -> None:
    assert table_name("orders") == "topic_orders"
    assert table_name("Orders").startswith("topic_orders__")
    assert table_name("my-orders") != table_name("my_orders") == "topic_my_orders"
    assert table_name(table_name("Orders").removeprefix("topic_")) != table_name("Orders")


def _columns(**properties: Any) -> ColumnType:
    return parse_schema("json", json.dumps({"type": "object", "properties": properties})).columns


@pytest.mark.parametrize("name", ["a b", "a,b", "a;b", "a{", "a}", "a(", "a)", "a="])
def test_a_name_that_no_delta_table_can_have_is_refused(name: str) -> None:
    for columns in (
        _columns(**{name: {"type": "string"}}),
        _columns(x={"type": "array", "items": {"properties": {name: {"type": "string"}}}}),
    ):
        with pytest.raises(InvalidRequest, match="can't be a column of a Delta table"):
            check_storable(columns)


@pytest.mark.parametrize("name", ["_position", "_Schema_Version"])
def test_a_name_of_the_tables_own_columns_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="a column of every topic's Delta table"):
        check_storable(_columns(**{name: {"type": "integer"}}))
    check_storable(_columns(x={"properties": {name: {"type": "integer"}}}))


def test_a_struct_without_fields_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="it has no fields"):
        check_storable(struct_of(ColumnField("it", struct_of())))
    check_storable(struct_of(ColumnField("it", ColumnType(STRING))))


ORDER = {
    "id": {"type": "integer"},
    "total": {"type": "number", "multipleOf": 0.01},
    "lines": {"type": "array", "items": {"properties": {"sku": {"type": "string"}}}},
    "labels": {"type": "object", "additionalProperties": {"properties": {"a": {"type": "number"}}}},
    "any": {},
}
PRESENT: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "total", "type": "decimal(38,2)"},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "elementType": {"type": "struct", "fields": [{"name": "sku", "type": "string"}]},
            },
        },
        {
            "name": "labels",
            "type": {
                "type": "map",
                "keyType": "string",
                "valueType": {"type": "struct", "fields": [{"name": "a", "type": "double"}]},
            },
        },
        {"name": "any", "type": "string"},
        {"name": "_body", "type": "binary"},
    ],
}


def test_a_table_lacks_nothing_of_its_own_columns_nor_of_fewer() -> None:
    assert new_fields(PRESENT, _columns(**ORDER)) == ()
    assert new_fields(PRESENT, _columns(id={"type": "integer"})) == ()


def test_columns_and_fields_are_added_wherever_they_are() -> None:
    wider = ORDER | {
        "paid": {"type": "boolean"},
        "lines": {"type": "array", "items": {"properties": {"sku": {"type": "string"}, "n`": {"type": "integer"}}}},
        "labels": {
            "type": "object",
            "additionalProperties": {"properties": {"a": {"type": "number"}, "b": {"type": "string"}}},
        },
    }
    assert new_fields(PRESENT, _columns(**wider)) == (
        NewField("`lines`.element.`n```", "bigint"),
        NewField("`labels`.value.`b`", "string"),
        NewField("`paid`", "boolean"),
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"id": {"type": "number"}},
        {"total": {"type": "number", "multipleOf": 0.001}},
        {"lines": {"type": "string"}},
        {"lines": {"type": "array", "items": {"type": "string"}}},
        {"labels": {"type": "array", "items": {"type": "string"}}},
        {"any": {"properties": {"a": {"type": "string"}}}},
    ],
)
def test_a_column_of_another_type_has_the_table_begin_anew(changed: dict[str, Any]) -> None:
    assert new_fields(PRESENT, _columns(**(ORDER | changed))) is None


def test_so_does_one_whose_name_differs_by_case() -> None:
    assert new_fields(PRESENT, _columns(ID={"type": "integer"})) is None


def test_a_topic_has_a_table_as_long_as_it_has_a_schema() -> None:
    version = SchemaVersion(1, "json", "{}", 0)
    has = NO_SCHEMAS.changed(version._asdict()).with_table(True)
    assert has.table
    assert TopicSchemas.of(has.stored()) == has
    assert has.changed(version._replace(version=2)._asdict()).table
    assert not has.with_table(False).table
    assert "table" not in has.with_table(False).stored()
    assert not has.changed(None).table
    assert not NO_SCHEMAS.with_table(True).table


def _file(path: str, low: int, high: int, **said: Any) -> Bounds:
    values: dict[str, Any] = {"rows": high - low + 1, "size": 1, "topics": ("a", "z"), "brokers": ("b", "b")}
    return Bounds(path=path, positions=(low, high), **{**values, **said})


def test_only_files_that_may_have_something_are_read() -> None:
    wanted = Range("b", 10, 20)
    files = [
        _file("before", 0, 9),
        _file("within", 5, 10),
        _file("after", 20, 30),
        _file("others", 10, 19, topics=("orders-1", "z")),
        _file("elsewhere", 10, 19, brokers=("c", "d")),
        _file("unknown", 0, 1)._replace(positions=None, topics=None, brokers=None),
    ]
    assert next_step(files, "orders", wanted) == (wanted, ("unknown", "within"))
    assert next_step([], "orders", wanted) == (wanted, ())


@pytest.mark.parametrize("most", [{"rows": ROWS_MAX}, {"size": BYTES_MAX}])
def test_a_step_ends_before_the_file_that_is_too_much(most: dict[str, int]) -> None:
    files = [_file("b", 10, 19, **most), _file("a", 0, 9, **most), _file("c", 20, 29, **most)]
    assert next_step(files, "orders", Range("b", 0, 30)) == (Range("b", 0, 10), ("a",))
    assert next_step(files, "orders", Range("b", 10, 30)) == (Range("b", 10, 20), ("b",))


def test_files_that_overlap_from_the_beginning_on_are_read_together() -> None:
    files = [_file("a", 0, 29, rows=ROWS_MAX), _file("b", 5, 25, rows=ROWS_MAX), _file("c", 28, 40, rows=ROWS_MAX)]
    assert next_step(files, "orders", Range("b", 5, 41)) == (Range("b", 5, 28), ("a", "b"))
