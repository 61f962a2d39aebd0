"""As what a broker is opened: who says that it leads, or whom it follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakemq.gateway.fleet.incarnation import Incarnation
from lakemq.gateway.fleet.leadership import Leadership
from lakemq.model.in_sync import Record
from lakemq.model.primary import FOLLOWER, PRIMARY
from lakemq.storage.log.leased import Lost


@dataclass(frozen=True)
class Elected:
    """What a broker whose leader is elected gets of the election, which outlives it.

    `record`: by which it leads; None: it follows, or begins the first one. `where`: the leader's address, as far as it
    is known. `lost`: why nothing may be promised now. `look`: another may lead, so who leads is to be looked at.
    `described`, `degraded`: what is said of it, and what is wrong.
    """

    leadership: Leadership
    incarnation: Incarnation
    where: Callable[[], str]
    lost: Lost
    look: Callable[[], object]
    described: Callable[[], dict[str, Any]]
    degraded: Callable[[], list[str]]
    record: Record | None = None


@dataclass(frozen=True)
class Tenure:
    """`follows`: it does, and doesn't lead. `elected` None: the settings say so."""

    follows: bool
    elected: Elected | None = None

    @property
    def role(self) -> str:
        """What it is to clients."""
        return FOLLOWER if self.follows else PRIMARY
