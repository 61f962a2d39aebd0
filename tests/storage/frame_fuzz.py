"""Feed the log's decoder, scan and recovery frames that nobody wrote.

`python -m tests.storage.frame_fuzz --seconds N --seed S` mutates sound frames: bits flipped, numbers replaced,
parts cut, moved, doubled or taken from another frame. In half of them the checksums are then made right again, so
that what they say is looked at, too. What is accepted with its checksums untouched must be what was written;
everything else must be refused by the errors that are there for it. Some are put into a log, which a start then
scans, cuts or refuses.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from crc32c import crc32c

from lakemq.model.errors import LogDamaged
from lakemq.storage.disk.files import Files
from lakemq.storage.log.appends import Key
from lakemq.storage.log.recovery import recover
from lakemq.storage.segment.content import decode_content
from lakemq.storage.segment.frame import (
    HEADER_BYTES,
    KIND_MESSAGES,
    NUMBER_MAX,
    FrameError,
    Meta,
    decode_meta,
    open_payload,
)
from lakemq.storage.segment.mask import MAGIC
from lakemq.storage.segment.scan import scan
from lakemq.storage.segment.segment import Segment, segment_path
from tests.gateway.decode.fuzz import MUTATIONS
from tests.reliability.rounds import Round, main
from tests.storage.harness import LogHarness

MEMORY_BYTES_MAX = 64 * 1024 * 1024
RECOVERED_EACH = 50
"""One in so many is put into a log."""
_CRC = struct.Struct("<I")
_LENGTHS = struct.Struct("<QI")
_PAYLOAD_CRC = struct.Struct("<I")
_CRC_AT, _LENGTHS_AT, _PAYLOAD_CRC_AT = 8, 16, 28


def sound_frames(folder: Path) -> list[bytes]:
    """Frames of a real log, in their order: its state, topics, one queue and several, long and short, with a key
    of idempotence, and one that is stored under a mask."""
    harness = LogHarness(folder).open()
    harness.put_topic("a", 3)
    harness.append("a", 0, b"")
    harness.append("a", 1, b"short", key=Key("a", "name"))
    harness.run(harness.begin_append("a", [0, 1, 2, 1], [b"one", b"two" * 20, b"", b"four"]))
    harness.append_batch("a", [(2, [b"x" * 100] * 3), (0, [b"y"])])
    harness.append("a", 2, MAGIC * 3 + b"a body that would begin a frame")
    harness.append("a", 0, Random(1).randbytes(1_500))
    harness.put_topic("b", 1)
    harness.delete_topic("b")
    segment = harness.active
    frames = [segment.read(at, meta.frame_bytes) for at, meta, _ in scan(segment, 0, segment.size)]
    harness.crash()
    return frames


def mutate(random: Random, frame: bytes, others: list[bytes]) -> tuple[bytes, bool]:
    """`frame` with one to four faults; and whether its checksums were made right again."""
    content = bytearray(frame)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        if random.random() < 0.5:  # most of what is checked stands in the first bytes
            head = content[:HEADER_BYTES]
            random.choice(MUTATIONS)(random, head, frame)
            content[: min(HEADER_BYTES, len(content))] = head
        else:
            random.choice(MUTATIONS)(random, content, random.choice(others))
    if random.random() < 0.5:
        return bytes(content), False
    return bytes(_make_right(random, content)), True


def _make_right(random: Random, content: bytearray) -> bytearray:
    """The same with lengths and checksums that a writer would have given it, as far as there is room for them."""
    if len(content) < HEADER_BYTES:
        return content
    content[:8] = MAGIC
    frame_bytes, meta_bytes = _LENGTHS.unpack_from(content, _LENGTHS_AT)
    if not (HEADER_BYTES <= meta_bytes <= len(content)) or random.random() < 0.2:
        meta_bytes = random.choice((HEADER_BYTES, HEADER_BYTES + 8, HEADER_BYTES + 24, len(content) & ~7))
        meta_bytes = min(meta_bytes, len(content) & ~7)
    if frame_bytes != len(content) and random.random() < 0.9:
        del content[len(content) & ~7 :]
        frame_bytes = len(content)
    _LENGTHS.pack_into(content, _LENGTHS_AT, frame_bytes, meta_bytes)
    view = memoryview(content)
    _PAYLOAD_CRC.pack_into(content, _PAYLOAD_CRC_AT, crc32c(view[meta_bytes:]))
    _CRC.pack_into(content, _CRC_AT, crc32c(view[_CRC_AT + 4 : meta_bytes]))
    return content


class Fuzz:
    """The rounds of a seed. `folder` is for logs."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._seed = seed
        self._frames = sound_frames(folder / "sound")
        metas = [decode_meta(frame) for frame in self._frames]
        self._contents = {
            (meta.columns, meta.mask, frame[meta.meta_bytes :]) for meta, frame in zip(metas, self._frames, strict=True)
        }
        self._directory = folder / "fuzzed" / "commitlog"
        self._directory.mkdir(parents=True)
        self._path = segment_path(self._directory, 0)

    def round(self, number: int) -> bool:
        """One mutated frame; whether it was taken for one."""
        random = Random(f"{self._seed}:{number}")
        at = random.randrange(len(self._frames))
        frame, is_right = mutate(random, self._frames[at], self._frames)
        meta = self._decode(frame, is_right)
        if number % RECOVERED_EACH == 0 and (meta is None or self._is_safe(meta, frame)):
            self._recover([*self._frames[:at], frame, *self._frames[at + 1 :]])
        return meta is not None

    def _decode(self, frame: bytes, is_right: bool) -> Meta | None:
        try:
            meta = decode_meta(frame)
            payload = open_payload(meta, memoryview(frame)[meta.meta_bytes : meta.frame_bytes])
            if meta.kind == KIND_MESSAGES:
                decode_content(meta, payload)
        except FrameError:
            return None
        check_meta(meta, len(frame))
        if not is_right and frame[: meta.frame_bytes] not in self._frames:
            raise AssertionError("a frame was accepted that nobody wrote")
        return meta

    def _is_safe(self, meta: Meta, frame: bytes) -> bool:
        """Whether Arrow may be asked for the values: a payload whose checksum is right is what a lakemq wrote,
        and isn't looked through again."""
        content = meta.columns, meta.mask, frame[meta.meta_bytes : meta.frame_bytes]
        return meta.kind != KIND_MESSAGES or content in self._contents

    def _recover(self, frames: list[bytes]) -> None:
        self._path.write_bytes(b"".join(frames))
        try:
            found = recover(Files(), self._directory, 10_000)
        except LogDamaged:
            return
        finally:
            for path in self._directory.glob(f"{self._path.stem}.[!l]*"):
                path.unlink()
        for segment in found.segments:
            self._check_recovered(segment)
            segment.close()

    def _check_recovered(self, segment: Segment) -> None:
        """What a start goes on with is sound from the first byte to the last, and has each position once."""
        position = segment.base_position
        for _, meta, _ in scan(segment, 0, segment.size):
            check_meta(meta, segment.size)
            if meta.first_position != position:
                raise AssertionError(f"position {meta.first_position} follows {position}")
            position += meta.count
        if position != segment.end_position:
            raise AssertionError(f"the segment ends at {position}, not at {segment.end_position}")


def check_meta(meta: Meta, size: int) -> None:
    """What a header says that was accepted is possible."""
    if not HEADER_BYTES <= meta.meta_bytes <= meta.frame_bytes <= size:
        raise AssertionError(f"lengths that can't be: {meta}")
    if max(meta.first_position + meta.count, meta.store_time_ms) > NUMBER_MAX:
        raise AssertionError(f"numbers that can't be: {meta}")
    if meta.kind == KIND_MESSAGES and sum(run.count for run in meta.runs) != meta.count:
        raise AssertionError(f"runs that don't add up: {meta}")


@contextmanager
def rounds(seed: int) -> Generator[Round]:
    """The rounds of that seed."""
    logging.disable(logging.ERROR)
    memory = Path("/dev/shm")
    try:
        with TemporaryDirectory(prefix="lakemq-frames-", dir=memory if memory.is_dir() else None) as folder:
            yield Fuzz(seed, Path(folder)).round
    finally:
        logging.disable(logging.NOTSET)


if __name__ == "__main__":
    raise SystemExit(main("tests.storage.frame_fuzz", __doc__ or "", rounds, MEMORY_BYTES_MAX))
