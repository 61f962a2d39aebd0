from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakemq.gateway.decode import Limits, decode
from lakemq.gateway.decode.json_form import decode_json_message
from lakemq.gateway.decode.limits import JSON_VALUES_MAX
from lakemq.model.errors import InvalidRequest, MessageTooLarge, UnsupportedMediaType
from lakemq.model.message import Draft
from tests.gateway.decode.streams import LIMITS, VALUES

JSON = "application/json"
NDJSON = "application/x-ndjson"


def drafts_of(*messages: Any) -> list[Draft]:
    decoded = decode(JSON, {}, orjson.dumps({"messages": list(messages)}), LIMITS)
    assert isinstance(decoded, list)
    return decoded


def refused(body: bytes, content_type: str = JSON) -> str:
    with pytest.raises(InvalidRequest) as caught:
        decode(content_type, {}, body, LIMITS)
    return caught.value.detail


FULL = {
    "body": "text",
    "body_encoding": "utf-8",
    "tag": "T",
    "keys": ["k1"],
    "properties": {"a": "b"},
    "ordering_key": "order-42",
    "queue_id": 0,
    "deliver_at_ms": 1790000000000,
    "born_time_ms": 0,
}


def test_every_field_of_the_contract_is_read() -> None:
    assert drafts_of(FULL) == [
        Draft(
            body=b"text",
            tag="T",
            keys=["k1"],
            properties={"a": "b"},
            ordering_key="order-42",
            queue_id=0,
            deliver_at_ms=1790000000000,
            born_time_ms=0,
        )
    ]


def test_only_body_is_needed() -> None:
    assert drafts_of({"body": ""}, {"body": "é\x00"}) == [Draft(b""), Draft("é\x00".encode())]


def test_null_is_as_good_as_absent_but_for_the_body() -> None:
    assert drafts_of({**dict.fromkeys(FULL), "body": "x"}) == [Draft(b"x")]
    assert "messages[0]: body must be a string" in refused(b'{"messages": [{"body": null}]}')


def test_empty_lists_and_objects_are_nothing() -> None:
    assert drafts_of({"body": "x", "keys": [], "properties": {}}) == [Draft(b"x")]


def test_delays_are_read() -> None:
    assert drafts_of({"body": "", "delay_level": 3})[0].delay_level == 3
    assert drafts_of({"body": "", "delay_ms": 0})[0].delay_ms == 0


@pytest.mark.parametrize("level", [0, -1, 1 - 2**31])
def test_a_delay_level_below_one_is_no_delay(level: int) -> None:
    assert drafts_of({"body": "", "delay_level": level}) == [Draft(b"")]


@pytest.mark.parametrize("pair", [("delay_level", "delay_ms"), ("delay_ms",), ("delay_level",)])
def test_at_most_one_delay_is_taken(pair: tuple[str, ...]) -> None:
    message = {"body": "", "deliver_at_ms": 5, **dict.fromkeys(pair, 1)}
    assert "at most one of" in refused(orjson.dumps({"messages": [message]}))


def expected_draft(**fields: Any) -> Draft:
    """The draft with empty lists and objects as None."""
    for name, value in fields.items():
        if value in ([], {}):
            fields[name] = None
    return Draft(**fields)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.fixed_dictionaries(
            {"body": VALUES["body"]},
            optional={name: VALUES[name] for name in VALUES if name != "body"},
        ),
        min_size=1,
        max_size=4,
    )
)
def test_messages_come_out_as_they_were_written(messages: list[dict[str, Any]]) -> None:
    encoded = [
        {**message, "body": base64.b64encode(message["body"]).decode(), "body_encoding": "base64"}
        for message in messages
    ]
    expected = [expected_draft(**message) for message in messages]
    lines = b"\n".join(map(orjson.dumps, encoded))
    assert drafts_of(*encoded) == expected
    assert decode(NDJSON, {}, lines, LIMITS) == expected


@pytest.mark.parametrize(
    ("value", "body"),
    [
        (
            '{"a": 1, "b": [1.10, 1e300, 123456789012345678901234567890]}',
            b'{"a":1,"b":[1.10,1e300,123456789012345678901234567890]}',
        ),
        ('"text"', b'"text"'),
        ("true", b"true"),
        ("null", b"null"),
        ("5.00", b"5.00"),
    ],
)
def test_a_value_in_the_place_of_a_body_is_json_with_every_digit(value: str, body: bytes) -> None:
    line = f'{{"json": {value}, "tag": "T", "properties": {{"a": "b"}}}}'.encode()
    draft = expected_draft(body=body, tag="T", properties={"content_type": "application/json", "a": "b"})
    plain = expected_draft(body=b"x")
    assert decode(NDJSON, {}, b'{"body": "x"}\n' + line, LIMITS) == [plain, draft]
    assert decode(JSON, {}, b'{"messages": [{"body": "x"}, %s, %s]}' % (line, line), LIMITS) == [plain, draft, draft]
    assert decode_json_message(line, LIMITS) == draft


