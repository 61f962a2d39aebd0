"""Parts that wait for their commit: files beside the log, each written whole and on disk, or not there.

A file is a line with a checksum and JSON, spaces to 64 bytes, and an Arrow stream with one batch, which was
checked in full when it came. Its name, `{data_dir}/sinks/{token}.part`, is never used again: so what is being
removed is never what has just been staged.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from crc32c import crc32c

from lakemq.storage.disk.files import Files

logger = logging.getLogger(__name__)

SUFFIX = ".part"
ASIDE = ".offered"
"""Of another replica's part that is about to be committed."""
ALIGNMENT = 64
HEADER_BYTES_MAX = 8_192
_TOKEN = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Part:
    """A staged part. `group`: the consumer group that alone gets it, or None; `queues`: how many its topic must
    have; `later`: how many of its rows were to be delivered later as it came; `copies`: whether some
    say of which message they are one; `digest` is of what was sent.
    `token` names its file."""

    sink: str
    batch: int
    name: str
    topic: str
    group: str | None
    messages: int
    queues: int
    later: int
    copies: bool
    digest: int
    crc: int
    bytes: int
    staged_ms: int
    token: str = field(default_factory=lambda: uuid.uuid4().hex)


class BadPart(Exception):
    """A staged file is not there, or is not what was written."""


class Staging:
    """All staged parts of a broker. What touches a file is for a thread; the table of parts is the loop's."""

    def __init__(self, directory: Path, files: Files) -> None:
        self.directory = directory
        self._files = files
        self.unread: list[Path] = []
        """Files of parts, maybe, that could not be read."""
        self._parts: dict[str, dict[int, dict[str, Part]]] = {}
        self.count = 0
        self.bytes = 0

    # The table -------------------------------------------------------------------------------

    def find(self, sink: str, batch: int, name: str) -> Part | None:
        """The part, if it is staged."""
        return self._parts.get(sink, {}).get(batch, {}).get(name)

    def of(self, sink: str, batch: int) -> list[Part]:
        """All staged parts of a batch."""
        return list(self._parts.get(sink, {}).get(batch, {}).values())

    def of_sink(self, sink: str) -> list[Part]:
        """All staged parts of a sink."""
        return [part for parts in self._parts.get(sink, {}).values() for part in parts.values()]

    def all(self) -> list[Part]:
        """All that are staged."""
        return [part for sink in self._parts for part in self.of_sink(sink)]

    def enter(self, part: Part) -> None:
        """Note that the part is on disk."""
        self._parts.setdefault(part.sink, {}).setdefault(part.batch, {})[part.name] = part
        self.count += 1
        self.bytes += part.bytes

    def forget(self, part: Part) -> None:
        """Note that the part is about to leave."""
        batches = self._parts.get(part.sink, {})
        parts = batches.get(part.batch, {})
        if parts.pop(part.name, None) is not None:
            self.count -= 1
            self.bytes -= part.bytes
        if not parts:
            batches.pop(part.batch, None)
        if not batches:
            self._parts.pop(part.sink, None)

    # The files -------------------------------------------------------------------------------

    def _path(self, part: Part) -> Path:
        return self.directory / (part.token + SUFFIX)

    def write(self, part: Part, payload: pa.Buffer) -> None:
        """Bring a part to disk; raises `OSError`, with nothing there."""
        text = orjson.dumps(asdict(part))
        header = b"%08x %b" % (crc32c(text), text)
        header += b" " * (-(len(header) + 1) % ALIGNMENT) + b"\n"
        self._files.replace(self._path(part), [header, memoryview(payload)])

    def lacking(self, parts: list[Part]) -> list[Part]:
        """Those of the parts whose files aren't there, or are shorter. Raises `OSError` when that can't be seen
        now."""
        return [part for part in parts if not self._is_whole(part)]

    def _is_whole(self, part: Part) -> bool:
        try:
            return self._files.size_of(self._path(part)) >= part.bytes
        except FileNotFoundError:
            return False

    def read(self, part: Part) -> pa.RecordBatch:
        """A part's rows; raises `BadPart` when it is lost for good, and `OSError` when it can't be read now:
        there are too many open files, the disk has an error that may pass."""
        try:
            data = self._files.read_whole(self._path(part))
        except FileNotFoundError as error:
            raise BadPart(f"it is not there: {error}") from None
        payload = memoryview(data)[data.find(b"\n") + 1 :]
        if len(payload) != part.bytes or crc32c(payload) != part.crc:
            raise BadPart("it is damaged")
        with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
            return reader.read_next_batch()

    def remove(self, parts: list[Part]) -> None:
        """Remove the files of parts; what fails is left for the next start."""
        for part in parts:
            with suppress(OSError):
                self._files.remove(self._path(part))

    def load(self, committed: Container[str] = ()) -> None:
        """Find what an earlier process has staged. What it had half written goes; what can't be read now is
        `unread`, and stays. Where there are two of one part, the one whose token is `committed` is it. Raises
        `OSError`."""
        self._files.make_dirs(self.directory)
        self._files.sync_dir(self.directory.parent)
        names = self._files.names(self.directory)
        self._files.remove_ending(self.directory, (ASIDE, ASIDE + ".tmp"))
        self.unread = [self.directory / name for name in names if SUFFIX in name]
        self.unread.sort(key=lambda path: path.stem not in committed)
        for part in self.look_again():
            self.enter(part)

    # Of other replicas -----------------------------------------------------------------------

    def read_piece(self, token: str, begin: int, size: int) -> tuple[bytes, int]:
        """Up to `size` bytes of a part's file from `begin` on, and how many there are. In any thread; raises
        `OSError`."""
        if not _TOKEN.fullmatch(token):
            raise FileNotFoundError(token)
        descriptor = self._files.open_read(self.directory / (token + SUFFIX))
        try:
            return self._files.read(descriptor, size, begin), self._files.size(descriptor)
        finally:
            self._files.close(descriptor)

    def take(self, token: str, pieces: Iterable[bytes], aside: bool = False) -> Part:
        """Bring another replica's file of a part to disk, checked in full; `aside`: where it is no staged part yet. In
        any thread, of which one at a time takes it; raises `OSError`, `BadPart`."""
        if not _TOKEN.fullmatch(token):
            raise BadPart(f"{token[:100]!r} names no part")
        checked = _Checked(token, pieces)
        self._files.replace(self.directory / (token + (ASIDE if aside else SUFFIX)), checked)
        return checked.part

    def adopt(self, token: str) -> Part:
        """Let a part that was taken aside be staged, on disk. In any thread; raises `OSError`, `BadPart`."""
        path = self.directory / (token + SUFFIX)
        self._files.rename(path.with_suffix(ASIDE), path)
        self._files.sync_dir(self.directory)
        part = _read_header(self._files, path)
        if part is None:
            raise BadPart("it is damaged")
        return part

    def drop_aside(self, tokens: Iterable[str]) -> None:
        """Remove parts that were taken aside; what fails is left for the next start."""
        for token in tokens:
            with suppress(OSError):
                self._files.remove(self.directory / (token + ASIDE))

    def look_again(self) -> list[Part]:
        """The parts among what could not be read before: in a thread, and to be entered on the loop."""
        found: list[Part] = []
        names: set[tuple[str, int, str]] = set()
        unread: list[Path] = []
        for path in self.unread:
            try:
                part = _read_header(self._files, path) if path.suffix == SUFFIX else None
            except FileNotFoundError:
                continue
            except OSError as error:
                logger.warning("can't read the staged part %s now: %s", path, error)
                unread.append(path)
                continue
            known = part is not None and (_name(part) in names or self.find(*_name(part)) is not None)
            if part is None or self._path(part) != path or known:
                logger.warning("removed %s, which is no staged part", path)
                with suppress(OSError):
                    self._files.remove(path)
            else:
                found.append(part)
                names.add(_name(part))
        self.unread = unread
        return found


