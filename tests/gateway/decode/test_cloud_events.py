from __future__ import annotations

from typing import Any

import orjson
import pytest

from lakemq.gateway.decode import decode
from lakemq.model.errors import InvalidRequest, UnsupportedMediaType
from lakemq.model.message import Draft
from tests.gateway.decode.streams import LIMITS

STRUCTURED = "application/cloudevents+json"
BATCHED = "application/cloudevents-batch+json; charset=utf-8"
EVENT = {"specversion": "1.0", "id": "A1", "source": "/mycontext", "type": "com.example.some"}
HEADERS = {f"ce-{name}": value for name, value in EVENT.items()}


def structured(**members: Any) -> Draft:
    (draft,) = decode(STRUCTURED, {}, orjson.dumps({**EVENT, **members}), LIMITS)
    assert isinstance(draft, Draft)
    return draft


def binary(content_type: str = "text/plain", body: bytes = b"", **headers: str) -> Draft:
    given = {f"ce-{name}": value for name, value in headers.items()}
    (draft,) = decode(content_type, {**HEADERS, **given}, body, LIMITS)
    assert isinstance(draft, Draft)
    return draft


def refused(content_type: str, headers: dict[str, str], body: bytes) -> str:
    with pytest.raises(InvalidRequest) as caught:
        decode(content_type, headers, body, LIMITS)
    return caught.value.detail


def test_the_modes_of_one_event_decode_alike() -> None:
    event = {**EVENT, "subject": "s", "datacontenttype": "text/plain", "data": "héllo"}
    expected = Draft(
        body="héllo".encode(),
        tag="com.example.some",
        keys=["A1"],
        properties={
            "specversion": "1.0",
            "source": "/mycontext",
            "subject": "s",
            "datacontenttype": "text/plain",
        },
    )
    assert structured(**event) == expected
    assert binary("text/plain", "héllo".encode(), subject="s") == expected
    assert decode(BATCHED, {}, orjson.dumps([event, event]), LIMITS) == [expected, expected]


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"],
)
def test_an_event_in_binary_mode_is_its_body_whatever_that_is(content_type: str) -> None:
    draft = binary(content_type, b'{"a": 1}')
    assert draft.body == b'{"a": 1}'
    assert (draft.properties or {})["datacontenttype"] == content_type


def test_binary_mode_needs_no_content_type() -> None:
    assert "datacontenttype" not in (binary("").properties or {})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        ("%41%2525", "A%25"),
        ("100%", "100%"),
        ("%zz", "%zz"),
        ('"never closed', '"never closed'),
        ('a "b" and "c', 'a b and "c'),
        ('"ends in \\', '"ends in \\'),
        ('"a b"', "a b"),
        ('"say \\"hi\\" 50%25"', 'say "hi" 50%'),
        ("\xe2\x82\xac", "€"),
        ("€", "€"),
    ],
)
def test_header_values_are_unquoted_and_percent_decoded_once(value: str, text: str) -> None:
    assert (binary(subject=value).properties or {})["subject"] == text


def test_a_header_of_countless_quotes_is_read_in_linear_time() -> None:
    # Quadratic time would be minutes here; the test's own time limit ends it.
    value = '"\\' * 200_000
    detail = refused("text/plain", {**HEADERS, "ce-subject": value}, b"")
    assert "properties has more than" in detail


@pytest.mark.parametrize("value", ["%C0%A0", "%FF", "\xff", "\ud800"])
def test_header_values_that_are_no_utf8_are_refused(value: str) -> None:
    refused("text/plain", {**HEADERS, "ce-subject": value}, b"")


@pytest.mark.parametrize(
    ("content_type", "data", "body"),
    [
        (None, {"a": [1, None]}, b'{"a":[1,null]}'),
        (None, "text", b'"text"'),
        ("application/json", "text", b'"text"'),
        ("application/vnd.x+json; v=1", "text", b'"text"'),
        ("text/plain", "text", b"text"),
        ("application/xml", '<a b="c"/>', b'<a b="c"/>'),
        ("application/json", None, b"null"),
        ("application/json", True, b"true"),
        ("application/jsonp", "text", b"text"),
    ],
)
def test_data_becomes_the_body_by_its_content_type(content_type: str | None, data: object, body: bytes) -> None:
    draft = structured(datacontenttype=content_type, data=data)
    assert draft.body == body
    assert (draft.properties or {})["datacontenttype"] == (content_type or "application/json")


def test_data_without_a_content_type_is_said_to_be_json() -> None:
    assert (structured(data=1).properties or {})["datacontenttype"] == "application/json"
    assert "datacontenttype" not in (structured().properties or {})
    assert "datacontenttype" not in (structured(data_base64="aGk=").properties or {})


def test_numbers_in_data_keep_their_digits() -> None:
    data = b'{"a":1.10,"b":12345678901234567890123,"c":[-0,1E5]}'
    body = orjson.dumps(EVENT)[:-1] + b',"data":' + data + b"}"
    assert decode(STRUCTURED, {}, body, LIMITS)[0][0] == data


