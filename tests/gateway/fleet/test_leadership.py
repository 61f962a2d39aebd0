"""What every way to know who leads keeps to, each on a real store: the same tests for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lakemq.gateway.fleet.leadership import Leadership, Superseded
from lakemq.model.beat import Beat
from lakemq.model.in_sync import Member, Record, grown, shrunk
from tests.gateway.fleet.leaderships import LOG, Folder, InBucket, InEtcd, Static, Store
from tests.gateway.http_client import WAIT_S

ALONE = Record(0, 1, 0, (Member(0, "a"),), LOG)
BOTH = grown(ALONE, Member(1, "b"))
ELECTED = BOTH._replace(leader=1, epoch=2, version=2, members=(Member(1, "b"),))
BEAT = Beat(1, 0, 1, "http://10.0.0.5:8080")
SHORT_S = 0.25
"""What a store that hangs is waited for."""


SHARED = ["etcd", "bucket", "folder"]
"""A static leader's file is on its own disk: nobody else changes it, and it is waited for as the log's are."""
of_shared = pytest.mark.parametrize("store", SHARED, indirect=True)


@pytest.fixture(params=["static", *SHARED])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    match request.param:
        case "etcd":
            made: Store = InEtcd(request.getfixturevalue("etcd").address)
        case "bucket":
            made = InBucket()
        case "folder":
            made = Folder(tmp_path)
        case _:
            made = Static(tmp_path)
    yield made
    made.close()


Scene = Callable[[Leadership, Leadership], Awaitable[None]]


def play(store: Store, scene: Scene, answer_s: float = 60.0) -> None:
    """With two who ask the store."""

    async def whole() -> None:
        one, other = store.open(answer_s), store.open(answer_s)
        async with asyncio.timeout(WAIT_S):
            await scene(one, other)
        store.heal()
        await one.close()
        await other.close()

    asyncio.run(whole())


def test_what_one_has_put_there_all_read_and_only_what_follows_it_takes_its_place(store: Store) -> None:
    async def scene(one: Leadership, other: Leadership) -> None:
        assert await one.read() is None
        assert await one.compare_and_set(ALONE)
        assert await one.read() == await other.read() == ALONE
        assert not await other.compare_and_set(ALONE)
        assert not await other.compare_and_set(BOTH._replace(version=7))
        assert await other.compare_and_set(BOTH)
        assert not await one.compare_and_set(BOTH._replace(epoch=5))
        assert await one.read() == await other.read() == BOTH

    play(store, scene)


def test_of_many_that_put_the_same_version_one_does_and_all_read_that(store: Store) -> None:
    async def scene(one: Leadership, other: Leadership) -> None:
        racing = [one, other, *(store.open() for _ in range(3))]
        for version in range(5):
            wanted = [Record(0, 1, version, (Member(0, f"{each}"),), LOG) for each in range(len(racing))]
            won = await asyncio.gather(*(each.compare_and_set(own) for each, own in zip(racing, wanted, strict=True)))
            assert sum(won) == 1
            found = await asyncio.gather(*(each.read() for each in racing))
            assert set(found) == {wanted[won.index(True)]}
        for each in racing[2:]:
            await each.close()

    play(store, scene)


def test_a_change_whose_answer_was_lost_is_in_force_or_not_as_is_read_then(store: Store) -> None:
    async def scene(one: Leadership, other: Leadership) -> None:
        await one.compare_and_set(ALONE)
        store.lose_answers()
        with suppress(OSError):
            assert await one.compare_and_set(BOTH)
        store.heal()
        found = await one.read()
        assert found == await other.read()
        assert found in (ALONE, BOTH)
        assert await other.compare_and_set(shrunk(BOTH, [Member(1, "b")])) == (found == BOTH)
        assert not await one.compare_and_set(BOTH) or found == ALONE

    play(store, scene)


def test_who_watches_is_woken_by_another_s_change_and_by_its_own(store: Store) -> None:
    async def scene(one: Leadership, other: Leadership) -> None:
        watching = [asyncio.create_task(each.watch(0, WAIT_S)) for each in (one, other)]
        await asyncio.sleep(0)
        await one.compare_and_set(ALONE)
        await one.compare_and_set(BOTH)
        assert await asyncio.gather(*watching) == [BOTH, BOTH]
        assert await other.watch(7, WAIT_S) == BOTH

    play(store, scene)


def test_who_watches_in_vain_is_told_what_there_is(store: Store) -> None:
    async def scene(one: Leadership, other: Leadership) -> None:
        assert await other.watch(0, 0.01) is None
        await one.compare_and_set(ALONE)
        found = None
        while found is None:
            found = await other.watch(0, 0.01)
        assert found == await one.watch(0, 0.01) == ALONE

    play(store, scene)


def test_a_beat_is_the_leaders_of_the_epoch_that_is_in_force_and_counts(store: Store) -> None:
    async def scene(one: Leadership, other: Leadership) -> None:
        assert await other.last_beat() is None
        with pytest.raises(Superseded):
            await one.beat(BEAT)  # nobody leads yet
        await one.compare_and_set(ALONE)
        await one.beat(BEAT)
        await one.beat(BEAT._replace(count=2))
        assert await one.last_beat() == await other.last_beat() == BEAT._replace(count=2)
        await one.compare_and_set(BOTH)
        await one.beat(BEAT._replace(count=3))  # the set has changed, and not who leads
        assert await other.compare_and_set(ELECTED)
        assert await other.last_beat() == BEAT._replace(count=3)
        for wrong in (BEAT._replace(count=4), BEAT._replace(epoch=2), BEAT._replace(replica=1)):
            with pytest.raises(Superseded):
                await one.beat(wrong)
        assert await one.last_beat() == BEAT._replace(count=3)
        await other.beat(Beat(2, 1, 1, "http://10.0.0.6:8080"))
        assert await one.last_beat() == Beat(2, 1, 1, "http://10.0.0.6:8080")

    play(store, scene)


@of_shared
def test_a_store_that_is_silent_is_waited_for_so_long_and_nothing_else_stands_still(store: Store) -> None:
    async def scene(one: Leadership, other: Leadership) -> None:
        store.hang()
        asking = [one.read(), one.compare_and_set(ALONE), one.beat(BEAT), one.last_beat(), one.watch(0, SHORT_S * 2)]
        waiting = asyncio.gather(*asking, return_exceptions=True)
        turns = 0
        while not waiting.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 100
        *errors, watched = await waiting
        assert all(isinstance(each, OSError) for each in errors)
        assert watched is None or isinstance(watched, OSError)
        store.heal()
        with suppress(OSError):  # what was asked before may still be under way
            await other.read()

    play(store, scene, SHORT_S)


@of_shared
def test_who_watches_a_store_that_is_away_is_told_so_in_the_end_and_sees_it_come_back(store: Store) -> None:
    async def scene(one: Leadership, other: Leadership) -> None:
        patient = store.open()
        await patient.compare_and_set(ALONE)
        store.hang()
        found: object = None
        while not isinstance(found, OSError):
            try:
                found = await other.watch(0, 0.05)
            except OSError as error:
                found = error
        assert "who leads can't be seen" in str(found)
        watching = asyncio.create_task(other.watch(0, WAIT_S))
        await asyncio.sleep(0)
        store.heal()
        assert await patient.compare_and_set(BOTH)
        assert await watching == BOTH
        await patient.close()

    play(store, scene, SHORT_S)


def test_what_is_closed_can_be_closed_again(store: Store) -> None:
    async def scene(one: Leadership, other: Leadership) -> None:
        await one.watch(0, 0.001)
        await one.close()
        await one.close()
        await other.close()

    play(store, scene)
