"""How a broker's replicas keep its log."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from lakemq.settings.section import HOUR_MS, Section


class Replication(Section):
    """What the primary promises of its followers (docs/fleet.md, "Synchronous replication").

    `ack`: `sync` answers each write when it is on disk at all replicas that are in sync, and shows consumers nothing
    before; with `async` only requests with `ack=sync` wait for that. `min_in_sync`: with fewer in sync, the primary
    counted, nothing is written. Who isn't heard of for `silent_ms`, or lacks what the primary had so long ago, is no
    longer in sync. `confirm_ms_max`: so long a request waits for the others, whose answer says then that its messages
    may be stored.
    """

    ack: Literal["async", "sync"] = "async"
    min_in_sync: int = Field(default=1, ge=1, le=256)
    silent_ms: int = Field(default=3_000, ge=200, le=HOUR_MS)
    confirm_ms_max: int = Field(default=12_000, ge=1, le=2 * HOUR_MS)

    @model_validator(mode="after")
    def _outlasts_a_member(self) -> Replication:
        if self.confirm_ms_max <= self.silent_ms:
            raise ValueError(
                f"replication.confirm_ms_max is {self.confirm_ms_max}, not above replication.silent_ms: requests would"
                " end before a follower that is away is let go"
            )
        return self
