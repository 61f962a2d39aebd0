"""The CommitLog on the local disk."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from lakemq.settings.section import GIB, HOUR_MS, KIB, MIB, Section


class Storage(Section):
    """The CommitLog on the local disk.

    `memory_survives`: what was written outlives the process for as long as the machine runs, on disk or
    not. False where the data's file system can lose it alone, in user space or over a network: then
    every end that is no clean stop counts as a loss (docs/log_format.md, "What is given once").

    `log_bytes_max`: so large the log may be; 0: as large as the disk. `when_full`: what becomes of messages where
    nothing can leave the log, as the lake doesn't hold it: new ones are refused, or the oldest go for good.

    `cut_bytes_max`: so much is kept of what was cut off a follower's log, as its primary lacks it; 0: nothing.
    """

    data_dir: Path = Path("data")
    """The folder of the log, of parts of sinks and of the administrator's token."""
    segment_bytes: int = Field(default=GIB, ge=MIB, le=64 * GIB)
    """A segment of the log is so large; the log lets go of whole segments."""
    frame_bytes_max: int = Field(default=160 * MIB, ge=MIB, le=GIB)
    """A frame of the log may be so large: twice `gateway.request_bytes_max` at least."""
    flush: Literal["async", "sync"] = "async"
    """`sync`: every produce is answered once it is on disk; `async`: only one that asks for that by `ack=sync`."""
    flush_interval_ms: int = Field(default=500, ge=1, le=60_000)
    """What was written is on disk so soon at the latest."""
    flush_bytes: int = Field(default=16 * MIB, ge=KIB)
    """Or as soon as so much was written."""
    dirty_bytes_max: int = Field(default=256 * MIB, ge=MIB)
    """While more than that is written and not on disk, producing waits."""
    verify_ms: int = Field(default=250, ge=0)
    """A start checks the log for so long, newest segment first; what isn't checked then is when it is read."""
    memory_survives: bool = True
    snapshot_bytes: int = Field(default=64 * MIB, ge=KIB)
    """What the log says of topics, groups and delays is kept beside it, anew after so much: a start reads the rest."""
    snapshot_interval_ms: int = Field(default=30_000, ge=100)
    """But not more often."""
    retention_ms: int = Field(default=72 * HOUR_MS, ge=0)
    """A segment leaves when all in it is older, and the lake holds it."""
    compacted_grace_ms: int = Field(default=300_000, ge=0, le=24 * HOUR_MS)
    """And has held it, on disk, for so long."""
    clock_confirm_ms: int = Field(default=HOUR_MS, ge=0, le=24 * HOUR_MS)
    """A clock that jumped ahead deletes nothing until it has stayed there for so long."""
    disk_high_ratio: float = Field(default=0.85, gt=0, le=1)
    """When the disk is fuller than that, what the lake holds leaves before its time."""
    free_bytes_min: int = Field(default=16 * MIB, ge=0)
    """So much of the disk stays free; then `when_full` says what becomes of new messages."""
    log_bytes_max: int = Field(default=0, ge=0)
    when_full: Literal["refuse", "drop_oldest"] = "refuse"
    cut_bytes_max: int = Field(default=GIB, ge=0)
    compression: Literal["none", "lz4", "zstd"] = "lz4"
    """Of frames of bulk; what comes one by one is stored as it is."""
    compression_body_bytes_min: int = Field(default=4 * KIB, ge=0)
    """Bodies of fewer bytes, on average, are not compressed."""
    cache_bytes: int = Field(default=32 * MIB, ge=0)
    """So much of what was written last is kept in memory for who pulls it."""
