"""Logs to be cut, for tests: with frames of several messages, segments, epochs; and what each was at each of its
frames' ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from lakemq.storage.log.appends import Key
from lakemq.storage.log.followed_log import FollowedLog
from lakemq.storage.log.positions import WRITTEN
from tests.storage.harness import LogHarness

QUEUES = 3


class Was(NamedTuple):
    """A log at a frame's end: its files of segments, its state, its epochs."""

    files: dict[str, bytes]
    state: dict[str, Any]


def files_of(harness: LogHarness) -> dict[str, bytes]:
    """The segments, byte for byte."""
    return {path.name: path.read_bytes() for path in harness.segment_paths()}


def begin_segment(harness: LogHarness) -> None:
    """Begin a segment, and wait until the one before is sealed."""
    count = len(harness.log.segments)
    harness.log.begin_segment()
    while len(harness.log.segments) == count:
        harness.settle()
    harness.wait_until_sealed()


def make_log(harness: LogHarness, segments: int = 3, frames: int = 4) -> dict[int, Was]:
    """A log of small segments, open; what it was at each frame's end. A state alone at a segment's beginning is no
    end: who comes there has not got it."""
    harness.open()
    ends: dict[int, Was] = {0: _was(harness)}

    def note() -> None:
        ends[harness.log.next_position] = _was(harness)

    harness.put_topic("a", QUEUES)
    note()
    for number in range(segments):
        if number:
            begin_segment(harness)
        for count in range(frames):
            key = Key(f"key {number} {count}", "digest")
            harness.append("a", count % QUEUES, b"%d of %d" % (count, number), b"and more", key=key)
            note()
        harness.put_topic(f"late {number}".replace(" ", "-"), 2)
        note()
    harness.flush()
    return ends


def _was(harness: LogHarness) -> Was:
    return Was(files_of(harness), harness.log.state.dump())


def begin_epoch(harness: LogHarness) -> None:
    """Lose what isn't on disk, and start again: an epoch begins beyond it. Nothing is lost of it, in truth."""
    harness.crash()
    (harness.directory / WRITTEN).unlink()
    harness.files.boots += 1
    harness.open()


def open_as_follower(data_dir: Path, boots: int = 0) -> LogHarness:
    """Open the log there as one that follows another."""
    harness = LogHarness(data_dir)
    harness.kind = FollowedLog
    harness.files.boots = boots
    harness.open()
    return harness
