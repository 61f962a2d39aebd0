"""The newest frames, still in memory: who reads the log's tail touches no file."""

from __future__ import annotations

from collections import OrderedDict

from lakemq.storage.segment import Frame

FrameKey = tuple[int, int]
"""`(the segment's base position, the frame's byte offset in it)`."""

_OVERHEAD_BYTES = 4096  # what a decoded frame's objects cost beside its buffers, measured


class FrameCache:
    """Frames by place, at most `bytes_max` of them together; the oldest leave first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._frames: OrderedDict[FrameKey, Frame] = OrderedDict()

    def put(self, key: FrameKey, frame: Frame) -> None:
        """Keep the frame; one that is larger than the cache isn't kept."""
        size = _size(frame)
        if size > self._bytes_max or key in self._frames:
            return
        self._frames[key] = frame
        self._bytes += size
        while self._bytes > self._bytes_max:
            _, oldest = self._frames.popitem(last=False)
            self._bytes -= _size(oldest)

    def get(self, key: FrameKey) -> Frame | None:
        """The frame, or None."""
        return self._frames.get(key)


def _size(frame: Frame) -> int:
    """What the frame takes of memory: where it is compressed, that is far more than of the disk."""
    return max(frame.meta.frame_bytes, frame.batch.nbytes) + _OVERHEAD_BYTES