def test_who_says_what_the_json_is_has_the_last_word() -> None:
    message = {"json": {}, "properties": {"content_type": "application/vnd.order+json"}}
    assert drafts_of(message)[0].properties == message["properties"]


@pytest.mark.parametrize("value", ["NaN", "1e", "[" * 500 + "]" * 500])
def test_what_is_no_json_is_no_value(value: str) -> None:
    with pytest.raises(InvalidRequest, match=r"no valid JSON|nested too deeply"):
        decode(NDJSON, {}, b'{"json": %s}' % value.encode(), LIMITS)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ([], "a message must be an object"),
        (None, "a message must be an object"),
        ({}, "body is missing"),
        ({"body": 5}, "body must be a string"),
        ({"body": "", "json": 1}, "a message has a body, or json, not both"),
        ({"json": 1, "body_encoding": "utf-8"}, "a message has a body, or json, not both"),
        ({"json": 1, "jsom": 1}, "unknown field 'jsom'"),
        ({"json": 1, "properties": ["a"]}, "properties must be an object"),
        ({"body": {"a": 1}}, "body must be a string"),
        ({"body": "", "body_encoding": "hex"}, "body_encoding must be 'utf-8' or 'base64'"),
        ({"body": "aGk", "body_encoding": "base64"}, "body is no valid base64"),
        ({"body": "aG k=", "body_encoding": "base64"}, "body is no valid base64"),
        ({"body": "aGk=\n", "body_encoding": "base64"}, "body is no valid base64"),
        ({"body": "-_-_", "body_encoding": "base64"}, "body is no valid base64"),
        ({"body": "é", "body_encoding": "base64"}, "body is no valid base64"),
        ({"body": "", "tagg": "T"}, "unknown field 'tagg'; the fields are body, "),
        ({"body": "", "message_id": "a.1"}, "unknown field 'message_id'"),
        ({"body": "", "topic": "t", "position": 1}, "unknown field 'position', 'topic'"),
        ({"body": "", "tag": 5}, "tag must be a string"),
        ({"body": "", "tag": ""}, "tag is empty"),
        ({"body": "", "tag": "*"}, "tag can't be '*'"),
        ({"body": "", "tag": "a||b"}, "tag can't be '*', hold '||'"),
        ({"body": "", "tag": " a"}, "or begin or end with white space"),
        ({"body": "", "tag": "é" * 513}, "tag is longer than 1024 bytes"),
        ({"body": "", "keys": "k"}, "keys must be a list"),
        ({"body": "", "keys": ["a", 1]}, "keys[1] must be a string"),
        ({"body": "", "keys": ["a", ""]}, "keys[1] is empty"),
        ({"body": "", "keys": ["a" * 1025]}, "keys[0] is longer than 1024 bytes"),
        ({"body": "", "keys": ["a"] * 65}, "keys has more than 64 entries"),
        ({"body": "", "properties": ["a"]}, "properties must be an object"),
        ({"body": "", "properties": {"a": 1}}, "property 'a' must be a string"),
        ({"body": "", "properties": {"a": None}}, "property 'a' must be a string"),
        ({"body": "", "properties": {"": "a"}}, "an empty name"),
        ({"body": "", "properties": {"a": "v" * 65_536}}, "more than 65536 bytes"),
        ({"body": "", "properties": {str(at): "" for at in range(257)}}, "more than 256 entries"),
        ({"body": "", "ordering_key": ""}, "ordering_key is empty"),
        ({"body": "", "ordering_key": "k" * 1025}, "ordering_key is longer than 1024 bytes"),
        ({"body": "", "queue_id": -1}, "queue_id must be from 0 to 65534"),
        ({"body": "", "queue_id": 65_535}, "queue_id must be from 0 to 65534"),
        ({"body": "", "queue_id": True}, "queue_id must be an integer"),
        ({"body": "", "queue_id": "0"}, "queue_id must be an integer"),
        ({"body": "", "queue_id": 1.0}, "queue_id must be an integer"),
        ({"body": "", "delay_level": -(2**31)}, "delay_level must be from -2147483647"),
        ({"body": "", "delay_ms": -1}, "delay_ms must be from 0"),
        ({"body": "", "born_time_ms": 2**53 + 1}, "born_time_ms must be from 0"),
        ({"body": "", "deliver_at_ms": 2**64 - 1}, "deliver_at_ms must be from 0"),
    ],
)
def test_what_is_wrong_is_named_with_its_message(message: Any, says: str) -> None:
    detail = refused(orjson.dumps({"messages": [{"body": "x"}, message]}))
    assert detail.startswith("messages[1]: ")
    assert says in detail
    detail = refused(b'{"body": "x"}\n\n' + orjson.dumps(message), NDJSON)
    assert detail.startswith("line 3: ")
    assert says in detail


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"null",
        b"[]",
        b'"x"',
        b"{}",
        b'{"messages": []}',
        b'{"messages": {}}',
        b'{"messages": null}',
        b'{"messages": [{"body": "x"}], "ack": "sync"}',
        b'{"messages": [{"body": "x"}]',
        b'{"messages": [{"body": "x"}]} x',
        b'{"messages": [{"body": NaN}]}',
        b'{"messages": [{"body": "\xff"}]}',
        b'{"messages": [{"body": "\\ud800"}]}',
        b'{"messages": [{"body": "x", "queue_id": 1' + b"0" * 400 + b"}]}",
        b'{"messages": [{"body": "x", "queue_id": 1' + b"0" * 30 + b"}]}",
        b"[" * 100_000,
        b'{"messages": ' + b'[{"properties": ' * 5_000 + b"}]" * 5_000 + b"}",
        b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
    ],
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    refused(body)


