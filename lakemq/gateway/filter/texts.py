"""Functions of strings, and of a message's keys and properties."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from lakemq.gateway.filter.casts import coerce
from lakemq.gateway.filter.values import (
    BYTES,
    NAMES,
    NOTHING,
    TEXT,
    TEXT_MAP,
    TEXTS,
    TRUTH,
    WHOLE,
    Node,
    combine,
    constant,
    pc,
    refuse,
)
from lakemq.model.errors import InvalidFilter

PATTERN_CHARACTERS_MAX = 1000
MADE_BYTES_MAX = 64 * 1024 * 1024
"""What concat may make of one batch."""


# Patterns ------------------------------------------------------------------------------------


def like(node: Node, pattern: Node, escape: str, any_case: bool) -> Node:
    """`node LIKE pattern ESCAPE escape`, or ILIKE."""
    text = _constant_text(pattern, "the pattern of LIKE")
    regex = None if text is None else _like_regex(text.lower() if any_case else text, escape, pattern.at)
    values = coerce(node, TEXT)
    return _matches(lower(values) if any_case else values, regex)


def rlike(node: Node, pattern: Node) -> Node:
    """`node RLIKE pattern`, in RE2's syntax: linear time, no look-around, no back references."""
    text = _constant_text(pattern, "the pattern of RLIKE")
    if text is not None:
        try:
            pc.match_substring_regex(pa.array([""]), pattern=text)
        except pa.ArrowInvalid as error:
            reason = str(error).removeprefix("Invalid regular expression: ")
            refuse(f"the pattern of RLIKE is no regular expression ({reason[:200]})", pattern.at)
    return _matches(coerce(node, TEXT), text)


def _matches(node: Node, regex: str | None) -> Node:
    if regex is None:
        return constant(pa.scalar(None, TRUTH), node.at)
    return combine(TRUTH, node.at, lambda texts: pc.match_substring_regex(texts, pattern=regex), node)


def _constant_text(pattern: Node, what: str) -> str | None:
    if pattern.constant is None or pattern.data_type not in (TEXT, NOTHING):
        refuse(f"{what} must be a string literal", pattern.at)
    text = pattern.constant.as_py()
    if text is not None and len(text) > PATTERN_CHARACTERS_MAX:
        refuse(f"{what} has more than {PATTERN_CHARACTERS_MAX} characters", pattern.at)
    return text


def _like_regex(pattern: str, escape: str, at: int) -> str:
    pieces: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None or escaped not in ("%", "_", escape):
                refuse(f"in a pattern of LIKE only %, _ and {escape!r} itself can follow {escape!r}", at)
            pieces.append(_quote(escaped))
        elif character == "%":
            pieces.append(".*")
        elif character == "_":
            pieces.append(".")
        else:
            pieces.append(_quote(character))
    return rf"(?s)\A{''.join(pieces)}\z"


def _quote(character: str) -> str:
    return r"\x00" if character == "\0" else re.escape(character)


# Strings -------------------------------------------------------------------------------------


def lower(node: Node) -> Node:
    """`lower(node)`."""
    return combine(TEXT, node.at, pc.utf8_lower, coerce(node, TEXT))


def upper(node: Node) -> Node:
    """`upper(node)`."""
    return combine(TEXT, node.at, pc.utf8_upper, coerce(node, TEXT))


def trim(node: Node, side: str) -> Node:
    """The string without blanks at its ends: `side` is both, leading or trailing."""
    function = {"both": pc.utf8_trim, "leading": pc.utf8_ltrim, "trailing": pc.utf8_rtrim}[side]
    return combine(TEXT, node.at, lambda texts: function(texts, characters=" "), coerce(node, TEXT))


def length(node: Node) -> Node:
    """A string's characters, or a binary's bytes."""
    if node.data_type == BYTES:
        return combine(WHOLE, node.at, lambda values: pc.binary_length(values).cast(WHOLE), node)
    return combine(WHOLE, node.at, lambda texts: pc.utf8_length(texts).cast(WHOLE), coerce(node, TEXT))


