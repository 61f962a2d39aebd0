"""JSON Schema as columns."""

from __future__ import annotations

from typing import Any

import pytest

from lakemq.model.column_type import in_sql
from lakemq.model.errors import InvalidRequest
from lakemq.model.json_schema import DEPTH_MAX, JsonSchema, parse_json_schema


def of(said: Any, **more: Any) -> JsonSchema:
    """Of an object with one property."""
    return parse_json_schema({"type": "object", "properties": {"x": said}, **more})


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"type": "boolean"}, "boolean"),
        ({"type": "integer"}, "bigint"),
        ({"type": ["integer", "null"]}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": ["integer", "number"]}, "double"),
        ({"type": "number", "multipleOf": 0.01}, "decimal(38,2)"),
        ({"type": "number", "multipleOf": 0.02}, "double"),
        ({"type": "number", "multipleOf": 10}, "double"),
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "email"}, "string"),
        ({"type": "string", "format": 1}, "string"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "contentEncoding": "base64"}, "binary"),
        ({"type": "array"}, "array<string>"),
        ({"items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "object"}, "map<string,string>"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string,bigint>"),
        ({"type": "object", "additionalProperties": True}, "map<string,string>"),
        ({"properties": {"y": True}}, "struct<`y`:string>"),
        ({}, "string"),
        ({"enum": ["a", "b"]}, "string"),
        ({"enum": [1, None]}, "bigint"),
        ({"enum": [1, "a"]}, "string"),
        ({"const": 1.5}, "double"),
        ({"type": ["integer", "string"]}, "string"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "bigint"),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, "double"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "string"),
        ({"oneOf": [{"type": "integer"}, {"type": ["integer", "null"]}]}, "bigint"),
        ({"$ref": "#/$defs/a~1b"}, "bigint"),
        ({"allOf": [{"$ref": "#/$defs/a~1b"}]}, "bigint"),
        ({"type": "string", "allOf": [{}, {}]}, "string"),
    ],
)
def test_each_type_is_one_of_a_column_s(said: Any, kind: str) -> None:
    found = of(said, **{"$defs": {"a/b": {"type": "integer"}}})
    assert in_sql(found.columns) == f"struct<`x`:{kind}>"


@pytest.mark.parametrize(
    ("said", "required"),
    [({"type": "integer"}, True), ({"type": ["integer", "null"]}, False), ({}, False), (True, False)],
)
def test_what_may_be_null_is_not_required(said: Any, required: bool) -> None:
    assert of(said, required=["x", "other"]).columns.fields[0].required is required


def test_what_no_column_holds_is_named() -> None:
    found = of(
        {"type": "integer", "minimum": 1, "title": "a", "allOf": [{}, {}]},
        additionalProperties=False, minProperties=1,
    )  # fmt: skip
    assert found.ignored == ("additionalProperties", "allOf", "minProperties", "minimum")


def test_a_name_is_quoted_whatever_is_in_it() -> None:
    assert in_sql(parse_json_schema({"properties": {"a`b": {"type": "integer"}}}).columns) == "struct<`a``b`:bigint>"


def nested(depth: int) -> Any:
    return {"type": "array", "items": nested(depth - 1)} if depth else {"type": "integer"}


def test_it_is_as_deep_as_it_may_be() -> None:
    of(nested(DEPTH_MAX - 1))
    with pytest.raises(InvalidRequest, match="within each other"):
        of(nested(DEPTH_MAX))


BOMB = {f"a{at}": {"properties": {f"p{name}": {"$ref": f"#/$defs/a{at + 1}"} for name in range(9)}} for at in range(7)}

LARGE = {f"k{at}": at for at in range(1_000)}


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        False,
        {"type": "string"},
        {"type": "object"},
        {"properties": []},
        {"properties": [1]},
        {"properties": {"x": False}},
        {"properties": {"x": 1}},
        {"properties": {"x": {"type": "int"}}},
        {"properties": {"x": {"type": []}}},
        {"properties": {"x": {"type": [1]}}},
        {"properties": {"x": {"type": "number", "multipleOf": "1"}}},
        {"properties": {"x": {"type": "number", "multipleOf": True}}},
        {"properties": {"x": {"type": "number", "multipleOf": 0}}},
        {"properties": {"x": {}}, "required": "x"},
        {"properties": {"": {}}},
        {"properties": {"a\nb": {}}},
        {"properties": {"a" * 129: {}}},
        {"properties": {"a": {}, "A": {}}},
        {"properties": {"x": {"$ref": "http://example.com"}}},
        {"properties": {"x": {"$ref": 1}}},
        {"properties": {"x": {"$ref": "#/nothing"}}},
        {"properties": {"x": {"$ref": "#/required/0"}}, "required": ["x"]},
        {"properties": {"x": {"$ref": "#/title"}}, "title": "a"},
        {"properties": {"x": {"$ref": "#"}}},
        {"properties": {"${env:HOME}": {}}},
        {"properties": {"x": {"anyOf": [{"$ref": "#/properties/x"}]}}},
        {"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"properties": {f"x{at}": {"$ref": "#/$defs/a"} for at in range(900)}, "$defs": {"a": LARGE}},
        {"properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": {**BOMB, "a7": {"type": "integer"}}},
    ],
)
def test_what_can_not_be_columns_is_refused(document: Any) -> None:
    with pytest.raises(InvalidRequest):
        parse_json_schema(document)
