"""A schema of bodies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.column_type import in_sql
from lakemq.model.errors import InvalidRequest
from lakemq.model.infer_schema import PROPERTIES_MAX, Inferred, infer_schema
from lakemq.model.schema import NO_SCHEMAS, compact, make_decoder, next_version
from lakemq.model.schema_kinds import BODIES_MAX, last_of_each


def of(*values: Any) -> Inferred:
    return infer_schema(json.dumps(each).encode() for each in values)


def test_each_name_has_the_type_that_all_have() -> None:
    found = of(
        {"id": 1, "n": 1, "at": "2026-01-02T03:04:05Z", "day": "2026-01-02", "t": "2026-01-02", "l": [], "o": {"a": 1}},
        {"id": 2, "n": 1.5, "at": "2026-01-02T03:04:05Z", "day": None, "t": "x", "l": [1, None], "big": 2**70},
        {"id": 3, "any": {"x": {}}, "mixed": 1, "ok": True},
        {"id": 4, "mixed": "a", "null": None},
    )
    assert found.schema == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "n": {"type": "number", "multipleOf": 0.01},
            "at": {"type": "string", "format": "date-time"},
            "day": {"type": ["string", "null"], "format": "date"},
            "t": {"type": "string"},
            "l": {"type": "array", "items": {"type": ["integer", "null"]}},
            "o": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            "big": {"type": "number"},
            "any": {"type": "object", "properties": {"x": {"type": "object"}}, "required": ["x"]},
            "mixed": {},
            "ok": {"type": "boolean"},
            "null": {},
        },
        "required": ["id"],
    }
    assert (found.bodies, found.others, found.left_out) == (4, 0, ())


def test_what_is_no_object_is_counted() -> None:
    found = infer_schema([b"", b"[]", b'\x00\x00\x00\x00\x01{"a":1}', b"x"])
    assert (found.bodies, found.others, list(found.schema["properties"])) == (4, 3, ["a"])
    for bodies in ([], [b"x"], [b"{}"]):
        with pytest.raises(InvalidRequest):
            infer_schema(bodies)


def test_names_that_can_be_no_columns_are_left_out() -> None:
    found = of({"_error": 1, "a": {"": 1}, "A": 1, "b\n": 1})
    assert list(found.schema["properties"]) == ["a"]
    assert found.schema["properties"]["a"] == {"type": "object"}
    assert sorted(found.left_out) == ["", "A", "_error", "b\n"]
    with pytest.raises(InvalidRequest):
        of({"_error": 1})


def test_an_object_with_too_many_names_is_a_map() -> None:
    many = {f"k{at}": at for at in range(PROPERTIES_MAX + 1)}
    assert of({"a": many}).schema["properties"]["a"] == {"type": "object"}
    with pytest.raises(InvalidRequest):
        of(many)


def test_it_looks_at_so_many_and_so_deep() -> None:
    assert of(*({"a": 1} for _ in range(BODIES_MAX + 5))).bodies == BODIES_MAX
    deep: Any = 1
    for _ in range(20):
        deep = {"a": deep}
    next_version(NO_SCHEMAS, "t", "json", compact(of(deep).schema), 0, None)


def test_of_each_queue_as_many() -> None:
    assert [last_of_each(*each) for each in ((0, 10), (4, 10), (20, 10))] == [10, 2, 1]


TIMES = st.sampled_from(["2026-01-02", "2026-01-02T03:04:05Z"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | TIMES
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.sampled_from(["a", "b", "_x", "C"])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES, min_size=1), min_size=1, max_size=5))
def test_all_bodies_fit_what_was_inferred_of_them(values: list[Any]) -> None:
    found = of(*values)
    version, parsed = next_version(NO_SCHEMAS, "t", "json", compact(found.schema), 0, None)
    assert in_sql(parsed.columns)
    assert not parsed.ignored
    decode = make_decoder([version])
    for each in values:
        decode(json.dumps(each).encode(), 0)


def _of_texts(*numbers: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    found = infer_schema(f'{{"o": {{"n": [{each}]}}}}'.encode() for each in numbers)
    return found.schema["properties"]["o"]["properties"]["n"]["items"], found.decimals


@pytest.mark.parametrize(
    ("numbers", "step"),
    [
        (("12.5", "3"), 0.01),
        (("12.50",), 0.01),
        (("0.10", "-0.20"), 0.01),
        (("0.125",), 0.001),
        (("1.2345", "123456789012345678901234.5"), 0.0001),
        (("12.00", "13.00"), 0.01),
    ],
)
def test_numbers_with_few_decimals_are_decimals(numbers: tuple[str, ...], step: float) -> None:
    assert _of_texts(*numbers) == ({"type": "number", "multipleOf": step}, ("o.n[]",))


@pytest.mark.parametrize(
    "numbers",
    [
        ("12.5", "0.30000000000000004"),
        ("12.5", "1.5e10"),
        ("12.5", "1E-9"),
        ("1.0", "2.0"),
        ("12.5", "1" + "0" * 30),
        ("12.5", "1" + "0" * 40 + ".5"),
        ("1" + "0" * 40,),
    ],
)
def test_others_are_binary(numbers: tuple[str, ...]) -> None:
    assert _of_texts(*numbers) == ({"type": "number"}, ())
