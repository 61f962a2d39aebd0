"""A leader whose log takes nothing any more until it is opened anew, as after a flush that failed: another that is in
sync leads in its place, and has all that is confirmed."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from lakemq.gateway.fleet.election import Election
from lakemq.gateway.process.broker import Broker
from lakemq.model.errors import LakemqError, NotInSync
from lakemq.model.in_sync import Member, Record

logger = logging.getLogger(__name__)
LOOK_S = 0.5


class Resigning:
    """That of one broker, which leads: it has another lead as soon as that `is_due`, and one is in sync."""

    def __init__(self, broker: Broker, election: Election) -> None:
        self._broker = broker
        self._election = election
        self._turn = asyncio.Lock()
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def is_due(self) -> bool:
        """Whether nothing can be written here for good."""
        return self._broker.log.flusher.failure is not None

    async def close(self) -> None:
        """Have nobody lead."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        replication = self._broker.replication
        assert replication is not None
        while not replication.is_replaced:
            to = replication.heard_last() if self.is_due else None
            if to is not None:
                logger.error("this leader can't write its log: it hands over to replica %d", to.replica)
                try:
                    await self.hand_over(to)
                except LakemqError as error:
                    logger.warning("it leads on: %s", error)
                except Exception:
                    logger.exception("it leads on")
            await asyncio.sleep(LOOK_S)

    async def hand_over(self, to: Member) -> Record:
        """Have that member lead. All that is confirmed it has, and nothing else will be; what else is on disk here it
        gets if it takes that in time. Raises `NotInSync`, and then this one leads on."""
        replication = self._broker.replication
        assert replication is not None
        async with self._turn:
            if replication.is_replaced:
                raise NotInSync("another leads by now")
            replication.hold(True)
            try:
                seconds = self._broker.settings.replication.silent_ms / 1000
                with suppress(NotInSync):
                    await replication.until_all_have(self._broker.log.flushed_position, seconds)
                record = await self._election.hand_over(replication.record, to)
            except BaseException:
                replication.hold(False)
                raise
            replication.replaced(record)
            self._election.handed_over()
            return record
