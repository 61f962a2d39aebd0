"""The trace that a request came with is its messages'."""

from __future__ import annotations

import json

import pytest

from lakemq.contract.forms import EVENT, JSON, NDJSON, OCTETS
from lakemq.gateway.decode import decode, decode_one
from lakemq.gateway.decode.limits import PROPERTIES_BYTES_MAX, PROPERTIES_MAX
from tests.gateway.decode.streams import LIMITS

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OWN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = {"traceparent": PARENT, "tracestate": "vendor=1"}


def properties(form: str, body: object, headers: dict[str, str]) -> list[dict[str, str]]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    drafts = decode(form, headers, content, LIMITS)
    assert isinstance(drafts, list)
    return [draft.properties or {} for draft in drafts]


def test_messages_of_each_form_have_it() -> None:
    assert properties(JSON, {"messages": [{"body": "x"}, {"body": "y", "properties": {"a": "b"}}]}, TRACE) == [
        TRACE,
        {"a": "b", **TRACE},
    ]
    assert properties(NDJSON, {"body": "x"}, TRACE) == [TRACE]
    assert properties(OCTETS, b"x", TRACE | {"lakemq-tag": "t"}) == [{"content_type": OCTETS, **TRACE}]
    assert decode_one(JSON, TRACE, b'{"body": "x"}', LIMITS).properties == TRACE
    assert decode_one("text/plain", TRACE, b"x", LIMITS).properties == {"content_type": "text/plain", **TRACE}


def test_a_trace_of_its_own_goes_before() -> None:
    own = {"traceparent": OWN}
    assert properties(JSON, {"messages": [{"body": "x", "properties": own}]}, TRACE) == [own]
    assert properties(OCTETS, b"x", TRACE | {"lakemq-property-traceparent": OWN})[0]["traceparent"] == OWN
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "traceparent": OWN}
    assert properties(EVENT, event, TRACE)[0]["traceparent"] == OWN


def test_of_an_event_none_is_the_requests() -> None:
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}
    assert "traceparent" not in properties(EVENT, event, TRACE)[0]
    binary = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "ce-type": "t"}
    assert "traceparent" not in properties("text/plain", b"x", binary | TRACE)[0]


@pytest.mark.parametrize("parent", ["", "x", PARENT.upper(), PARENT + "\n", "00-" + "0" * 32 + PARENT[35:]])
def test_what_is_no_trace_is_passed_over(parent: str) -> None:
    assert properties(JSON, {"messages": [{"body": "x"}]}, TRACE | {"traceparent": parent}) == [{}]


def test_a_later_version_s_trace_has_its_bound() -> None:
    """All messages of a request have it: a head of 64 KiB would be stored as often as there are messages."""
    later = "01" + PARENT[2:] + "-more"
    assert properties(JSON, {"messages": [{"body": "x"}]}, {"traceparent": later}) == [{"traceparent": later}]
    for parent in (later + "x" * 128, later + "é"):
        assert properties(JSON, {"messages": [{"body": "x"}]}, {"traceparent": parent}) == [{}]


@pytest.mark.parametrize("state", ["", "é", "a\nb", "v=" + "1" * 511])
def test_a_state_that_can_not_be_is_left_out(state: str) -> None:
    only = {"traceparent": PARENT}
    assert properties(JSON, {"messages": [{"body": "x"}]}, only | {"tracestate": state}) == [only]


@pytest.mark.parametrize(
    "own", [{f"p{number}": "x" for number in range(PROPERTIES_MAX)}, {"long": "x" * (PROPERTIES_BYTES_MAX - 4)}]
)
def test_a_message_without_room_for_it_is_taken_without(own: dict[str, str]) -> None:
    assert properties(JSON, {"messages": [{"body": "x", "properties": own}]}, TRACE) == [own]
