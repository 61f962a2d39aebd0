"""Who leads where leaders are elected, as an operator changes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from lakemq.gateway.fleet.election import Election
from lakemq.gateway.process.broker import Broker
from lakemq.model.errors import NotLeader
from lakemq.model.in_sync import Member, Record

HandOver = Callable[[Broker, Member], Awaitable[Record]]


class ElectedLead:
    """That of one broker; `hand_over` has another replica lead."""

    def __init__(self, broker: Broker, election: Election, hand_over: HandOver) -> None:
        self._broker = broker
        self._election = election
        self._hand_over = hand_over

    async def switch(self, replica: int) -> dict[str, Any]:
        """Have that replica lead, without a loss: it is in sync. Raises `NotInSync`, and `StoreUnwritable`
        where it can't be written down; then this one leads on."""
        replication, own = self._broker.replication, self._broker.settings.broker.replica
        if replication is None:
            raise self._not_leader()
        if replica == own:
            return {"leader": own, "epoch": replication.epoch}
        return _described(await self._hand_over(self._broker, replication.in_sync_member(replica)))

    async def elect(self) -> dict[str, Any]:
        """Have this replica lead with what it has. Raises `LeaderLives`, `StoreUnwritable`."""
        if self._broker.replication is not None:
            return {"leader": self._broker.settings.broker.replica, "epoch": self._broker.replication.epoch}
        return _described(await self._election.force())

    async def remove(self, replica: int) -> dict[str, Any]:
        """Forget the replica. Raises `InvalidRequest` where it isn't gone, and `NotConfirmed`."""
        if self._broker.replication is None:
            raise self._not_leader()
        return await self._broker.replication.remove(replica)

    def _not_leader(self) -> NotLeader:
        return NotLeader("this replica follows", self._election.where())


def _described(record: Record) -> dict[str, Any]:
    return {"leader": record.leader, "epoch": record.epoch, "record_version": record.version}
