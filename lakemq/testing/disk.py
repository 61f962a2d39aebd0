"""What a disk may hold after its power was cut: a model of files and folders, pure.

What was synced is there. Of what was not, anything that ext4 or XFS may have brought to disk by then:
data by pages, in any order, and torn inside a page at any byte; a file's length before or after its
data; changes of folders each whole or not at all, in any order that their names allow.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

PAGE_BYTES = 4096


class Write(NamedTuple):
    """Bytes that were written at an offset."""

    offset: int
    data: bytes


class Cut(NamedTuple):
    """The file was cut, or grown with zeros, to a size."""

    size: int


@dataclass
class File:
    """One file: what is on disk for certain, and what was done to it since, in order. `size` is what
    the process sees."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write | Cut] = field(default_factory=list[Write | Cut])
    size: int = 0

    def do(self, change: Write | Cut) -> None:
        """Change the file, in memory only."""
        self.pending.append(change)
        self.size = change.size if isinstance(change, Cut) else max(self.size, change.offset + len(change.data))

    def sync(self) -> None:
        """All changes are on disk."""
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

    def lose(self) -> None:
        """A sync has failed: the changes will never be on disk, whatever is synced later."""
        self.pending.clear()

    def after_cut(self, chance: random.Random) -> bytes:
        """What of it is on disk, as chance has it."""
        if not self.pending:
            return bytes(self.durable)
        kept = chance.choice((0, len(self.pending), chance.randrange(len(self.pending) + 1), None))
        if kept is None:
            return self._reordered(chance)
        content = bytearray(self.durable)
        for change in self.pending[:kept]:
            _apply(content, change)
        if kept < len(self.pending) and chance.random() < 0.5:
            _apply(content, _torn(self.pending[kept], chance))
        return bytes(content)

    def _reordered(self, chance: random.Random) -> bytes:
        """Each page as it was after any of the changes, the size as it was after another."""
        sizes = [len(self.durable)]
        for change in self.pending:
            sizes.append(change.size if isinstance(change, Cut) else max(sizes[-1], change.offset + len(change.data)))
        size = chance.choice(sizes)
        if chance.random() < 0.5:
            size = chance.randint(min(size, sizes[-1]), max(size, sizes[-1]))
        pages = [self._page(number, chance) for number in range(-(-size // PAGE_BYTES))]
        return b"".join(pages)[:size]

    def _page(self, number: int, chance: random.Random) -> bytes:
        begin, end = number * PAGE_BYTES, (number + 1) * PAGE_BYTES
        page = bytes(self.durable[begin:end]).ljust(PAGE_BYTES, b"\0")
        versions = [page]
        for change in self.pending:
            changed = _apply_to_page(versions[-1], begin, change)
            if changed != versions[-1]:
                versions.append(changed)
        at = chance.randrange(len(versions))
        if at + 1 < len(versions) and chance.random() < 0.3:
            torn = chance.randrange(PAGE_BYTES)
            return versions[at + 1][:torn] + versions[at][torn:]
        return versions[at]


def _apply(content: bytearray, change: Write | Cut) -> None:
    if isinstance(change, Cut):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
        return
    if change.offset > len(content):
        content.extend(bytes(change.offset - len(content)))
    content[change.offset : change.offset + len(change.data)] = change.data


def _apply_to_page(page: bytes, begin: int, change: Write | Cut) -> bytes:
    if isinstance(change, Cut):
        return page[: max(change.size - begin, 0)].ljust(PAGE_BYTES, b"\0")
    first, last = max(change.offset - begin, 0), min(change.offset + len(change.data) - begin, PAGE_BYTES)
    if first >= last:
        return page
    at = begin - change.offset
    return page[:first] + change.data[first + at : last + at] + page[last:]


def _torn(change: Write | Cut, chance: random.Random) -> Write | Cut:
    if isinstance(change, Cut):
        return change
    return Write(change.offset, change.data[: chance.randrange(len(change.data) + 1)])


class Entry(NamedTuple):
    """A change of a folder's entries, atomic: `gone` has no entry after it, and `path` is one of `file`
    (None: a folder's). Either may be missing."""

    gone: Path | None
    path: Path | None
    file: File | None

    @property
    def names(self) -> set[Path]:
        """The names that it changes."""
        return {name for name in (self.gone, self.path) if name is not None}

    @property
    def folder(self) -> Path:
        """The folder whose sync brings it to disk."""
        changed = self.path or self.gone
        assert changed is not None
        return changed.parent


class Disk:
    """Files and folders by name: as the process sees them, and as they are on disk for certain."""

    def __init__(self) -> None:
        self.seen: dict[Path, File | None] = {}
        self._durable: dict[Path, File | None] = {}
        self._pending: list[Entry] = []

    def settle(self, content: dict[Path, bytes | None]) -> None:
        """Let all this be on disk, and nothing else; None is a folder."""
        self.seen = {
            path: None if data is None else File(bytearray(data), [], len(data)) for path, data in content.items()
        }
        self._durable, self._pending = dict(self.seen), []

    def do(self, entry: Entry) -> None:
        """Change a folder, in memory only."""
        self._pending.append(entry)
        _enter(self.seen, entry)

    def sync_folder(self, folder: Path) -> None:
        """All changes of the folder's entries are on disk."""
        for entry in self._pending:
            if entry.folder == folder:
                _enter(self._durable, entry)
        self._pending = [entry for entry in self._pending if entry.folder != folder]

    def after_cut(self, chance: random.Random) -> dict[Path, bytes | None]:
        """What is on disk, as chance has it."""
        names = dict(self._durable)
        for entry in self._kept(chance):
            _enter(names, entry)
        whole = {path: file for path, file in names.items() if _is_reachable(path, names, self._root)}
        return {path: None if file is None else file.after_cut(chance) for path, file in sorted(whole.items())}

    @property
    def _root(self) -> Path:
        return min(self.seen, key=lambda path: len(path.parts))

    def _kept(self, chance: random.Random) -> list[Entry]:
        """Some of the pending changes: none whose names an earlier one changed that isn't kept."""
        count = len(self._pending)
        kept = chance.choice((0, count, chance.randrange(count + 1), None))
        if kept is not None:
            return self._pending[:kept]
        lost: set[Path] = set()
        some: list[Entry] = []
        for entry in self._pending:
            if entry.names & lost or chance.random() < 0.5:
                lost |= entry.names
            else:
                some.append(entry)
        return some


def _enter(names: dict[Path, File | None], entry: Entry) -> None:
    if entry.gone is not None:
        names.pop(entry.gone, None)
    if entry.path is not None:
        names[entry.path] = entry.file


def _is_reachable(path: Path, names: dict[Path, File | None], root: Path) -> bool:
    while path != root:
        if path not in names:
            return False
        path = path.parent
    return True
