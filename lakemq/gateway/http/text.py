"""Text of a request's body."""

from __future__ import annotations


def check_text(text: str) -> str:
    """The text, if it can be written as UTF-8: JSON may hold halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("the text has half a surrogate pair") from None
    return text
