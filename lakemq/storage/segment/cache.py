"""The newest frames, still in memory: who reads the log's tail touches no file."""

from __future__ import annotations

from collections import OrderedDict

from lakemq.storage.segment.segment import Frame

FrameKey = tuple[int, int]
"""`(the segment's identity, the frame's byte offset in it)`."""

_OVERHEAD_BYTES = 4096  # what a decoded frame's objects cost beside its buffers, measured


class FrameCache:
    """Frames by place, at most `bytes_max` of them together; the oldest leave first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        # Each with its size: to find that out takes longer than the rest.
        self._frames: OrderedDict[FrameKey, tuple[Frame, int]] = OrderedDict()

    @property
    def memory_bytes(self) -> int:
        """What they take of memory, about."""
        return self._bytes

    def put(self, key: FrameKey, frame: Frame) -> None:
        """Keep the frame; one that is larger than the cache isn't kept."""
        if key in self._frames:
            return
        size = _size(frame)
        if size > self._bytes_max:
            return
        self._frames[key] = frame, size
        self._bytes += size
        while self._bytes > self._bytes_max:
            _, (_, oldest_bytes) = self._frames.popitem(last=False)
            self._bytes -= oldest_bytes

    def drop(self, identity: int) -> None:
        """Keep no frame of that segment."""
        for key in [key for key in self._frames if key[0] == identity]:
            _, size = self._frames.pop(key)
            self._bytes -= size

    def get(self, key: FrameKey) -> Frame | None:
        """The frame, or None."""
        found = self._frames.get(key)
        return None if found is None else found[0]


def _size(frame: Frame) -> int:
    """What the frame takes of memory: where it is compressed, that is far more than of the disk."""
    return max(frame.meta.frame_bytes, frame.content.memory_bytes) + _OVERHEAD_BYTES
