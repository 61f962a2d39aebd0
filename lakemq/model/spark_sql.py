"""Names and text as Spark's SQL writes them."""

from __future__ import annotations


def quoted(name: str) -> str:
    """The name as an identifier, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """The text as a string literal, whatever is in it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
