"""A VARIANT is read as Spark reads it, without Spark."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import VariantVal

from lakemq.jobs.errors import InvalidStatement
from lakemq.jobs.sql.variant import read_variant

NO_NAMES = bytes([1, 0, 0])
text = st.text(max_size=80)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | text
    | st.floats(allow_nan=False, allow_infinity=False)
)
values: Any = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5), max_leaves=30
)


def primitive(kind: int, content: bytes = b"") -> bytes:
    return bytes([kind << 2]) + content


@given(values)
def test_it_reads_what_spark_writes(value: Any) -> None:
    written = VariantVal.parseJson(json.dumps(value))
    assert read_variant(written.value, written.metadata) == written.toPython()


def test_it_reads_large_ones() -> None:
    """Counts and offsets of more than a byte."""
    value = {f"name-{number}": [number] * 300 for number in range(300)}
    written = VariantVal.parseJson(json.dumps(value))
    assert read_variant(written.value, written.metadata) == value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (primitive(8, b"\x02" + (-12345).to_bytes(4, "little", signed=True)), Decimal("-123.45")),
        (primitive(9, b"\x00" + (10**17).to_bytes(8, "little")), Decimal(10**17)),
        (primitive(10, b"\x26" + (10**38 - 1).to_bytes(16, "little")), Decimal("0." + "9" * 38)),
        (primitive(11, (-1).to_bytes(4, "little", signed=True)), date(1969, 12, 31)),
        (primitive(12, (1_500_000).to_bytes(8, "little")), datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)),
        (primitive(13, (1_000_000).to_bytes(8, "little")), datetime(1970, 1, 1, 0, 0, 1)),  # noqa: DTZ001  it has none
        (primitive(14, b"\x00\x00\xc0\x3f"), 1.5),
        (primitive(15, b"\x02\x00\x00\x00\xff\x00"), b"\xff\x00"),
        (primitive(16, b"\x02\x00\x00\x00hi"), "hi"),
    ],
)
def test_it_reads_types_that_json_has_not(value: bytes, said: Any) -> None:
    assert read_variant(value, NO_NAMES) == said
    if not isinstance(said, Decimal) or len(said.as_tuple().digits) < 28:  # Spark rounds those
        assert VariantVal(value, NO_NAMES).toPython() == said


@pytest.mark.parametrize(
    "value",
    [
        b"",
        primitive(63),
        primitive(6, b"\x00"),
        primitive(16, b"\xff\xff\xff\xff"),
        primitive(16, b"\x01\x00\x00\x00\xff"),
        bytes([2, 1, 7, 0, 1, 0]),
        bytes([3, 1, 200, 201]),
        bytes([3, 1, 0, 0]),
        bytes([3, 1, 0, 1]) * 10_000,
    ],
)
def test_what_is_none_is_an_error(value: bytes) -> None:
    with pytest.raises(InvalidStatement, match="VARIANT"):
        read_variant(value, NO_NAMES)


@given(st.binary(max_size=40), st.binary(max_size=20))
def test_anything_else_is_an_error_too(value: bytes, metadata: bytes) -> None:
    with contextlib.suppress(InvalidStatement):
        read_variant(value, metadata)
