"""Every truncation and every bit flip of a log of 64 KiB.

`python -m tests.storage.damage` does all of them; `make crash` does, too, and goes on where its last run ended.
None may be served for what was written, nor may what the mark says is on disk be passed over.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from lakemq.model.errors import LogDamaged
from lakemq.storage.disk.files import Files
from lakemq.storage.log.flush_mark import NAME
from lakemq.storage.log.recovery import recover
from lakemq.storage.segment.frame import KIND_MESSAGES
from lakemq.storage.segment.scan import scan
from tests.storage.harness import LogHarness
from tests.storage.ledger import Broken

LOG_BYTES = 64 * 1024
CASES = LOG_BYTES + LOG_BYTES * 8
SIZES = (10, 100, 1_000, 9_000, 9_000, 9_000)

FrameKey = tuple[int, int, bytes]


class Damaged:
    """A log whose only segment is damaged again and again. `is_flushed`: its mark says that all is on disk."""

    def __init__(self, folder: Path, is_flushed: bool) -> None:
        self._folder = folder
        self._is_flushed = is_flushed
        chance = random.Random(1)
        harness = LogHarness(folder, compression="none").open()
        harness.put_topic("a")
        while (rest := LOG_BYTES - harness.active.size) > 2 * max(SIZES):
            harness.append("a", chance.randrange(4), chance.randbytes(chance.choice(SIZES)))
        before = harness.active.size
        harness.append("a", 0, bytes(8))
        harness.append("a", 0, chance.randbytes(rest - 2 * (harness.active.size - before) + 8))
        assert harness.active.size == LOG_BYTES, harness.active.size
        harness.flush()
        harness.crash()
        (self._path,) = harness.segment_paths()
        self.content = self._path.read_bytes()
        self._mark = (harness.directory / NAME).read_bytes()
        self._mark_path = harness.directory / NAME
        self._directory = harness.directory
        for path in harness.directory.glob("*.idx"):
            path.unlink()
        self.frames = self._frames(self._recover(self.content))

    def _recover(self, content: bytes) -> list[FrameKey] | None:
        """The frames that a start finds, or None when it refuses."""
        self._path.write_bytes(content)
        self._mark_path.unlink(missing_ok=True)
        if self._is_flushed:
            self._mark_path.write_bytes(self._mark)
        for path in self._directory.glob("*.torn-*"):
            path.unlink()
        try:
            found = recover(Files(), self._directory, 10_000)
        except LogDamaged:
            return None
        segments = found.segments
        frames = [
            (meta.first_position, meta.count, bytes(payload) if meta.kind == KIND_MESSAGES else b"")
            for segment in segments
            for _, meta, payload in scan(segment, 0, segment.size)
        ]
        for segment in segments:
            segment.close()
        return frames

    @staticmethod
    def _frames(frames: list[FrameKey] | None) -> list[FrameKey]:
        assert frames is not None
        return frames

    def truncate(self, size: int) -> None:
        """Cut the log there; raises `Broken` when anything is served but what was written, from the front."""
        self._check(self._recover(self.content[:size]), f"truncated at {size}", size == len(self.content))

    def flip(self, bit: int) -> None:
        """Flip one bit of it; raises `Broken` likewise."""
        content = bytearray(self.content)
        content[bit // 8] ^= 1 << bit % 8
        self._check(self._recover(bytes(content)), f"bit {bit} flipped", False)

    def _check(self, frames: list[FrameKey] | None, what: str, is_whole: bool) -> None:
        if frames is None:
            if is_whole:
                raise Broken(f"{what}: refused")
            return
        if frames != self.frames[: len(frames)]:
            raise Broken(f"{what}: what is served was never written")
        if self._is_flushed and not is_whole:
            raise Broken(f"{what}: {len(self.frames) - len(frames)} flushed frames are lost in silence")


class Both:
    """The log as one of which nobody knows what was on disk, and as one whose mark says that all was. Its cases
    are numbered: first its truncations, then its flips."""

    def __init__(self, folder: Path) -> None:
        self._logs = [Damaged(folder / str(is_flushed), is_flushed) for is_flushed in (False, True)]
        self.cases = CASES

    def run(self, case: int) -> list[str]:
        """What one case breaks."""
        broken: list[str] = []
        for log in self._logs:
            try:
                log.truncate(case) if case < LOG_BYTES else log.flip(case - LOG_BYTES)
            except Broken as error:
                broken.append(str(error))
        return broken


def run(begin: int, seconds: float) -> tuple[Counter[str], list[str]]:
    """The cases from that one on, for so long: how many of which kind, and what they broke."""
    counts: Counter[str] = Counter()
    found: list[str] = []
    memory = Path("/dev/shm")
    logging.disable(logging.ERROR)
    try:
        with tempfile.TemporaryDirectory(prefix="lakemq-damage-", dir=memory if memory.is_dir() else None) as folder:
            both = Both(Path(folder))
            end = time.monotonic() + seconds
            for case in range(begin, CASES):
                found += both.run(case)
                counts["truncations" if case < LOG_BYTES else "flips"] += 1
                if time.monotonic() > end:
                    break
    finally:
        logging.disable(logging.NOTSET)
    return counts, found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.storage.damage", description=__doc__)
    parser.add_argument("--begin", type=int, default=0, help=f"the first case, of {CASES}")
    parser.add_argument("--seconds", type=float, default=86_400.0)
    arguments = parser.parse_args()
    counts, found = run(arguments.begin, arguments.seconds)
    sys.stdout.write(f"{dict(counts)} from {arguments.begin} on\n" + "".join(f"  {each}\n" for each in found[:10]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
