"""When what waits is due: delays, transactions, retries."""

from __future__ import annotations

from pydantic import Field, field_validator

from lakemq.model.delay import DELAY_MS_MAX, LEVELS_MS, parse_levels
from lakemq.settings.section import HOUR_MS, MIB, Section


class Routing(Section):
    """How decisions of the routing queries are carried out (docs/routing.md).

    `lead_ms`: how long before it is due a delay is decided; the gateway then holds it. 0: the gateway anticipates
    nothing, and the queries do everything. `trigger_ms` and `tick_ms` are for the queries: the shortest time
    between two batches, and between two batches that only carry the time. `grace_ms`: the gateway itself decides
    what no query has decided this long after it was due, and as it is due where its job isn't alive; -1: never.
    `clock_confirm_ms`: after the clock has jumped ahead, nothing becomes due by it until it has kept the new time for
    this long; 0: at once.
    """

    lead_ms: int = Field(default=10_000, ge=0, le=600_000)
    trigger_ms: int = Field(default=0, ge=0)
    tick_ms: int = Field(default=500, ge=10)
    grace_ms: int = Field(default=5_000, ge=-1, le=HOUR_MS)
    clock_confirm_ms: int = Field(default=60_000, ge=0, le=24 * HOUR_MS)


class Delay(Section):
    """Delayed messages. `levels[i]` is the delay of level i + 1, in ms."""

    levels: tuple[int, ...] = LEVELS_MS
    delay_ms_max: int = Field(default=366 * 24 * HOUR_MS, ge=1, le=DELAY_MS_MAX)
    """The longest delay."""
    waiting_max: int = Field(default=10_000_000, ge=1)
    """The most scheduled messages waiting."""

    @field_validator("levels", mode="before")
    @classmethod
    def _levels(cls, value: object) -> object:
        return parse_levels(value) if isinstance(value, str) else value


class Transactions(Section):
    """When a half message without an outcome is checked: first after `timeout_ms`, then every `check_interval_ms`,
    at most `check_max` times; a check that one client does not answer goes to another after `check_answer_ms`."""

    timeout_ms: int = Field(default=6_000, ge=1, le=24 * HOUR_MS)
    check_interval_ms: int = Field(default=60_000, ge=1, le=24 * HOUR_MS)
    check_max: int = Field(default=15, ge=1, le=1000)
    check_answer_ms: int = Field(default=5_000, ge=1)
    open_max: int = Field(default=1_000_000, ge=1)
    """The most open transactions."""
    halves_bytes_max: int = Field(default=32 * MIB, ge=0)
    """How much of half messages is kept in memory for their commit."""


class Retry(Section):
    """Messages that a consumer could not process."""

    max_reconsume_times: int = Field(default=16, ge=0, le=10_000)
    """The most retries; then a message becomes a dead letter."""
    waiting_max: int = Field(default=1_000_000, ge=1)
    """The most messages waiting for a decision."""
