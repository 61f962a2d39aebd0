from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakemq.gateway.decode import ArrowRows, Limits, decode, named_rows
from lakemq.model.columns import REQUEST
from lakemq.model.errors import InvalidRequest, MessageTooLarge
from tests.gateway.decode.streams import ARROW, LIMITS, bodies, with_column, write_stream

HEADER = "lakemq-send-ids"
DIGITS, LESS = st.integers(0, 18), st.integers(1, 100)


def named(stream: bytes, names: str, limits: Limits = LIMITS) -> pa.RecordBatch:
    decoded = decode(ARROW, {HEADER: names}, stream, limits)
    assert isinstance(decoded, ArrowRows)
    return decoded.batch


BEGINS = st.integers(0, 10**18 - 1) | st.builds(lambda digits, less: max(10**digits - less, 0), DIGITS, LESS)


@pytest.mark.parametrize("kept", [0, 10_000])
@settings(deadline=None)
@given(count=st.integers(1, 200) | st.integers(900, 3_100), begin=BEGINS)
def test_each_message_has_its_name_as_if_it_had_come_with_it(kept: int, count: int, begin: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(named_rows, "_KEPT", kept)
        batch = named(write_stream(bodies(*[b"x"] * count)), f"a_-Z9.{begin}")
    batch.validate(full=True)
    assert batch.schema.equals(pa.schema([REQUEST.field("body"), REQUEST.field("properties")]), check_metadata=True)
    assert batch.column("properties").to_pylist() == [
        [("send_id", f"a_-Z9.{number}")] for number in range(begin, begin + count)
    ]


def test_the_columns_stay_in_their_order() -> None:
    stream = with_column("priority", [1, 2])
    batch = named(stream, "s.0")
    assert batch.schema.equals(pa.schema([field for field in REQUEST if field.name in batch.schema.names]))
    assert batch.column("priority").to_pylist() == [1, 2]


@pytest.mark.parametrize("names", ["", "s", "s.-1", "ä.1", "s.1.1", "x" * 5_000])
def test_what_names_nothing_is_refused(names: str) -> None:
    with pytest.raises(InvalidRequest, match="Lakemq-Send-Ids") as caught:
        named(write_stream(bodies(b"x")), names)
    assert len(caught.value.detail) < 400


def test_messages_with_properties_of_their_own_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="without properties"):
        named(with_column("properties", [[("a", "b")]]), "s.0")


@pytest.mark.parametrize(
    ("content_type", "body"),
    [("application/json", b'{"messages": [{"body": "x"}]}'), ("application/x-ndjson", b'{"body": "x"}'), ("", b"x")],
)
def test_other_forms_say_it_themselves(content_type: str, body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="Arrow alone"):
        decode(content_type, {HEADER: "s.0"}, body, LIMITS)


def test_names_take_no_more_than_a_request_may_have() -> None:
    """They don't come with the request: a million empty messages would be a hundred megabytes of names."""
    stream = write_stream(bodies(*[b""] * 1_000))
    for names in ("s" * 64 + f".{10**17}", "s.0"):
        takes = named(stream, names).nbytes
        with pytest.raises(MessageTooLarge, match="Lakemq-Send-Ids"):
            named(stream, names, Limits(message_bytes_max=100, request_bytes_max=takes - 1_000))
        named(stream, names, Limits(message_bytes_max=100, request_bytes_max=takes + 10_000))
