"""Every truncation and every bit flip of a log of 64 KiB.

`python -m tests.storage.damage --results FILE` does all of them, and goes on where an earlier run ended;
`--flushed` holds what the mark says is on disk against it. None may be served for what was written.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import tempfile
import time
from pathlib import Path

from lakemq.model.errors import LogDamaged
from lakemq.storage.files import Files
from lakemq.storage.flush_mark import NAME
from lakemq.storage.frame import KIND_MESSAGES
from lakemq.storage.recovery import recover
from lakemq.storage.scan import scan
from tests.storage.harness import LogHarness
from tests.storage.ledger import Broken

LOG_BYTES = 64 * 1024
BATCH = 8_192

FrameKey = tuple[int, int, bytes]


class Damaged:
    """A log whose only segment is damaged again and again. `is_flushed`: its mark says that all is on disk."""

    def __init__(self, folder: Path, is_flushed: bool) -> None:
        self._folder = folder
        self._is_flushed = is_flushed
        chance = random.Random(1)
        harness = LogHarness(folder).open()
        harness.put_topic("a")
        while harness.active.size < LOG_BYTES:
            rest = LOG_BYTES - harness.active.size
            harness.append("a", chance.randrange(4), chance.randbytes(min(chance.randrange(1, 3_000), rest)))
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


def run(folder: Path, is_flushed: bool, results: Path | None) -> int:
    """All truncations, then all flips; returns how many broke a promise."""
    damaged = Damaged(folder, is_flushed)
    name = "damage flushed" if is_flushed else "damage"
    size = len(damaged.content)
    begin, broken = _done(name, results), 0
    while begin < size * 9:
        end, found, begun = min(begin + BATCH, size * 9), list[str](), time.monotonic()
        for number in range(begin, end):
            try:
                damaged.truncate(number) if number < size else damaged.flip(number - size)
            except Broken as error:
                found.append(str(error))
        line: dict[str, object] = {"run": name, "begin": begin, "end": end, "of": size * 9, "broken": found}
        line["seconds"] = round(time.monotonic() - begun, 1)
        print(json.dumps(line), flush=True)  # noqa: T201  a command's output
        if results is not None:
            with results.open("a") as file:
                file.write(json.dumps(line) + "\n")
        begin, broken = end, broken + len(found)
    return broken


def _done(name: str, results: Path | None) -> int:
    if results is None or not results.exists():
        return 0
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return max([line["end"] for line in lines if line["run"] == name], default=0)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flushed", action="store_true")
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    logging.disable(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="lakemq-damage-") as folder:
        return 1 if run(Path(folder), arguments.flushed, arguments.results) else 0


if __name__ == "__main__":
    sys.exit(main())
