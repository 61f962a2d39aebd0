"""Groups that hold nothing give way to new ones, however many come at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lakemq.gateway.groups.offsets import QueueOffset
from lakemq.gateway.process.broker import Broker
from lakemq.model.errors import FlowControl
from lakemq.settings import Groups, Settings, Storage
from lakemq.storage.state.group_state import Group
from lakemq.storage.state.member import Member

MEMBER = Member("clustering", "last", None, ())


def test_no_more_groups_come_at_once_than_there_is_room_for(tmp_path: Path) -> None:
    """Each took the place of the same empty group: so there were more than groups.groups_max."""

    async def all_of_it() -> None:
        broker = Broker(Settings(storage=Storage(data_dir=tmp_path), groups=Groups(groups_max=3)))
        broker.open()
        await broker.start()
        await broker.topics.put("t", 1, "rw")
        members, state = broker.groups.members, broker.log.state.groups

        async def commit(name: str) -> object:
            return await broker.groups.offsets.commit(name, [QueueOffset("t", 0, 0)])

        for name in "abc":
            await members.heartbeat(name, "c", MEMBER)
            await members.leave(name, "c")
        # One of the empty ones has a member again, and that is on its way.
        answers = await asyncio.gather(
            members.heartbeat("a", "c", MEMBER), *map(commit, "defd"), return_exceptions=True
        )
        refused = [answer for answer in answers if isinstance(answer, BaseException)]
        assert [type(each) for each in refused] == [FlowControl]
        assert isinstance(answers[0], Group)
        assert {group.name for group in state} == {"a", "d", "e"}
        await broker.groups.delete("d")
        await commit("f")
        assert {group.name for group in state} == {"a", "e", "f"}
        await broker.close()

    asyncio.run(asyncio.wait_for(all_of_it(), 60))
