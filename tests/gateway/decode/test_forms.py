"""Each form of the contract is read as that form: one that nobody decodes would be stored as it is."""

from __future__ import annotations

import pytest

from lakemq.contract.forms import EVENT, FORMS, OCTETS, is_form
from lakemq.gateway.decode import decode
from lakemq.gateway.produce.produce import plain_properties
from lakemq.model.errors import InvalidArrow, InvalidRequest, UnsupportedMediaType
from tests.gateway.decode.streams import LIMITS


@pytest.mark.parametrize("form", FORMS)
def test_a_body_of_a_form_is_never_taken_as_it_is(form: str) -> None:
    assert is_form(form)
    for content_type in (form, f"{form.upper()} ; charset=utf-8"):
        assert plain_properties([(b"content-type", content_type.encode())]) is None
        with pytest.raises((InvalidRequest, InvalidArrow)):
            decode(content_type, {}, b"\x00no such body", LIMITS)


def test_events_in_a_form_that_is_not_known_are_refused() -> None:
    assert is_form("application/cloudevents+avro")
    assert plain_properties([(b"content-type", b"application/cloudevents+avro")]) is None
    with pytest.raises(UnsupportedMediaType, match="must be JSON, not"):
        decode("application/cloudevents+avro", {}, b"x", LIMITS)


def test_anything_else_is_one_message_as_it_is() -> None:
    for content_type in (OCTETS, "text/plain", "application/jsonlines", f"x{EVENT}"):
        assert plain_properties([(b"content-type", content_type.encode())]) == {"content_type": content_type}
        drafts = decode(content_type, {}, b"x", LIMITS)
        assert isinstance(drafts, list)
        assert [draft.body for draft in drafts] == [b"x"]
