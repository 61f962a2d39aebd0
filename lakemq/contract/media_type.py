"""The parts of a content type that decide how a body is read."""

from __future__ import annotations

import re

from lakemq.model.errors import UnsupportedMediaType

_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^";\s]*)', re.IGNORECASE)


def media_type(content_type: str) -> str:
    """The media type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def check_utf8(content_type: str) -> None:
    """Refuse JSON that says it is in another charset than UTF-8."""
    found = _CHARSET.search(content_type)
    if found and found[1].lower() not in ("utf-8", "utf8", "us-ascii"):
        raise UnsupportedMediaType(f"JSON must be in UTF-8, not {found[1][:40]!r}")
