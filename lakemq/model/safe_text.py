"""Text of others in a log or on a terminal: it can neither begin a line nor steer what shows it."""

from __future__ import annotations

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str, characters_max: int) -> str:
    """The text with what isn't printable written as an escape, in about so many characters: what is over is counted."""
    head = text[:characters_max]
    shown = head if head.isprintable() else "".join([each if each.isprintable() else _escape(each) for each in head])
    over = len(text) - characters_max
    return shown if over <= 0 else f"{shown}… ({over} more characters)"


def _escape(letter: str) -> str:
    code = ord(letter)
    short = _SHORT.get(letter)
    if short is not None:
        return short
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
