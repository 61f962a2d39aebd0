"""Frames as lakemqs to come may write them."""

from __future__ import annotations

from crc32c import crc32c

from lakemq.model.columns import STORED
from lakemq.storage.segment.frame import VERSION, VERSION_AT, header_sizes

KINDS = {
    "version": (VERSION_AT, bytes([VERSION + 1])),
    "kind": (13, b"\4"),
    "encoding": (14, b"\2"),
    "columns": (72, (1 << len(STORED)).to_bytes(4, "little")),
}
"""Where a header's fields are, and values that are none of this version's."""


def from_the_future(data: bytes, at: int = VERSION_AT, value: bytes = KINDS["version"][1]) -> bytes:
    """The bytes, whose first frame has another value there, and the right checksum."""
    meta_bytes, _ = header_sizes(data)
    changed = bytearray(data)
    changed[at : at + len(value)] = value
    changed[8:12] = crc32c(bytes(changed[12:meta_bytes])).to_bytes(4, "little")
    return bytes(changed)
