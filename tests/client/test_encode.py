"""What a producer sends is what the gateway decodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakemq.client import Message
from lakemq.client.outgoing import parts_of
from lakemq.client.produce.batch import Batch
from lakemq.client.produce.encode import Encoded, encode, encode_one
from lakemq.gateway.decode import ArrowRows, Limits, decode, inflate
from lakemq.model.errors import InvalidRequest

LIMITS = Limits(4 << 20, 64 << 20)
_texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20)
_messages = st.builds(
    Message,
    body=st.binary(max_size=50),
    tag=st.none() | st.text("abcäöü", min_size=1, max_size=5),
    keys=st.none() | st.lists(_texts, min_size=1, max_size=3).map(tuple),
    properties=st.none() | st.dictionaries(_texts, st.text(st.characters(codec="utf-8"), max_size=10), max_size=3),
    ordering_key=st.none() | _texts,
    queue_id=st.none() | st.integers(0, 100),
)


def batch_of(messages: list[Message]) -> Batch:
    batch = Batch("orders", 0.0)
    for message in messages:
        batch.add(*parts_of(message, {}))
    return batch


def decoded(encoded: Encoded) -> list[dict[str, Any]]:
    """Each message's fields as the gateway reads them, without those that are None or empty."""
    body = b"".join(encoded.pieces)
    if encoded.headers:
        body = inflate(encoded.headers["Content-Encoding"], body, LIMITS.request_bytes_max)
    rows = decode(encoded.content_type, {}, body, LIMITS)
    if isinstance(rows, ArrowRows):
        listed = rows.batch.to_pylist(maps_as_pydicts="strict")
    else:
        listed = [draft._asdict() for draft in rows]
    return [{name: value for name, value in row.items() if value not in (None, {}, [])} for row in listed]


def expected(message: Message) -> dict[str, Any]:
    names = ("body", "tag", "keys", "properties", "ordering_key", "queue_id")
    fields = {name: getattr(message, name) for name in names}
    if fields["keys"]:
        fields["keys"] = list(fields["keys"])
    return {name: value for name, value in fields.items() if value not in (None, {}, [], ())}


@settings(deadline=None, max_examples=50)
@given(st.lists(_messages, min_size=1, max_size=20), st.booleans())
def test_the_gateway_reads_what_was_written(messages: list[Message], as_json: bool) -> None:
    assert decoded(encode(batch_of(messages), None, as_json, "lz4")) == [expected(message) for message in messages]


@settings(deadline=None, max_examples=50)
@given(st.lists(_messages, min_size=2, max_size=20), st.data())
def test_parts_of_a_batch_hold_what_was_in_it(messages: list[Message], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(messages) - 1))
    whole = batch_of(messages)
    parts = [whole.part(0, cut), whole.part(cut, len(messages))]
    assert [row for part in parts for row in decoded(encode(part, None, False, None))] == list(map(expected, messages))
    assert [expected(message) for part in parts for message in part.messages()] == list(map(expected, messages))


@settings(deadline=None, max_examples=50)
@given(_messages)
def test_one_message_is_one_object(message: Message) -> None:
    body = b"".join(encode_one(batch_of([message]), None).pieces)
    (row,) = decoded(Encoded([b'{"messages":[', body, b"]}"], "application/json", {}))
    assert row == expected(message)


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_from_4_kib_on_a_request_is_compressed(as_json: bool, compression: Any) -> None:
    small, large = Message(body=b"lakemq!" * 585), Message(body=b"lakemq! " * 512)
    sizes = [
        sum(len(piece) for piece in encode(batch_of([message] * 10), None, as_json, used).pieces)
        for message in (small, large)
        for used in (None, compression)
    ]
    assert sizes[0] == sizes[1]
    assert sizes[3] < sizes[2] / 10
    assert [row["body"] for row in decoded(encode(batch_of([large]), None, as_json, compression))] == [large.body]


def test_a_queue_for_all_stands_in_each_row() -> None:
    rows = decoded(encode(batch_of([Message(body=b"x"), Message(body=b"y", ordering_key="k")]), 3, False, None))
    assert [row["queue_id"] for row in rows] == [3, 3]


def test_a_number_that_no_request_can_say_is_refused() -> None:
    batch = batch_of([Message(body=b"x", queue_id=2**70)])
    for as_json in (True, False):
        with pytest.raises(InvalidRequest):
            encode(batch, None, as_json, None)
    with pytest.raises(InvalidRequest):
        encode_one(batch, None)
