"""Avro's binary encoding, written: by the specification, and nothing of lakemq's."""

from __future__ import annotations

import struct
from typing import Any


def long(number: int) -> bytes:
    """Zigzag, seven bits a byte."""
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def text(value: str | bytes) -> bytes:
    """Its length, then its bytes."""
    content = value.encode() if isinstance(value, str) else value
    return long(len(content)) + content


def blocks(items: list[bytes], sized: bool = False) -> bytes:
    """An array's, or a map's; `sized`: as a writer does that says how long a block is."""
    body = b"".join(items)
    head = long(-len(items)) + long(len(body)) if sized else long(len(items))
    return (head + body if items else b"") + long(0)


def encode(schema: Any, value: Any) -> bytes:
    """The value, as the schema says; of unions the first branch that it is of."""
    kind: str = "union" if _is_union(schema) else schema if _is_name(schema) else schema["type"]
    if kind == "union":
        at = next(at for at, each in enumerate(schema) if _is_of(each, value))
        return long(at) + encode(schema[at], value)
    if kind == "record":
        return b"".join(encode(each["type"], value[each["name"]]) for each in schema["fields"])
    if kind == "array":
        return blocks([encode(schema["items"], each) for each in value])
    if kind == "map":
        return blocks([text(key) + encode(schema["values"], each) for key, each in value.items()], sized=True)
    if kind == "enum":
        return long(schema["symbols"].index(value))
    plain = {
        "null": lambda: b"",
        "boolean": lambda: bytes([value]),
        "int": lambda: long(value),
        "long": lambda: long(value),
        "float": lambda: struct.pack("<f", value),
        "double": lambda: struct.pack("<d", value),
        "fixed": lambda: value,
    }
    return plain.get(kind, lambda: text(value))()


_PYTHON = {"null": type(None), "boolean": bool, "int": int, "long": int, "double": float, "string": str, "bytes": bytes}


def _is_union(schema: Any) -> bool:
    return isinstance(schema, list)


def _is_name(schema: Any) -> bool:
    return isinstance(schema, str)


def _is_of(schema: Any, value: Any) -> bool:
    return isinstance(schema, str) and type(value) is _PYTHON[schema]
