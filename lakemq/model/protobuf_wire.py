"""Protobuf's wire format (protobuf.dev, "Encoding"): varints, tags, and fields that a schema doesn't know."""

from __future__ import annotations

from lakemq.model.fit import Misfit

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = range(6)
"""Wire types."""
GROUPS_MAX = 100
"""Groups within each other; Google's own parsers stop there too."""
_NUMBER_MAX = 2**29 - 1
_VARINT_BITS = 70
_MASK = 2**64 - 1
_TOO_EARLY = "the body ends too early"


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The unsigned number of 64 bits at that place, and where the next thing begins. Raises `Misfit`."""
    shift = found = 0
    while True:
        if at >= end:
            raise Misfit(_TOO_EARLY)
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found & _MASK, at
        shift += 7
        if shift >= _VARINT_BITS:
            raise Misfit("a number has more than 64 bits")


def sized(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the content of a field that says its length begins and ends. Raises `Misfit`."""
    size, begin = varint(data, at, end)
    if size > end - begin:
        raise Misfit(_TOO_EARLY)
    return begin, begin + size


def skip(data: bytes, tag: int, at: int, end: int) -> int:
    """Where the field ends whose tag, which was just read, says so. Raises `Misfit`."""
    at = _skip_one(data, tag, at, end)
    if tag & 7 != GROUP:
        return at
    groups = [tag >> 3]
    while groups:
        tag, at = varint(data, at, end)
        if tag & 7 == GROUP_END:
            if tag >> 3 != groups.pop():
                raise Misfit("a group ends that didn't begin")
            continue
        at = _skip_one(data, tag, at, end)
        if tag & 7 == GROUP:
            groups.append(tag >> 3)
            if len(groups) > GROUPS_MAX:
                raise Misfit(f"it has more than {GROUPS_MAX} groups within each other")
    return at


def _skip_one(data: bytes, tag: int, at: int, end: int) -> int:
    """The same; of a group, where its first field begins."""
    wire = tag & 7
    if not 0 < tag >> 3 <= _NUMBER_MAX or wire not in (VARINT, FIXED64, BYTES, GROUP, FIXED32):
        raise Misfit("the body is no Protobuf message")
    if wire == VARINT:
        return varint(data, at, end)[1]
    if wire == BYTES:
        return sized(data, at, end)[1]
    after = at + {FIXED64: 8, FIXED32: 4, GROUP: 0}[wire]
    if after > end:
        raise Misfit(_TOO_EARLY)
    return after


class Fields:
    """The fields of one small message, by number, read without its schema. Raises `Misfit`."""

    def __init__(self, data: bytes) -> None:
        self._found: dict[int, list[int | bytes]] = {}
        at, end = 0, len(data)
        while at < end:
            tag, at = varint(data, at, end)
            if tag & 7 == VARINT:
                value, at = varint(data, at, end)
                self._found.setdefault(tag >> 3, []).append(value)
            elif tag & 7 == BYTES:
                begin, at = sized(data, at, end)
                self._found.setdefault(tag >> 3, []).append(data[begin:at])
            else:
                at = skip(data, tag, at, end)

    def all(self, number: int) -> list[Fields]:
        """Its messages of that number."""
        return [Fields(each) for each in self.contents(number)]

    def contents(self, number: int) -> list[bytes]:
        """The same, as they are."""
        return [each for each in self._found.get(number, ()) if isinstance(each, bytes)]

    def text(self, number: int) -> str:
        """The last of that number; empty: there is none."""
        try:
            return (self.contents(number) or [b""])[-1].decode()
        except UnicodeDecodeError:
            raise Misfit("a name is no UTF-8") from None

    def number(self, number: int) -> int | None:
        """The last of that number, as an int32 or a boolean; None: there is none."""
        found = [each for each in self._found.get(number, ()) if isinstance(each, int)]
        return signed(found[-1], 32) if found else None


def signed(number: int, bits: int) -> int:
    """The lowest bits of the number, of which the first is the sign."""
    half = 1 << (bits - 1)
    return ((number & (2 * half - 1)) ^ half) - half
