"""Who leads where the settings say it: nobody changes that while the broker runs."""

from __future__ import annotations

from typing import Any, NoReturn

from lakemq.gateway.fleet.replication import Replication
from lakemq.model.errors import InvalidRequest

_BY_SETTING = "fleet.leader is static: replica 0 leads, and no other takes its place while it is so"


class StaticLead:
    """That of one broker; `replication` None: of a follower."""

    def __init__(self, replication: Replication | None) -> None:
        self._replication = replication

    async def switch(self, replica: int) -> NoReturn:
        """Raises `InvalidRequest`."""
        raise InvalidRequest(f"{_BY_SETTING}; replica {replica} can't")

    async def elect(self) -> NoReturn:
        """Raises `InvalidRequest`."""
        raise InvalidRequest(_BY_SETTING)

    async def remove(self, replica: int) -> dict[str, Any]:
        """Forget the replica. Raises `InvalidRequest` where it isn't gone, and `NotConfirmed`."""
        assert self._replication is not None  # followers refuse all that writes
        return await self._replication.remove(replica)
