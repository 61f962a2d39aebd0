"""What an earlier process wrote and never flushed, or failed to: it is brought to disk, and not believed to
be there because it can be read.

After a failed fsync Linux calls the pages clean: they can be read until memory is short, a further fsync
succeeds, and the disk never gets them. Nobody may have been told of the failure, as when the process was
killed before its next fsync. So all that stands above the mark is written once more, unless the machine
has started since: then what is read comes from the disk.
"""

from __future__ import annotations

from crc32c import crc32c

from lakemq.storage.disk.files import Files
from lakemq.storage.log.flush_mark import NO_MARK, Mark
from lakemq.storage.segment.scan import CHUNK_BYTES
from lakemq.storage.segment.segment import Segment


def has_restarted(files: Files, mark: Mark) -> bool:
    """Whether the machine has started since the mark was written, for certain: its memory holds nothing
    from before."""
    return mark != NO_MARK and mark.boot != files.boot_id()


def bring_to_disk(files: Files, segment: Segment, mark: Mark) -> None:
    """Return when all of the segment is on disk for certain, and the names of all; raises `OSError`."""
    files.sync_dir(segment.path.parent)
    if has_restarted(files, mark):
        files.sync(segment.open())
        return
    flushed = mark.size if mark.base_position == segment.base_position else 0
    descriptor = files.open_update(segment.path)
    try:
        written: list[int] = []
        for at in range(flushed, segment.size, CHUNK_BYTES):
            data = files.read(descriptor, min(CHUNK_BYTES, segment.size - at), at)
            files.write_at(descriptor, data, at)
            written.append(crc32c(data))
        files.sync(descriptor)
        files.forget_cached(descriptor)
        for at, checksum in zip(range(flushed, segment.size, CHUNK_BYTES), written, strict=True):
            if crc32c(files.read(descriptor, min(CHUNK_BYTES, segment.size - at), at)) != checksum:
                raise OSError(f"the disk does not hold what was written to {segment.path} from byte {at} on")
    finally:
        files.close(descriptor)
