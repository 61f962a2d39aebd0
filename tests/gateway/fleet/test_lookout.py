"""How often a replica looks who leads."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lakemq.gateway.fleet.lookout import LOOKS, SOON_MS, Lookout
from lakemq.model.beat import Beat
from lakemq.model.in_sync import Member, Record
from tests.gateway.fleet.leaderships import LOG, Folder

LEASE_MS = 60_000


def test_who_finds_no_leader_looks_again_soon_and_else_so_often_within_a_lease(tmp_path: Path) -> None:
    """Of replicas that are started at once the others look before the first one has begun the record."""

    async def scene() -> None:
        store = Folder(tmp_path)
        leads, follows = store.open(), store.open()
        lookout = Lookout(follows, LEASE_MS)
        assert await lookout.look()
        assert (lookout.record, lookout.look_ms()) == (None, SOON_MS)
        assert await leads.compare_and_set(Record(0, 1, 0, (Member(0, "a"),), LOG))
        assert await lookout.look()
        assert lookout.record is not None
        assert lookout.look_ms() == SOON_MS, "nobody knows yet where it is asked"
        await leads.beat(Beat(1, 0, 1, "http://leader"))
        assert await lookout.look()
        assert (lookout.where(), lookout.look_ms()) == ("http://leader", LEASE_MS // LOOKS)
        for each in (leads, follows):
            await each.close()

    asyncio.run(scene())