def substring(node: Node, begin: Node, count: Node | None) -> Node:
    """Characters from `begin` on, counted from 1, or from the end when it is negative."""
    start = _constant_whole(begin, "where a substring begins")
    wanted = None if count is None else _constant_whole(count, "the length of a substring")
    if start is None or (count is not None and wanted is None):
        return constant(pa.scalar(None, TEXT), node.at)
    if wanted is not None and wanted <= 0:
        return combine(TEXT, node.at, lambda texts: pc.utf8_slice_codeunits(texts, 0, 0), coerce(node, TEXT))
    first = max(start - 1, 0) if start >= 0 else start
    stop = None if wanted is None else first + wanted
    if first < 0 and stop is not None and stop >= 0:
        stop = None
    return combine(TEXT, node.at, lambda texts: pc.utf8_slice_codeunits(texts, first, stop), coerce(node, TEXT))


def _constant_whole(node: Node, what: str) -> int | None:
    if node.constant is None or node.data_type not in (WHOLE, NOTHING):
        refuse(f"{what} must be a whole number", node.at)
    value = node.constant.as_py()
    return None if value is None else max(min(value, 1 << 31), -(1 << 31))


def concat(operands: list[Node], at: int) -> Node:
    """All strings in a row, null where one is."""

    def evaluate(*texts: Any) -> Any:
        rows = max([len(text) for text in texts if isinstance(text, pa.Array)], default=1)
        size = sum(text.nbytes if isinstance(text, pa.Array) else len(str(text)) * rows for text in texts)
        if size > MADE_BYTES_MAX:
            raise InvalidFilter(f"concat makes more than {MADE_BYTES_MAX} bytes of a batch, at character {at}")
        return pc.binary_join_element_wise(*texts, "")

    return combine(TEXT, at, evaluate, *[coerce(operand, TEXT) for operand in operands])


# Keys and properties -------------------------------------------------------------------------


def value_of(node: Node, key: Node) -> Node:
    """`node[key]` of a map; null where it isn't there."""
    if node.data_type != TEXT_MAP:
        refuse(f"{NAMES[node.data_type]} has no entries by name", node.at)
    wanted = _constant_text(key, "the name in []")
    if wanted is None:
        return constant(pa.scalar(None, TEXT), node.at)
    return combine(
        TEXT, node.at, lambda maps: pc.map_lookup(maps, query_key=pa.scalar(wanted), occurrence="last"), node
    )


def contains(node: Node, value: Node) -> Node:
    """`array_contains(node, value)`."""
    if node.data_type != TEXTS:
        refuse(f"array_contains wants an array, not {NAMES[node.data_type]}", node.at)
    wanted = coerce(value, TEXT).constant
    if wanted is None or not wanted.is_valid:
        refuse("what array_contains looks for must be a string literal", value.at)

    def evaluate(lists: Any) -> Any:
        rows = pc.list_parent_indices(lists).filter(pc.equal(pc.list_flatten(lists), wanted))
        found = pc.is_in(pa.arange(0, len(lists)), value_set=rows.cast(WHOLE))
        return pc.if_else(pc.is_valid(lists), found, pa.scalar(None, TRUTH))

    return combine(TRUTH, node.at, evaluate, node)


def size(node: Node) -> Node:
    """How many entries an array or a map has."""
    if node.data_type == TEXTS:
        return combine(WHOLE, node.at, lambda lists: pc.list_value_length(lists).cast(WHOLE), node)
    if node.data_type == TEXT_MAP:
        return combine(WHOLE, node.at, _map_sizes, node)
    if node.data_type == NOTHING:
        return constant(pa.scalar(None, WHOLE), node.at)
    return refuse(f"size wants an array or a map, not {NAMES[node.data_type]}", node.at)


def _map_sizes(maps: Any) -> Any:
    entries = pa.ListArray.from_arrays(maps.offsets, pa.nulls(len(maps.keys), pa.bool_()))
    sizes = pc.list_value_length(entries).cast(WHOLE)
    return pc.if_else(pc.is_valid(maps), sizes, pa.scalar(None, WHOLE))
