from __future__ import annotations

import pytest

from lakemq.gateway.decode import Limits, decode
from lakemq.model.errors import InvalidRequest, MessageTooLarge
from lakemq.model.message import Draft
from tests.gateway.decode.streams import LIMITS


def raw(headers: dict[str, str], content_type: str = "text/plain", body: bytes = b"x") -> Draft:
    (draft,) = decode(content_type, headers, body, LIMITS)
    assert isinstance(draft, Draft)
    return draft


@pytest.mark.parametrize(
    "content_type",
    ["Text/Plain; charset=latin-1", "multipart/form-data; boundary=x", "nonsense", "a/b;;;"],
)
def test_a_payload_is_kept_as_it_is_with_its_content_type(content_type: str) -> None:
    body = b"\xff\x00 any"
    assert raw({}, content_type, body) == Draft(body, properties={"content_type": content_type})


def test_without_a_content_type_a_payload_is_octets() -> None:
    assert raw({}, "").properties == {"content_type": "application/octet-stream"}


def test_an_empty_payload_is_a_message() -> None:
    assert raw({}, body=b"").body == b""


def test_every_header_of_the_contract_is_read() -> None:
    headers = {
        "host": "localhost",
        "lakemq-tag": "T",
        "lakemq-keys": "k1, k2,,k3 ,",
        "lakemq-ordering-key": "order-42",
        "lakemq-queue-id": " 7 ",
        "lakemq-deliver-at-ms": "1790000000000",
        "lakemq-property-region": "eu",
        "lakemq-property-x-y": "\xc3\xa9",
        "idempotency-key": '"k"',
    }
    assert raw(headers) == Draft(
        body=b"x",
        tag="T",
        keys=["k1", "k2", "k3"],
        properties={"region": "eu", "x-y": "é", "content_type": "text/plain"},
        ordering_key="order-42",
        queue_id=7,
        deliver_at_ms=1790000000000,
    )
    assert raw({"lakemq-delay-level": "3"}).delay_level == 3
    assert raw({"lakemq-delay-level": "-1"}).delay_level is None
    assert raw({"lakemq-delay-ms": "1500"}).delay_ms == 1500


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"lakemq-queue-id": "x"}, "queue_id must be an integer"),
        ({"lakemq-queue-id": ""}, "queue_id must be an integer"),
        ({"lakemq-queue-id": "-1"}, "queue_id must be from 0 to 65534"),
        ({"lakemq-queue-id": "1_0"}, "queue_id must be an integer"),
        ({"lakemq-queue-id": "٣"}, "queue_id must be an integer"),
        ({"lakemq-queue-id": "9" * 10_000}, "queue_id must be an integer"),
        ({"lakemq-queue-id": "65535"}, "queue_id must be from 0 to 65534"),
        ({"lakemq-delay-ms": "1", "lakemq-delay-level": "1"}, "at most one of"),
        ({"lakemq-tag": ""}, "tag is empty"),
        ({"lakemq-tag": "a||b"}, "tag can't be"),
        ({"lakemq-tag": "\xff"}, "header Lakemq-Tag is no valid UTF-8"),
        ({"lakemq-tag": "\ud800"}, "tag is no valid Unicode"),
        ({"lakemq-keys": ",".join("k" * 65)}, "keys has more than 64 entries"),
        ({"lakemq-ordering-key": ""}, "ordering_key is empty"),
        ({"lakemq-property-": "x"}, "an empty name"),
        ({"lakemq-property-a": "v" * 65_536}, "more than 65536 bytes"),
    ],
)
def test_what_is_wrong_in_a_header_is_named(headers: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        raw(headers)
    assert says in caught.value.detail


def test_a_payload_above_the_limit_is_refused() -> None:
    limits = Limits(message_bytes_max=3, request_bytes_max=5)
    assert decode("text/plain", {}, b"abc", limits)
    with pytest.raises(MessageTooLarge, match="4 bytes, more than the 3 of a message"):
        decode("text/plain", {}, b"abcd", limits)
    with pytest.raises(MessageTooLarge, match="the request has 6 bytes, more than 5"):
        decode("text/plain", {}, b"abcdef", limits)
