"""Columns that are made by hand are those that Arrow makes, and bring no pandas along."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakemq.client.produce.columns import binary, lists, maps, numbers, texts

TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
MAP = pa.map_(pa.string(), pa.string())


def listed(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | values, max_size=20)


def same(made: pa.Array, wanted: pa.Array) -> None:
    made.validate(full=True)
    assert made.type == wanted.type
    assert made.equals(wanted)


@settings(deadline=None)
@given(listed(st.binary(max_size=5)))
def test_bytes(values: list[bytes | None]) -> None:
    same(binary(values), pa.array(values, pa.binary()))


@settings(deadline=None)
@given(listed(TEXTS))
def test_texts(values: list[str | None]) -> None:
    same(texts(values), pa.array(values, pa.string()))


@settings(deadline=None)
@given(listed(st.integers(-(2**31), 2**31 - 1)), st.sampled_from([pa.int32(), pa.int64()]))
def test_numbers(values: list[int | None], kind: pa.DataType) -> None:
    same(numbers(values, kind), pa.array(values, kind))


@settings(deadline=None)
@given(listed(st.lists(TEXTS, max_size=3)))
def test_lists(values: list[list[str] | None]) -> None:
    same(lists(values), pa.array(values, pa.list_(pa.string())))


@settings(deadline=None)
@given(listed(st.dictionaries(TEXTS, TEXTS, max_size=3)))
def test_maps(values: list[dict[str, str] | None]) -> None:
    same(maps(values), pa.array([None if value is None else list(value.items()) for value in values], MAP))


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (binary, [1]),
        (texts, [b"x"]),
        (texts, ["\ud800"]),
        (lambda values: numbers(values, pa.int32()), ["1"]),
        (lambda values: numbers(values, pa.int32()), [True]),
        (lambda values: numbers(values, pa.int32()), [1.5]),
        (lambda values: numbers(values, pa.int32()), [2**31]),
        (lists, [[1]]),
        (maps, [{"a": 1}]),
        (maps, [{1: "a"}]),
    ],
)
def test_what_is_of_another_type_is_refused(make: Callable[[Any], Any], values: list[Any]) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        make(values)


PROGRAM = """
import sys
from lakemq.client import Message
from lakemq.client.outgoing import parts_of
from lakemq.client.produce.batch import Batch
from lakemq.client.produce.encode import encode
from lakemq.model.send_ids import SendIds
from lakemq.client.view import Rows
import pyarrow as pa
for given in (Message(body=b"x"), Message(body=b"x" * 5000, tag="t", keys=("k",), properties={"a": "b"}, queue_id=0)):
    batch = Batch("orders", 0.0)
    for _ in range(3):
        batch.add(*parts_of(given, {}))
    for queue_id in (None, 0):
        for ids in (None, SendIds("s", 5)):
            encoded = encode(batch, queue_id, False, "lz4", ids)
            table = pa.ipc.open_stream(b"".join(encoded.pieces)).read_all()
assert [bytes(message.body) for message in Rows.of_table(table)] == [b"x" * 5000] * 3
assert "pandas" not in sys.modules
"""


def test_neither_who_sends_nor_who_receives_waits_for_pandas() -> None:
    """Where it is installed, a producer's event loop stood still for half a second at its first batch."""
    assert importlib.util.find_spec("pandas") is not None
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
