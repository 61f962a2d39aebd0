"""Pages out of templates. Whatever a message, a name or an error says is text there: all is escaped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, Undefined

from lakemq import __version__
from lakemq.console import shown
from lakemq.console.members import held

FOLDER = Path(__file__).parent / "templates"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""Of every answer that doesn't say another one itself."""
_SHOWN = (shown.count, shown.rate, shown.size, shown.share, shown.duration, shown.duration_ms, shown.moment)


def make_templates(version: str) -> Environment:
    """The templates. `version`: of the files that pages load."""
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {each.__name__: _known(each) for each in _SHOWN} | {"preview": shown.preview, "segment": segment}
    made.filters["held"] = held
    shared: dict[str, Any] = made.globals  # pyright: ignore[reportAssignmentType]  its type has only what jinja puts there
    shared |= {"asset_version": version, "lakemq_version": __version__, "query": query}
    return made


def _known(show: Callable[[shown.Number], str]) -> Callable[[Any], str]:
    """What a broker leaves out isn't known: another version may."""
    return lambda value: show(None if isinstance(value, Undefined) else value)


def segment(text: Any) -> str:
    """A name as one segment of a path."""
    return quote(str(text), safe="")


def query(**fields: Any) -> str:
    """Those fields of a query that have a value."""
    return urlencode({name: value for name, value in fields.items() if value not in (None, "")})
