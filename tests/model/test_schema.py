"""Versions of a topic's schema, and which may follow which."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.errors import IncompatibleSchema, InvalidRequest, SchemaChanged, SchemaNotFound
from lakemq.model.fit import Misfit
from lakemq.model.schema import (
    NO_SCHEMAS,
    TEXT_BYTES_MAX,
    VERSION_MAX,
    VERSIONS_MAX,
    SchemaVersion,
    TopicSchemas,
    compact,
    make_decoder,
    next_version,
    parse_schema,
)
from lakemq.model.topic_columns import IN_VIEW
from tests.model.avro_writer import encode, long

INTEGER: dict[str, Any] = {"type": "integer"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def put(schemas: TopicSchemas, schema: Any, type: str = "json", expected: int | None = None) -> TopicSchemas:
    version, _ = next_version(schemas, "t", type, compact(schema), 7, expected)
    return schemas if version is schemas.current else schemas.changed(version._asdict())


def put_all(*documents: Any, type: str = "json") -> TopicSchemas:
    schemas = NO_SCHEMAS
    for each in documents:
        schemas = put(schemas, each, type)
    return schemas


def test_versions_count_up_and_are_stored_as_they_are() -> None:
    schemas = put_all(of(a=INTEGER), of(a=INTEGER, b={}))
    assert [each.version for each in schemas.versions] == [1, 2]
    assert put(schemas, json.dumps(of(a=INTEGER, b={}), indent=1)) is schemas
    assert TopicSchemas.of(json.loads(json.dumps(schemas.stored()))) == schemas
    assert TopicSchemas.of(None) is NO_SCHEMAS
    assert schemas.text_bytes == sum(len(each.text) for each in schemas.versions)
    assert (schemas.get("t"), schemas.get("t", 1)) == (schemas.versions[1], schemas.versions[0])
    dropped = schemas.changed(None)
    assert (dropped.current, put(dropped, of(z={})).versions[0].version) == (None, 3)
    for missing in (lambda: schemas.get("t", 3), lambda: dropped.get("t")):
        with pytest.raises(SchemaNotFound):
            missing()


def test_who_expects_another_version_is_told() -> None:
    one = put(NO_SCHEMAS, of(a={}), expected=0)
    two = put(one, of(a={}, b={}), expected=1)
    assert put(two, of(a={}, b={}), expected=1) is two, "asked again"
    for schemas, expected in ((NO_SCHEMAS, 1), (one, 0), (two, 1)):
        with pytest.raises(SchemaChanged):
            put(schemas, of(c={}), expected=expected)


def test_a_version_may_be_given_a_number_that_none_has_had() -> None:
    def numbered(schemas: TopicSchemas, number: int | None, **properties: Any) -> TopicSchemas:
        version, _ = next_version(schemas, "t", "json", compact(of(**properties)), 7, None, number)
        return schemas if version is schemas.current else schemas.changed(version._asdict())

    copied = numbered(numbered(NO_SCHEMAS, 3, a={}), 7, a={}, b={})
    assert [each.version for each in copied.versions] == [3, 7]
    assert numbered(copied, 7, a={}, b={}) is copied, "asked again"
    assert [each.version for each in numbered(copied, None, a={}, b={}, c={}).versions] == [3, 7, 8]
    assert numbered(copied, 9, a={}, b={}).last == 9, "the same, to have the number that it has elsewhere"
    for number in (1, 6, 7, 0, VERSION_MAX + 1):
        with pytest.raises(InvalidRequest, match=f"is 8 to {VERSION_MAX}, not {number}"):
            numbered(copied, number, a={}, b={}, c={})
    last = numbered(NO_SCHEMAS, VERSION_MAX, a={})
    with pytest.raises(InvalidRequest, match="a new version"):
        numbered(last, None, a={}, b={})


def test_there_are_not_too_many_versions() -> None:
    version = SchemaVersion(1, "json", compact(of(a={})), 0)
    with pytest.raises(InvalidRequest, match="versions"):
        put(TopicSchemas((version,) * VERSIONS_MAX, VERSIONS_MAX), of(b={}))


@pytest.mark.parametrize(
    ("type", "schema"),
    [
        ("protobuf", {}),
        ("xml", of(a={})),
        ("json", "{"),
        ("json", "nothing"),
        ("json", '{"a": "\\ud800"}'),
        ("json", {"a": float("nan")}),
        ("json", of(a={"description": "x" * TEXT_BYTES_MAX})),
        ("avro", of(a={})),
        *[("json", of(**{name.upper(): {}})) for name in IN_VIEW],
    ],
)
def test_what_is_no_schema_is_refused(type: str, schema: Any) -> None:
    with pytest.raises(InvalidRequest):
        put(NO_SCHEMAS, schema, type)


def test_text_that_is_no_json_is_refused_where_it_is_read() -> None:
    with pytest.raises(InvalidRequest):
        parse_schema("json", "{")
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidRequest):
        compact(deep)


CENTS, MILLS = ({"type": "number", "multipleOf": step} for step in (0.01, 0.001))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (of(a=INTEGER), of(a=INTEGER, b=INTEGER), None),
        (of(a=INTEGER, b=INTEGER), of(a=INTEGER), None),
        ({**of(a=INTEGER), "required": ["a"]}, of(a=INTEGER), None),
        (of(a=INTEGER), of(a={"type": "number"}), None),
        (of(a=INTEGER), of(a=CENTS), None),
        (of(a=CENTS), of(a={"type": "number"}), None),
        (of(a={"type": "string", "format": "date"}), of(a={"type": "string"}), None),
        (of(a={"type": "array", "items": INTEGER}), of(a={"type": "array"}), None),
        (of(a=of(b=INTEGER)), of(a={"type": "object"}), None),
        (of(a=of(b=INTEGER)), of(a={}), None),
        (of(a=INTEGER), {**of(a=INTEGER), "required": ["a"]}, "a would be required"),
        (of(a=INTEGER), {**of(a=INTEGER, b={"type": "string"}), "required": ["b"]}, "b would be required"),
        (of(a={"type": "number"}), of(a=INTEGER), "a was double, and would be bigint"),
        (of(a={}), of(a=INTEGER), "a was json, and would be bigint"),
        (of(a={"type": "string"}), of(a={"type": "string", "format": "date"}), "a was string, and would be date"),
        (of(a=INTEGER), of(a={"type": "number", "multipleOf": 1e-30}), "a was bigint, and would be decimal"),
        (of(a=CENTS), of(a=MILLS), "a was decimal(38,2), and would be decimal(38,3)"),
        (of(a=MILLS), of(a=CENTS), "a was decimal(38,3), and would be decimal(38,2)"),
        (of(a=of(b=INTEGER)), of(a=of(b={"type": "string"})), "a.b was bigint"),
        (of(a=of(b=INTEGER)), of(a={"type": "object", "additionalProperties": INTEGER}), "a was struct"),
        (of(a={"type": "array"}), of(a={"type": "array", "items": INTEGER}), "a[] was json"),
        (of(a={"type": "object"}), of(a={"type": "object", "additionalProperties": INTEGER}), "a.* was json"),
    ],
)
def test_a_change_is_compatible_if_all_that_fitted_still_does(old: Any, new: Any, why: str | None) -> None:
    schemas = put(NO_SCHEMAS, old)
    if why is None:
        assert put(schemas, new).last == 2
        return
    with pytest.raises(IncompatibleSchema) as error:
        put(schemas, new)
    assert why in error.value.detail


def test_it_is_held_against_all_versions() -> None:
    schemas = put_all(of(a=INTEGER, b={}), of(b={}))
    with pytest.raises(IncompatibleSchema, match="version 1"):
        put(schemas, of(a={"type": "string"}, b={}))
    many = put(NO_SCHEMAS, of(**{f"a{at}": INTEGER for at in range(9)}))
    with pytest.raises(IncompatibleSchema, match="and 4 more"):
        put(many, of(**{f"a{at}": {"type": "string"} for at in range(9)}))
    with pytest.raises(IncompatibleSchema, match="bodies are json"):
        put(schemas, AVRO[0], "avro")


def test_a_body_is_read_with_the_newest_and_may_have_confluent_s_header() -> None:
    decode = make_decoder(put_all(of(a=INTEGER), of(a={"type": "number"}, b={})).versions)
    assert decode(b'{"a": 1}', 0) == {"a": 1.0, "b": None}
    assert decode(b'\x00\x00\x00\x00\x09{"a": 1}', 0) == {"a": 1.0, "b": None}
    with pytest.raises(Misfit):
        decode(b"\x00", 0)


N, S = {"name": "n", "type": "int"}, {"name": "s", "type": "string", "default": "-"}
AVRO: list[Any] = [
    {"type": "record", "name": "R", "fields": fields} for fields in ([N], [S, N], [S, N, {**S, "name": "u"}])
]


def test_avro_is_read_by_the_version_that_may_have_written_it() -> None:
    schemas = put_all(*AVRO, type="avro")
    versions = tuple(each._replace(created_ms=each.version * 10) for each in schemas.versions)
    decode = make_decoder(versions)
    row = {"n": 1, "s": "a", "u": "b"}
    first, second, third = (encode(each, row) for each in AVRO)
    defaults = {"n": 1, "s": "-", "u": "-"}
    assert decode(first, 15) == defaults
    assert decode(first, 35) == defaults, "by a producer that is older than the schema"
    assert decode(first, 0) == defaults
    assert decode(second, 35) == {**row, "u": "-"}
    assert decode(third, 35) == row
    for at, body in enumerate((first, second, third)):
        assert decode(b"\x00" + (at + 1).to_bytes(4, "big") + body, 0)["n"] == 1
        assert decode(b"\x00" + (900).to_bytes(4, "big") + body, 0)["n"] == 1, "the number is another registry's"
    assert decode(long(0), 15) == {**defaults, "n": 0}, "which looks like a header's begin"
    with pytest.raises(Misfit, match="the body ends too early"):
        decode(b"", 35)


def test_an_avro_change_that_reads_nothing_of_before_is_refused() -> None:
    with pytest.raises(IncompatibleSchema, match="n is new, and has no default"):
        put_all({**AVRO[0], "fields": [S]}, AVRO[0], type="avro")


SCALARS = st.sampled_from(
    [INTEGER, {"type": "number"}, CENTS, MILLS, {"type": "string"}, {"type": "boolean"}, {},
     {"type": "string", "format": "date"}, {"type": "string", "contentEncoding": "base64"}],
)  # fmt: skip
NODES = st.recursive(
    SCALARS,
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda values: {"type": "object", "additionalProperties": values}, inner)
        | st.builds(
            lambda properties, required: {"type": "object", "properties": properties, "required": required},
            st.dictionaries(st.sampled_from("ab"), inner, min_size=1, max_size=2),
            st.lists(st.sampled_from("ab"), unique=True),
        )
    ),
    max_leaves=3,
)
OBJECTS = st.builds(
    lambda properties, required: {"type": "object", "properties": properties, "required": required},
    st.dictionaries(st.sampled_from("ab"), NODES, min_size=1, max_size=2), st.lists(st.sampled_from("ab"), unique=True),
)  # fmt: skip


@st.composite
def fitting(draw: st.DrawFn, node: dict[str, Any]) -> Any:
    """A value that fits."""
    if "properties" in node:
        names = [name for name in node["properties"] if name in node["required"] or draw(st.booleans())]
        return {name: draw(fitting(node["properties"][name])) for name in names}
    if "additionalProperties" in node:
        return {name: draw(fitting(node["additionalProperties"])) for name in draw(st.sets(st.sampled_from("abc")))}
    if "items" in node:
        return [draw(fitting(node["items"])) for _ in range(draw(st.integers(0, 2)))]
    plain: dict[Any, st.SearchStrategy[Any]] = {
        "integer": st.integers(-(2**63), 2**63 - 1),
        "number": st.integers(-(10**6), 10**6),
        "boolean": st.booleans(),
        None: st.none() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
        "string": st.just("2026-01-02") if "format" in node else st.just("AAE="),
    }
    return draw(plain[node.get("type")])


@st.composite
def changed(draw: st.DrawFn, node: dict[str, Any]) -> Any:
    """Another schema, in much the same."""
    if draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from([{}, {"type": "number"}, {"type": "string"}, {"type": "object"}, CENTS, of(a={})]))
    if "properties" in node:
        properties = {name: draw(changed(each)) for name, each in node["properties"].items()}
        properties |= draw(st.dictionaries(st.sampled_from("bc"), SCALARS, max_size=1))
        required = [each for each in node["required"] if draw(st.booleans())]
        return {**node, "properties": properties, "required": required}
    inner = {name: draw(changed(node[name])) for name in ("additionalProperties", "items") if name in node}
    return {**node, **inner}


@given(st.data(), OBJECTS)
def test_what_fitted_fits_after_each_change_that_is_taken(data: st.DataObject, old: Any) -> None:
    schemas = put(NO_SCHEMAS, old)
    value = json.dumps(data.draw(fitting(old))).encode()
    make_decoder(schemas.versions)(value, 0)
    with suppress(IncompatibleSchema, InvalidRequest):
        make_decoder(put(schemas, data.draw(changed(old))).versions)(value, 0)
