"""Text of others in a log or on a terminal: it can neither begin a line nor steer what shows it."""

from __future__ import annotations

import json

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str, characters_max: int) -> str:
    """The text with what isn't printable written as an escape, in about so many characters: what is over is counted."""
    head = text[:characters_max]
    shown = escaped(head)
    over = len(text) - characters_max
    return shown if over <= 0 else f"{shown}… ({over} more characters)"


def escaped(text: str) -> str:
    """The text with what isn't printable written as an escape."""
    return text if text.isprintable() else "".join([each if each.isprintable() else _escape(each) for each in text])


def safe_json(content: str) -> str:
    """JSON of the same value, in whose strings what isn't printable is written as JSON's escape. Ends of lines, which
    only stand between values, stay."""
    if content.isprintable():
        return content
    return "".join([each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in content])


def _escape(letter: str) -> str:
    code = ord(letter)
    short = _SHORT.get(letter)
    if short is not None:
        return short
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