def test_data_as_base64_is_the_body() -> None:
    assert structured(datacontenttype="image/png", data_base64="/wA=").body == b"\xff\x00"


def test_an_event_without_data_has_an_empty_body() -> None:
    assert structured().body == b""


def test_attributes_become_text_and_null_is_none() -> None:
    properties = structured(count=-5, flag=True, off=False, gone=None).properties
    assert properties == {
        "specversion": "1.0",
        "source": "/mycontext",
        "count": "-5",
        "flag": "true",
        "off": "false",
    }


def test_headers_on_queue_order_and_delay_hold_for_events() -> None:
    headers = {"lakemq-ordering-key": "o", "lakemq-queue-id": "3", "lakemq-delay-ms": "5"}
    drafts = decode(BATCHED, headers, orjson.dumps([EVENT, EVENT]), LIMITS)
    assert isinstance(drafts, list)
    assert {(draft.ordering_key, draft.queue_id, draft.delay_ms) for draft in drafts} == {("o", 3, 5)}


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"id": None}, "attribute 'id' is missing"),
        ({"source": None}, "attribute 'source' is missing"),
        ({"type": None}, "attribute 'type' is missing"),
        ({"specversion": None}, "attribute 'specversion' is missing"),
        ({"specversion": "0.3"}, "attribute 'specversion' must be '1.0'"),
        ({"specversion": 1.0}, "attribute 'specversion' must be a string"),
        ({"id": ""}, "attribute 'id' is empty"),
        ({"subject": ""}, "attribute 'subject' is empty"),
        ({"id": "k" * 1025}, "keys[0] is longer than 1024 bytes"),
        ({"type": "t" * 1025}, "tag is longer than 1024 bytes"),
        ({"type": "a||b"}, "tag can't be"),
        ({"time": "yesterday"}, "attribute 'time' must be a time by RFC 3339"),
        ({"time": "2018-04-05T17:31:00"}, "attribute 'time' must be a time by RFC 3339"),
        ({"time": ""}, "attribute 'time' is empty"),
        ({"Upper": "x"}, "attribute 'Upper' must be named"),
        ({"with_line": "x"}, "attribute 'with_line' must be named"),
        ({"": "x"}, "attribute '' must be named"),
        ({"number": 1.5}, "attribute 'number' must be a string, boolean"),
        ({"number": 2**31}, "attribute 'number' must be a string, boolean"),
        ({"nested": {}}, "attribute 'nested' must be a string, boolean"),
        ({"data": "a", "data_base64": "aGk="}, "both data and data_base64"),
        ({"data_base64": "aGk"}, "data_base64 is no valid base64"),
        ({"data_base64": None}, "data_base64 must be a string"),
        ({"datacontenttype": "text/plain", "data": 5}, "data must be a string"),
    ],
)
def test_what_is_wrong_is_named_with_its_event(members: dict[str, Any], says: str) -> None:
    detail = refused(BATCHED, {}, orjson.dumps([EVENT, {**EVENT, **members}]))
    assert detail.startswith("events[1]: ")
    assert says in detail


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"ce-specversion": "1.1"}, "'specversion' must be '1.0'"),
        ({"ce-source": ""}, "attribute 'source' is empty"),
        ({"ce-data": "x"}, "attribute 'data' must be named"),
        ({"ce-a-b": "x"}, "attribute 'a-b' must be named"),
        ({"ce-": "x"}, "attribute '' must be named"),
        ({"ce-time": "2018-13-05T17:31:00Z"}, "attribute 'time' must be"),
    ],
)
def test_what_is_wrong_in_a_header_is_named(headers: dict[str, str], says: str) -> None:
    assert says in refused("text/plain", {**HEADERS, **headers}, b"")


def test_a_required_header_that_is_missing_is_named() -> None:
    assert "'id' is missing" in refused("text/plain", {"ce-specversion": "1.0"}, b"")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"null", b"5", b"\xff", b"[" * 5_000])
def test_what_is_no_event_is_refused(body: bytes) -> None:
    refused(STRUCTURED, {}, body)
    refused(BATCHED, {}, body)


def nested_event(depth: int) -> bytes:
    return orjson.dumps(EVENT)[:-1] + b',"data":' + b"[" * depth + b"]" * depth + b"}"


def test_data_may_be_nested_deeply() -> None:
    assert decode(STRUCTURED, {}, nested_event(250), LIMITS)[0][0] == b"[" * 250 + b"]" * 250


@pytest.mark.parametrize("depth", [300, 900, 1_020, 1_100, 100_000])
def test_data_that_is_nested_too_deeply_is_refused(depth: int) -> None:
    refused(STRUCTURED, {}, nested_event(depth))


@pytest.mark.parametrize("media", ["+xml", "+avro", "", "-batch+xml"])
def test_events_in_another_format_are_refused(media: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="must be JSON"):
        decode(f"application/cloudevents{media}", {}, b"", LIMITS)
