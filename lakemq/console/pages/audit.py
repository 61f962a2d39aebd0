"""The audit: the actions of each user, and what was refused."""

from __future__ import annotations

from starlette.responses import Response

from lakemq.console import shown
from lakemq.console.audit import OUTCOMES, Filter, read_audit
from lakemq.console.visit import Visit
from lakemq.model.errors import InvalidRequest


async def show(visit: Visit) -> Response:
    """A page of the audit, the newest first."""
    await visit.who()
    wanted = _filter(visit)
    before = visit.number("before", 0) if visit.field("before") else None
    found = await read_audit(visit.broker, wanted, before)
    said = {name: visit.field(name) for name in ("user", "what", "outcome", "since", "until")}
    return visit.page("audit.html", found=found, said=said, outcomes=OUTCOMES, first=before is None)


def _filter(visit: Visit) -> Filter:
    outcome = visit.field("outcome")
    if outcome not in ("", *OUTCOMES):
        raise InvalidRequest(f"outcome is one of {', '.join(OUTCOMES)}")
    since_ms, until_ms = (_moment(visit.field(name)) for name in ("since", "until"))
    return Filter(visit.field("user"), visit.field("what"), outcome, since_ms, until_ms)


def _moment(text: str) -> int | None:
    if not text:
        return None
    found = shown.parse_moment(text)
    if found is None:
        raise InvalidRequest(f"write a time as 2026-01-31T12:00:00, in UTC, not as {text[:40]!r}")
    return found


ROUTES = (("GET", "/people/audit", show),)
