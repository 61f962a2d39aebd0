"""What may name a sink, or a part of its batch."""

from __future__ import annotations

from lakemq.model.errors import InvalidRequest
from lakemq.model.names import check_group

BATCH_MAX = 2**63 - 1


def check_sink(sink: str) -> str:
    """Return `sink` if it can name a sink; raises `InvalidRequest`."""
    return _check("sink", sink)


def check_names(sink: str, batch: int, part: str, group: str | None) -> None:
    """Raise `InvalidRequest` unless these can name a part, and the group that it is for, if it is for one."""
    check_sink(sink)
    _check("part", part)
    if not 0 <= batch <= BATCH_MAX:
        raise InvalidRequest(f"batch is {batch}; it may be 0 to {BATCH_MAX}")
    if group is not None:
        check_group(group)


def _check(what: str, name: str) -> str:
    try:
        return check_group(name)
    except InvalidRequest:
        raise InvalidRequest(f"{what} {name[:200]!r} does not match [A-Za-z0-9_-]{{1,127}}") from None
