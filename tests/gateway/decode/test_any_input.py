"""Whatever comes in, only the contract's errors come out."""

from __future__ import annotations

import contextlib

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakemq.gateway.decode import Limits, decode
from lakemq.model.errors import (
    InvalidArrow,
    InvalidRequest,
    MessageTooLarge,
    UnsupportedMediaType,
)

CONTENT_TYPES = [
    "",
    "application/json",
    "application/x-ndjson",
    "application/cloudevents+json",
    "application/cloudevents-batch+json",
    "application/vnd.apache.arrow.stream",
    "text/plain",
]
HEADERS = ["tag", "keys", "queue-id", "delay-ms", "delay-level", "ordering-key", "property-a"]

_names = st.sampled_from(
    [f"lakemq-{name}" for name in HEADERS]
    + [f"ce-{name}" for name in ("id", "type", "source", "specversion", "time", "x")]
)
_any_text = st.text(st.characters(), max_size=20)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_any_text, inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    content_type=st.sampled_from(CONTENT_TYPES) | _any_text,
    headers=st.dictionaries(_names, _any_text, max_size=8),
    body=st.binary(max_size=200) | _json.map(lambda value: repr(value).encode(errors="replace")),
)
def test_any_request_is_decoded_or_refused(content_type: str, headers: dict[str, str], body: bytes) -> None:
    limits = Limits(message_bytes_max=50, request_bytes_max=150)
    allowed = (InvalidArrow, InvalidRequest, MessageTooLarge, UnsupportedMediaType)
    with contextlib.suppress(*allowed):
        assert decode(content_type, headers, body, limits)