@pytest.mark.parametrize("body", [b"", b"\n\n", b" \r\n\t\n"])
def test_lines_without_a_message_are_refused(body: bytes) -> None:
    assert "no messages" in refused(body, NDJSON)


def test_lines_may_end_as_on_windows_and_the_last_needs_no_end() -> None:
    body = b'\r\n{"body": "a"}\r\n \n{"body": "b"}'
    assert decode(NDJSON, {}, body, LIMITS) == [Draft(b"a"), Draft(b"b")]


def test_the_last_of_two_equal_names_counts() -> None:
    assert decode(JSON, {}, b'{"messages": [{"body": "a", "body": "b"}]}', LIMITS) == [Draft(b"b")]


def test_a_body_above_the_limit_is_named_with_its_message() -> None:
    limits = Limits(message_bytes_max=4, request_bytes_max=1_000)
    body = orjson.dumps({"messages": [{"body": "four"}, {"body": "fives"}]})
    with pytest.raises(MessageTooLarge, match=r"^messages\[1\]: body has 5 bytes"):
        decode(JSON, {}, body, limits)


def test_more_messages_than_can_be_decoded_at_a_go_are_refused() -> None:
    lines = b'{"body":""}\n' * 20_001
    with pytest.raises(MessageTooLarge, match="line 20001: more than 20000 messages"):
        decode(NDJSON, {}, lines, LIMITS)
    listed = b'{"messages":[' + lines.replace(b"\n", b",")[:-1] + b"]}"
    with pytest.raises(MessageTooLarge, match="more than 20000 messages"):
        decode(JSON, {}, listed, LIMITS)


def test_a_document_of_countless_tiny_values_is_refused_unread() -> None:
    body = b'{"messages":[' + b"[]," * (JSON_VALUES_MAX // 2 + 1) + b"[]]}"
    with pytest.raises(MessageTooLarge, match=f"more than {JSON_VALUES_MAX} values"):
        decode(JSON, {}, body, LIMITS)


def test_a_document_of_countless_short_strings_is_refused_unread() -> None:
    with pytest.raises(MessageTooLarge, match=f"more than {JSON_VALUES_MAX} values"):
        decode(JSON, {}, b'{"messages":[' + b'"",' * (2 * JSON_VALUES_MAX + 3) + b"]}", LIMITS)


def test_commas_inside_a_body_are_no_values() -> None:
    text = ',"[{\\' * 800_000
    limits = Limits(message_bytes_max=2**23, request_bytes_max=2**26)
    body = orjson.dumps({"messages": [{"body": text}]})
    assert decode(JSON, {}, body, limits) == [Draft(text.encode())]


@pytest.mark.parametrize("charset", ["utf-8", "UTF-8", '"utf-8"', "us-ascii"])
def test_a_charset_that_is_utf8_is_taken(charset: str) -> None:
    content_type = f"Application/JSON; charset={charset}"
    assert decode(content_type, {}, b'{"messages": [{"body": ""}]}', LIMITS) == [Draft(b"")]


def test_another_charset_is_refused() -> None:
    with pytest.raises(UnsupportedMediaType, match="utf-16"):
        decode("application/json; charset=utf-16", {}, b"{}", LIMITS)
