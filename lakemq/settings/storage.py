"""The CommitLog on the local disk."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from lakemq.settings.section import GIB, HOUR_MS, KIB, MIB, Section


class Storage(Section):
    """The CommitLog on the local disk.

    `memory_survives`: whether written data survives the end of the process while the machine keeps running, flushed
    or not. Set it to false if the file system can lose data by itself, in user space or over a network: then every
    end that is not a clean stop counts as a loss (docs/log_format.md, "What is given once").

    `log_bytes_max`: the largest size of the log; 0: as large as the disk. `when_full`: what to do if the log is
    full and nothing can leave it, because the lake doesn't hold it: refuse new messages, or delete the oldest for
    good. `cut_bytes_max`: how much to keep of what is cut off a follower's log because its primary lacks it; 0:
    nothing.
    """

    data_dir: Path = Path("data")
    """The folder of the log, the parts of sinks, and the administrator's token."""
    segment_bytes: int = Field(default=GIB, ge=MIB, le=64 * GIB)
    """The size of a segment of the log; the log is deleted by whole segments."""
    frame_bytes_max: int = Field(default=160 * MIB, ge=MIB, le=GIB)
    """The largest frame of the log: at least twice `gateway.request_bytes_max`."""
    flush: Literal["async", "sync"] = "async"
    """`sync`: every produce request is answered once it is on disk; `async`: only those with `ack=sync`."""
    flush_interval_ms: int = Field(default=500, ge=1, le=60_000)
    """Written data is on disk after this time at the latest."""
    flush_bytes: int = Field(default=16 * MIB, ge=KIB)
    """Or as soon as this much is written."""
    dirty_bytes_max: int = Field(default=256 * MIB, ge=MIB)
    """While more than this is written and not yet on disk, producers wait."""
    verify_ms: int = Field(default=250, ge=0)
    """How long a start checks the log, newest segment first; the rest is checked when it is read."""
    memory_survives: bool = True
    snapshot_bytes: int = Field(default=64 * MIB, ge=KIB)
    """Topics, groups and delays are saved beside the log each time it has grown by this much; a start reads the
    rest."""
    snapshot_interval_ms: int = Field(default=30_000, ge=100)
    """But not more often than this."""
    retention_ms: int = Field(default=72 * HOUR_MS, ge=0)
    """A segment is deleted when everything in it is older than this, and in the lake."""
    compacted_grace_ms: int = Field(default=300_000, ge=0, le=24 * HOUR_MS)
    """And has been in the lake, on disk, for this long."""
    clock_confirm_ms: int = Field(default=HOUR_MS, ge=0, le=24 * HOUR_MS)
    """After the clock has jumped ahead, nothing is deleted by age until the clock has kept the new time for this
    long."""
    disk_high_ratio: float = Field(default=0.85, gt=0, le=1)
    """When the disk is fuller than this, segments that the lake holds are deleted early."""
    free_bytes_min: int = Field(default=16 * MIB, ge=0)
    """How much of the disk stays free; beyond that, `when_full` applies."""
    log_bytes_max: int = Field(default=0, ge=0)
    when_full: Literal["refuse", "drop_oldest"] = "refuse"
    cut_bytes_max: int = Field(default=GIB, ge=0)
    compression: Literal["none", "lz4", "zstd"] = "lz4"
    """The compression of bulk frames; single messages are stored uncompressed."""
    compression_body_bytes_min: int = Field(default=4 * KIB, ge=0)
    """Bodies of fewer bytes, on average, are not compressed."""
    cache_bytes: int = Field(default=32 * MIB, ge=0)
    """How much of the newest data is kept in memory for pulls."""
