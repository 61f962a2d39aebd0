"""The forms that a body with messages may have, by its media type. Anything else is one message as it is."""

from __future__ import annotations

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
NDJSON = "application/x-ndjson"
EVENTS = "application/cloudevents"
"""What the types of events begin with; those that are known follow."""
EVENT = "application/cloudevents+json"
EVENT_BATCH = "application/cloudevents-batch+json"
OCTETS = "application/octet-stream"
"""A body that isn't called anything."""
FRAMES = "application/vnd.lakemq.frames"
"""Frames of the log, one after the other, as docs/log_format.md has them: answered only."""
CONTENT_TYPE = "content_type"
"""The property that says what a message's body is: of a raw message its header's, of `json` that it is JSON."""

FORMS = (JSON, NDJSON, ARROW, EVENT, EVENT_BATCH)


def is_form(media: str) -> bool:
    """Whether a body of this media type (in lower case, without parameters) is more than the bytes of one message."""
    return media in FORMS or media.startswith(EVENTS)
