"""An election beside a real store, where something comes between two of its steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from lakemq.gateway.fleet.election import Election
from lakemq.gateway.fleet.incarnation import Incarnation
from lakemq.gateway.fleet.leadership import Leadership
from lakemq.gateway.fleet.shared_folder import SharedFolder
from lakemq.model.beat import Beat
from lakemq.model.election import elected
from lakemq.model.errors import LeaderLives, StoreUnwritable
from lakemq.model.in_sync import Member, Record, shrunk
from lakemq.settings import Broker, Fleet, Settings
from lakemq.storage.disk.files import Files
from lakemq.storage.segment.frame import LogEpoch
from lakemq.storage.state.log_identity import LogIdentity
from tests.gateway.fleet.leaderships import opened

LEASE_MS = 500
Between = Callable[[Leadership], Coroutine[Any, Any, object]]


async def nothing(_: Leadership) -> None:
    pass


class Interrupted:
    """A real `Leadership`; `before_set`, `after_set` and `after_beat` come in between, once."""

    def __init__(self, root: Path) -> None:
        Files().make_dirs(root)
        self.kept = opened(SharedFolder(Files(), root), "broker-a")
        self.before_set: Between = nothing
        self.after_set: Between = nothing
        self.after_beat: Between = nothing
        self.read = self.kept.read
        self.watch = self.kept.watch
        self.last_beat = self.kept.last_beat
        self.close = self.kept.close

    async def compare_and_set(self, record: Record) -> bool:
        before, self.before_set = self.before_set, nothing
        await before(self.kept)
        done = await self.kept.compare_and_set(record)
        after, self.after_set = self.after_set, nothing
        await after(self.kept)
        return done

    async def beat(self, beat: Beat) -> None:
        await self.kept.beat(beat)
        after, self.after_beat = self.after_beat, nothing
        await after(self.kept)


class Still:
    """A follower of nobody."""

    unwritable = None
    epoch = 1
    follows = True

    async def pause(self) -> None:
        self.follows = False

    async def forget(self) -> None:
        pass

    def start(self) -> None:
        self.follows = True

    async def turn(self) -> None:
        pass


def identity() -> LogIdentity:
    log = LogIdentity()
    log.begin(LogEpoch(bytes(16), 1), 0)
    return log


async def begun(root: Path, replica: int) -> tuple[Election, Interrupted, Member]:
    """The election of a replica whose folder has the log."""
    Files().make_dirs(root)
    own = Incarnation(Files(), root)
    own.begin(identity().log_id, 5)
    return (*election_of(root, replica, own), Member(replica, own.name))


def election_of(root: Path, replica: int, own: Incarnation, lease_ms: int = LEASE_MS) -> tuple[Election, Interrupted]:
    """The election of a replica that is that one."""
    store = Interrupted(root / "store")
    fleet = Fleet(leader="object-store", store=f"file://{root / 'store'}", lease_ms=lease_ms)
    chosen = Settings(broker=Broker(replica=replica), fleet=fleet)
    return Election(chosen, store, own, f"http://127.0.0.1:{replica + 1}"), store


def now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)


async def take_over(root: Path, before_set: Between) -> tuple[Election, list[int]]:
    """Replica 1 takes the lead from replica 0, which is dead; when the last step before its record was, in ms."""
    election, store, own = await begun(root, 1)
    other, at_ms = Member(0, "a"), list[int]()
    await store.kept.compare_and_set(Record(0, 1, 0, (other, own), identity().log_id))
    await store.kept.beat(Beat(1, 0, 1, ""))

    async def between(kept: Leadership) -> None:
        await before_set(kept)
        at_ms.append(now_ms())

    store.before_set = between
    tenure = await election.first()
    assert tenure.follows
    assert not (await election.until_elected(Still())).follows
    return election, at_ms


def test_who_takes_the_lead_as_a_beat_arrives_waits_for_a_lease_from_when_it_read_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async def beats(kept: Leadership) -> None:
            await kept.beat(Beat(1, 0, 2, ""))

        election, at_ms = await take_over(tmp_path / "late", beats)
        assert election.alone_ms >= at_ms[0] + LEASE_MS
        await election.until_alone()
        assert now_ms() >= election.alone_ms
        await election.close()
        election, _ = await take_over(tmp_path / "silent", nothing)
        assert election.alone_ms <= now_ms()
        await election.close()

    asyncio.run(scene())


@pytest.mark.parametrize("crashed", ["before it beat", "while it beat"])
def test_who_comes_back_as_the_leader_waits_for_a_lease_of_the_one_before(tmp_path: Path, crashed: str) -> None:
    async def scene() -> None:
        election, store, own = await begun(tmp_path, 1)
        before = Record(0, 1, 0, (Member(0, "a"), own), identity().log_id)
        await store.kept.compare_and_set(before)
        await store.kept.beat(Beat(1, 0, 2, ""))
        await store.kept.compare_and_set(elected(before, own))
        if crashed == "while it beat":
            await store.kept.beat(Beat(2, 1, 9, ""))
        at_ms = now_ms()
        assert not (await election.first()).follows
        assert election.alone_ms >= at_ms + LEASE_MS
        await election.close()

    asyncio.run(scene())


def test_a_beat_that_arrived_as_another_took_the_lead_renews_no_lease(tmp_path: Path) -> None:
    async def scene() -> None:
        election, store, _ = await begun(tmp_path, 0)

        async def takes_over(kept: Leadership) -> None:
            record = await kept.read()
            assert record is not None
            assert await kept.compare_and_set(elected(record, Member(1, "b")))

        store.after_beat = takes_over
        await election.establish(identity())
        assert (await election.until_replaced()).follows
        assert election.lost() is not None
        await election.close()

    asyncio.run(scene())


def test_who_hands_over_knows_that_it_has_where_the_next_leader_changed_the_record_at_once(tmp_path: Path) -> None:
    async def scene() -> None:
        election, store, _ = await begun(tmp_path, 0)
        to = Member(1, "b")

        record = await election.establish(identity())
        (own,) = record.members

        async def lets_go(kept: Leadership) -> None:
            record = await kept.read()
            assert record is not None
            assert await kept.compare_and_set(shrunk(record, [own]))
            raise OSError("the answer is lost")

        both = record._replace(version=1, members=(own, to))
        assert await store.kept.compare_and_set(both)
        store.after_set = lets_go
        proposed = await election.hand_over(both, to)
        assert (proposed.leader, proposed.epoch) == (1, 2)
        found = await store.read()
        assert found is not None
        assert found.members == (to,)
        await election.close()

    asyncio.run(scene())


async def forced(election: Election) -> Record:
    """Order it to lead, again while the leader may live: whoever stood still itself begins to count anew."""
    while True:
        try:
            return await election.force()
        except LeaderLives as error:
            if "quicker" in str(error):
                raise
            await asyncio.sleep(LEASE_MS / 1000)


def test_who_can_not_promise_to_lead_by_order_says_so_and_follows_and_leads_once_it_can(tmp_path: Path) -> None:
    async def scene() -> None:
        election, store, _ = await begun(tmp_path, 1)
        await store.kept.compare_and_set(Record(0, 1, 0, (Member(0, "a"),), identity().log_id))
        assert (await election.first()).follows
        following = Still()
        watching = asyncio.ensure_future(election.until_elected(following))
        (tmp_path / "REPLICA.tmp").mkdir()  # so the file can't be written
        for _ in range(2):
            order = asyncio.ensure_future(forced(election))
            await asyncio.wait([order, watching], return_when=asyncio.FIRST_COMPLETED)
            assert not watching.done()
            with pytest.raises(StoreUnwritable, match="can't promise to lead"):
                await order
            assert following.follows
        (tmp_path / "REPLICA.tmp").rmdir()
        assert (await forced(election)).epoch == 2  # what could not be promised counts for nothing
        assert not (await watching).follows
        await election.close()

    asyncio.run(scene())
