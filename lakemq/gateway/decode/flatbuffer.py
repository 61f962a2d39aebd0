"""A reader of flatbuffers that trusts nothing: each read is checked against the bytes there are."""

from __future__ import annotations

from struct import Struct

_U16 = Struct("<H")
_U32 = Struct("<I")
_I32 = Struct("<i")


class Malformed(Exception):
    """The bytes are no well-formed Arrow IPC."""


class Table:
    """A table at `at` of `data`. Slots are numbered in the order of the schema's fields."""

    __slots__ = ("_at", "_data", "_size", "_slots", "_vtable")

    def __init__(self, data: bytes, at: int) -> None:
        vtable = at - read(_I32, data, at)
        vtable_size: int = read(_U16, data, vtable)
        if vtable_size < 4 or vtable + vtable_size > len(data):
            raise Malformed("a table's field offsets leave the metadata")
        self._data = data
        self._at = at
        self._vtable = vtable
        self._slots = vtable_size // 2 - 2
        self._size: int = read(_U16, data, vtable + 2)
        if at + self._size > len(data):
            raise Malformed("a table leaves the metadata")

    def scalar(self, slot: int, form: Struct, default: int = 0) -> int:
        """The number in `slot`, read as `form`; `default` where it isn't there."""
        at = self.position(slot, form.size)
        return read(form, self._data, at) if at else default

    def table(self, slot: int) -> Table | None:
        """The table in `slot`."""
        at = self.target(slot)
        return Table(self._data, at) if at else None

    def target(self, slot: int) -> int:
        """Where the table or vector in `slot` is; 0 for nowhere, which none ever is."""
        at = self.position(slot, 4)
        return at + read(_U32, self._data, at) if at else 0

    def vector(self, slot: int, item_bytes: int) -> tuple[int, int]:
        """Where the items of the vector in `slot` begin, and how many there are."""
        at = self.target(slot)
        if not at:
            return 0, 0
        count: int = read(_U32, self._data, at)
        if at + 4 + count * item_bytes > len(self._data):
            raise Malformed("a vector leaves the metadata")
        return at + 4, count

    def tables(self, slot: int, most: int) -> list[Table]:
        """The tables of the vector in `slot`, at most `most`."""
        start, count = self.vector(slot, 4)
        if count > most:
            raise Malformed(f"more than {most} entries in one vector")
        entries = range(start, start + 4 * count, 4)
        return [Table(self._data, at + read(_U32, self._data, at)) for at in entries]

    def string(self, slot: int) -> str:
        """The string in `slot`, which must be UTF-8; empty where it isn't there."""
        start, count = self.vector(slot, 1)
        try:
            return self._data[start : start + count].decode()
        except UnicodeDecodeError:
            raise Malformed("a name is no valid UTF-8") from None

    def position(self, slot: int, size: int) -> int:
        """Where the value of `slot` is; 0 for nowhere, which no value ever is."""
        if slot >= self._slots:
            return 0
        offset = read(_U16, self._data, self._vtable + 4 + 2 * slot)
        if not offset:
            return 0
        if offset < 4 or offset + size > self._size:
            raise Malformed("a field leaves its table")
        return self._at + offset


def root(data: bytes) -> Table:
    """The table that a flatbuffer begins with."""
    return Table(data, read(_U32, data, 0))


def read(form: Struct, data: bytes, at: int) -> int:
    """One number; `struct` alone would take a negative place as one from the end."""
    if at < 0 or at + form.size > len(data):
        raise Malformed("an offset leaves the metadata")
    return form.unpack_from(data, at)[0]
