"""Replicas that are started again and again: a leader that can't open its log, or can't write down that it leads, lets
a member take its place, and a member stays one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lakemq.gateway.fleet.election import YIELDED_LEASES, Election
from lakemq.gateway.fleet.incarnation import LIVES_MAX, Incarnation
from lakemq.gateway.fleet.leadership import Leadership
from lakemq.model.beat import Beat
from lakemq.model.election import Own, Standing, elected, standing_of
from lakemq.model.in_sync import Member, Record
from lakemq.storage.disk.files import Files
from tests.gateway.fleet.electing import PATIENT, STILL_S, replicas, role_of
from tests.gateway.fleet.test_late_beats import LEASE_MS, begun, election_of, identity, now_ms
from tests.gateway.http_client import produce, pull_all
from tests.gateway.routing.asking import wait_until
from tests.standstill import begins_again_after

OTHER = Member(0, "a")
LONG_LEASE_MS = 20_000
"""Three of these are left for another to lead: on no machine it takes longer."""
READS = 20
STARTS_MAX = 5
"""Of which the first one leads, and the second lets the other lead; later ones would only find that it does."""


async def led(root: Path, *others: Member) -> tuple[Incarnation, Record, Leadership]:
    """Replica 1 led by the record, and its process has ended: what the next one knows."""
    _, store, own = await begun(root, 1)
    record = Record(1, 2, 0, (*others, own), identity().log_id)
    assert await store.kept.compare_and_set(record)
    await store.kept.beat(Beat(2, 1, 7, ""))
    incarnation = Incarnation(Files(), root)
    incarnation.load()
    return incarnation, record, store.kept


async def ended_as_it_opened(
    root: Path, *others: Member, lease_ms: int = LEASE_MS
) -> tuple[Election, Leadership, Record]:
    """It was started since, and its process ended before its log was open."""
    incarnation, record, kept = await led(root, *others)
    incarnation.begin_to_lead()
    await kept.close()
    incarnation = Incarnation(Files(), root)
    incarnation.load()
    election, store = election_of(root, 1, incarnation, lease_ms)
    return election, store.kept, record


def test_who_ended_as_it_opened_its_log_lets_another_lead_first(tmp_path: Path) -> None:
    async def scene() -> None:
        election, store, record = await ended_as_it_opened(tmp_path, OTHER, lease_ms=LONG_LEASE_MS)
        beginning = asyncio.ensure_future(election.first())
        while "waits for another to lead first" not in str(election.problem):
            assert not beginning.done()
            await asyncio.sleep(0.01)
        for _ in range(READS):  # it looks as often
            assert await store.read() == record
            await asyncio.sleep(0.05)
        assert not beginning.done()
        assert await store.compare_and_set(elected(record, OTHER))
        assert (await beginning).follows
        await election.close()

    asyncio.run(scene())


@pytest.mark.parametrize("others", [(OTHER,), ()])
def test_it_leads_again_where_nobody_else_does(tmp_path: Path, others: tuple[Member, ...]) -> None:
    async def scene() -> None:
        election, store, record = await ended_as_it_opened(tmp_path, *others)
        begun_ms = now_ms()
        assert not (await election.first()).follows
        assert not others or now_ms() - begun_ms >= YIELDED_LEASES * LEASE_MS
        found = await store.read()
        assert found is not None
        assert (found.leader, found.epoch) == (1, record.epoch + 1)
        await election.close()

    asyncio.run(scene())


def test_who_can_not_write_down_that_it_leads_tries_again_and_is_who_it_was(tmp_path: Path) -> None:
    """On a full disk its process ended, and each try was another life."""

    async def scene() -> None:
        incarnation, record, store = await led(tmp_path)
        election, _ = election_of(tmp_path, 1, incarnation)
        lives = incarnation.lives
        (tmp_path / "REPLICA.tmp").mkdir()  # so the file can't be written
        beginning = asyncio.ensure_future(election.first())
        while "can't promise to lead" not in str(election.problem):
            assert not beginning.done()
            await asyncio.sleep(LEASE_MS / 10_000)
        await asyncio.sleep(LEASE_MS / 1000)
        assert await store.read() == record
        (tmp_path / "REPLICA.tmp").rmdir()
        assert not (await beginning).follows
        assert len(incarnation.lives) - len(lives) in (0, 1), "the many tries were none"
        await election.close()

    asyncio.run(scene())


@begins_again_after(STILL_S)
def test_a_leader_that_is_started_again_and_again_and_can_not_open_its_log_is_replaced(tmp_path: Path) -> None:
    """Each start renewed its lead, and nobody else ever took it."""
    with replicas(tmp_path, count=2, **PATIENT) as fleet:
        bodies = [str(number) for number in range(20)]
        produce(fleet.http(0), "t", *bodies)
        fleet.kill(0)
        log = max((tmp_path / "0" / "commitlog").glob("*.log"))
        with log.open("r+b") as file:
            file.truncate(log.stat().st_size - 10)
        leads = False
        for _ in range(STARTS_MAX):
            fleet.start(0)
            ended = fleet.running[0].poll
            wait_until(lambda: ended() is not None or role_of(fleet.http(1)) == "primary")  # noqa: B023  called here
            leads = role_of(fleet.http(1)) == "primary"
            fleet.kill(0)
            if leads:
                break
        assert leads
        assert {message["body"] for message in pull_all(fleet.http(1), "t")} == set(bodies)


def test_a_member_whose_process_ends_again_and_again_may_lead_all_the_same(tmp_path: Path) -> None:
    """While nobody leads nobody changes the record, which names what it was long ago."""

    async def scene() -> None:
        election, store, own = await begun(tmp_path, 1)
        record = Record(0, 2, 0, (OTHER, own), identity().log_id)
        assert await store.kept.compare_and_set(record)
        for _ in range(2 * LIVES_MAX):
            incarnation = Incarnation(Files(), tmp_path)
            incarnation.load()
            election, _ = election_of(tmp_path, 1, incarnation)
            assert (await election.first()).follows
            incarnation.begin(identity().log_id, 10)  # and it ends before anybody can hold the leader for dead
            own_now = Own(1, incarnation.lives, incarnation.epoch, incarnation.log_id)
            assert standing_of(own_now, record) is Standing.MEMBER
            assert len(incarnation.lives) <= LIVES_MAX + 1
            await election.close()

    asyncio.run(scene())
