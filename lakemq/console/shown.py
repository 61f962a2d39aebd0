"""How values are shown: numbers, sizes, times, and bodies as text, JSON or hex. Pure; what markup needs is the
templates' matter, which escape all of it."""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from lakemq.model.written import NOT_KNOWN, Number, count, duration, moment, share

__all__ = (
    "NOT_KNOWN",
    "Number",
    "body_bytes",
    "body_of",
    "count",
    "duration",
    "duration_ms",
    "hex_of",
    "moment",
    "parse_moment",
    "preview",
    "rate",
    "share",
    "size",
)

BODY_SHOWN_MAX = 64 * 1024
"""Bytes of a body that a page shows."""
PREVIEW_MAX = 160
_HEX_LINE = 16
_DEPTH_SHOWN_MAX = 64
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def rate(number: Number) -> str:
    """So much a second."""
    if number is None or not math.isfinite(number):
        return NOT_KNOWN
    return f"{number:,.0f}" if number >= 10 or number == 0 else f"{number:.1f}"


def size(number: Number) -> str:
    """Of bytes."""
    if number is None or not math.isfinite(number):
        return NOT_KNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < 1024:
            return f"{number:,.0f} B" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} TiB"


def duration_ms(ms: Number) -> str:
    """So of ms."""
    return NOT_KNOWN if ms is None else duration(ms / 1000)


def parse_moment(text: str) -> int | None:
    """The ms since the epoch of a form's field of time, which is in UTC; None: it is none."""
    try:
        parsed = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    parsed = parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed
    ms = int(parsed.timestamp() * 1000)
    return ms if ms >= 0 else None


class Body(NamedTuple):
    """A body's start in each form that it has. None: it has none such. `cut`: there is more of it."""

    bytes: int
    text: str | None
    json: str | None
    hex: str
    cut: bool

    @property
    def form(self) -> str:
        """The one that says most."""
        return "json" if self.json is not None else "text" if self.text is not None else "hex"


def body_bytes(message: Mapping[str, Any]) -> bytes:
    """A message's body, as the contract has it in JSON."""
    body = str(message.get("body", ""))
    return b64decode(body) if message.get("body_encoding") == "base64" else body.encode()


def body_of(message: Mapping[str, Any]) -> Body:
    """Its body, as far as a page shows it."""
    whole = body_bytes(message)
    part, cut = whole[:BODY_SHOWN_MAX], len(whole) > BODY_SHOWN_MAX
    is_text = message.get("body_encoding") != "base64"
    text = part.decode(errors="ignore" if cut else "replace") if is_text else None
    return Body(len(whole), text, None if text is None or cut else _pretty(text), hex_of(part), cut)


def preview(message: Mapping[str, Any]) -> str:
    """A line of its body."""
    body = str(message.get("body", ""))
    if message.get("body_encoding") == "base64":
        return f"{body_bytes(message)[:_HEX_LINE].hex(' ')} …"
    line = " ".join(body[: 4 * PREVIEW_MAX].split())
    return line if len(line) <= PREVIEW_MAX else f"{line[: PREVIEW_MAX - 1]}…"


def hex_of(content: bytes) -> str:
    """Lines with an address, sixteen bytes and their ASCII characters."""
    lines: list[str] = []
    for at in range(0, len(content), _HEX_LINE):
        part = content[at : at + _HEX_LINE]
        letters = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        lines.append(f"{at:08x}  {part.hex(' '):<47}  {letters}")
    return "\n".join(lines)


def _pretty(text: str) -> str | None:
    """The JSON with an indent, its numbers and strings as they stand; None: it is none, or only a number or a word."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return "".join(_indented(text))


def _indented(text: str) -> Iterator[str]:
    depth, last = 0, ""
    for match in _JSON_TOKEN.finditer(text):
        piece = match[0]
        if piece in "]}":
            depth -= 1
            yield "" if last in "[{" else _line(depth)
        elif last and last in "[{,":
            yield _line(depth)
        yield ": " if piece == ":" else piece
        depth += piece in "[{"
        last = piece


def _line(depth: int) -> str:
    return "\n" + "  " * min(depth, _DEPTH_SHOWN_MAX)
