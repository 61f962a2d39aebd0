"""The Spark jobs, and when those of maintenance run."""

from __future__ import annotations

from pydantic import Field, field_validator

from lakemq.model.keep import parse_keep
from lakemq.settings.section import HOUR_MS, MIB, Options, Section


class Maintenance(Section):
    """When each maintenance job runs, and its parameters (docs/maintenance.md).

    A schedule has a crontab's five fields, and a sixth for a time zone other than `timezone`; empty: only on
    request. `keep` says for each topic, or pattern of topics, how much the lake keeps.
    """

    timezone: str = "UTC"
    optimize: str = "47 2 * * *"
    """Merges small files into large ones."""
    vacuum: str = "17 3 * * *"
    """Removes files that no version of a table needs."""
    retention: str = "7 * * * *"
    """Deletes what `keep` does not keep."""
    checkpoint_cleanup: str = "37 * * * *"
    """Removes old checkpoints of Delta's log."""
    index_rebuild: str = ""
    """Rebuilds `consume_queue` and `message_index` from `messages`."""
    verify: str = "47 4 * * 0"
    """Compares log and tables."""
    stats: str = "27 */6 * * *"
    """Counts files, rows and bytes."""
    owed_erasures: str = "57 */6 * * *"
    """Erases what an erasure couldn't erase in the logs of brokers that were away, and are back."""
    keep: Options = Field(default_factory=dict)
    attempts_max: int = Field(default=3, ge=1, le=10)
    """How often a failing job is tried."""
    retry_pause_ms: int = Field(default=5_000, ge=0, le=HOUR_MS)
    """The pause after the first attempt; after the second it is twice as long, and so on."""
    small_file_bytes: int = Field(default=64 * MIB, ge=1)
    """Files below this size count as small."""
    small_files_min: int = Field(default=64, ge=2)
    """A table with fewer small files is left as it is."""
    verify_rows: int = Field(default=2_000_000, ge=1)
    """How many rows are compared at a time."""
    verify_bodies: bool = True
    """Whether bodies are compared too."""
    runs_retention_ms: int = Field(default=90 * 24 * HOUR_MS, ge=HOUR_MS)
    """How long the history of runs is kept."""
    metrics_host: str = "127.0.0.1"
    """Where the jobs' metrics are served."""
    metrics_port: int = Field(default=0, ge=0, le=65535)
    """0: nowhere."""

    @field_validator("keep")
    @classmethod
    def _keep(cls, value: dict[str, str]) -> dict[str, str]:
        for text in value.values():
            parse_keep(text)
        return value


class Spark(Section):
    """The session that `lakemq jobs` and `lakemq sql` start; `conf` is passed to Spark. The jobs run with
    `niceness`: they can wait, a gateway on the same machine can't.
    """

    master: str = "local[2]"
    """Where Spark runs: `local[2]` is two threads of the jobs' own process."""
    driver_memory: str = "2g"
    """The heap of the jobs' Java."""
    niceness: int = Field(default=10, ge=0, le=19)
    conf: Options = Field(default_factory=dict, repr=False)