def _name(part: Part) -> tuple[str, int, str]:
    return part.sink, part.batch, part.name


def pack(batch: pa.RecordBatch) -> pa.Buffer:
    """A part's rows as they stand in its file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


class _Checked:
    """The pieces of a part's file, looked at as they go by: `part` is what they are, once all have. Raises `BadPart`
    after the last one where they aren't that part."""

    def __init__(self, token: str, pieces: Iterable[bytes]) -> None:
        self._token = token
        self._pieces = pieces
        self.part: Part

    def __iter__(self) -> Iterator[bytes]:
        head, size, crc = b"", 0, 0
        found: Part | None = None
        for piece in self._pieces:
            payload = piece
            if found is None:
                head += piece
                line, end, payload = head.partition(b"\n")
                found = _parse_header(line) if end else None
                if found is None and (end or len(head) >= HEADER_BYTES_MAX):
                    raise BadPart("it begins with no header of a part")
            if found is not None:
                size, crc = size + len(payload), crc32c(payload, crc)
            yield piece
        if found is None or (found.token, found.bytes, found.crc) != (self._token, size, crc):
            raise BadPart("it is damaged, or another one")
        self.part = found


def _read_header(files: Files, path: Path) -> Part | None:
    """What a file says of its part; None: it is none. Raises `OSError`."""
    line, _, _ = files.read_whole(path, HEADER_BYTES_MAX).partition(b"\n")
    return _parse_header(line)


def _parse_header(line: bytes) -> Part | None:
    try:
        crc, _, text = line.rstrip().partition(b" ")
        if int(crc, 16) != crc32c(text):
            return None
        fields: dict[str, Any] = orjson.loads(text)
        return Part(**fields)
    except (ValueError, TypeError):
        return None


def lost_part(sink: str, batch: int, name: str) -> Part:
    """Stands for a part whose file is gone: reading it says so."""
    return Part(sink, batch, name, "", None, 0, 0, 0, False, 0, 0, 0, 0)
