"""How a broker's replicas keep its log."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from lakemq.settings.section import HOUR_MS, Section


class Replication(Section):
    """When a write counts as replicated (docs/fleet.md, "Synchronous replication").

    `ack`: with `sync`, each write is answered, and visible to consumers, when it is on the disks of all replicas in
    sync; with `async`, only requests with `ack=sync` wait for that. `min_in_sync`: with fewer replicas in sync,
    including the primary, nothing is written. A replica that is silent for `silent_ms`, or that far behind the
    primary, is no longer in sync. `confirm_ms_max`: how long a request waits for the replicas; then the answer says
    that its messages may be stored. `far_behind_bytes`: a consumer that has more of the log than this before it is
    sent to a follower in sync, and reads there until it has caught up; 0: all read at the leader.
    """

    ack: Literal["async", "sync"] = "async"
    min_in_sync: int = Field(default=1, ge=1, le=256)
    silent_ms: int = Field(default=3_000, ge=200, le=HOUR_MS)
    confirm_ms_max: int = Field(default=12_000, ge=1, le=2 * HOUR_MS)
    far_behind_bytes: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _outlasts_a_member(self) -> Replication:
        if self.confirm_ms_max <= self.silent_ms:
            raise ValueError(
                f"replication.confirm_ms_max is {self.confirm_ms_max}, not above replication.silent_ms: requests would"
                " end before an absent follower is removed from those in sync"
            )
        return self
