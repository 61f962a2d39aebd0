"""What may name a sink, or a part of its batch."""

from __future__ import annotations

from lakemq.model.errors import InvalidRequest
from lakemq.model.names import check_group


def check_sink(sink: str) -> str:
    """Return `sink` if it can name a sink; raises `InvalidRequest`."""
    return _check("sink", sink)


def check_part_name(part: str) -> str:
    """Return `part` if it can name a part; raises `InvalidRequest`."""
    return _check("part", part)


def _check(what: str, name: str) -> str:
    try:
        return check_group(name)
    except InvalidRequest:
        raise InvalidRequest(f"{what} {name[:200]!r} does not match [A-Za-z0-9_-]{{1,127}}") from None
