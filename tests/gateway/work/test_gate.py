"""Work that takes long is done for clients in turn, and within bounds."""

from __future__ import annotations

import asyncio

import pytest

from lakemq.gateway.work.workshop import SMALL_BYTES, Workshop
from lakemq.model.errors import Busy
from lakemq.settings import MIB
from lakemq.web.gate import Gate


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_clients_have_a_place_in_turn_however_much_one_of_them_wants() -> None:
    order: list[str] = []

    async def work(gate: Gate, client: str) -> None:
        async with gate.place(client):
            order.append(client)
            await asyncio.sleep(0)

    async def all_of_it() -> None:
        gate = Gate(1, 100, 1)
        async with gate.place(None):
            tasks = [asyncio.create_task(work(gate, client)) for client in "aaaaabbc"]
            await settle()
            assert gate.waiting == 8
        await asyncio.gather(*tasks)
        async with gate.place("d"):
            assert gate.waiting == 0

    asyncio.run(all_of_it())
    assert "".join(order) == "abcabaaa"


def test_one_client_can_not_take_all_places_to_wait_in() -> None:
    async def wait(gate: Gate, client: str) -> None:
        async with gate.place(client):
            pass

    async def all_of_it() -> None:
        gate = Gate(1, 10, 0.5)
        async with gate.place(None):
            tasks = [asyncio.create_task(wait(gate, f"2001:db8::{each}")) for each in range(5)]
            await settle()
            with pytest.raises(Busy):
                await wait(gate, "2001:db8::a")  # of IPv6 anybody has a network of addresses
            tasks += [asyncio.create_task(wait(gate, client)) for client in "bbbbc"]
            await settle()
            with pytest.raises(Busy):
                await wait(gate, "d")
        await asyncio.gather(*tasks)

    asyncio.run(all_of_it())


def test_who_gives_up_waiting_leaves_the_place_to_others() -> None:
    async def take(gate: Gate) -> str:
        async with gate.place("a"):
            return "had it"

    async def all_of_it() -> None:
        gate = Gate(1, 10, 1)
        async with gate.place(None):
            waits, given, last = (asyncio.create_task(take(gate)) for _ in range(3))
            await settle()
            waits.cancel()
            await settle()
        given.cancel()  # it was given the place, and hasn't come to know yet
        assert await asyncio.wait_for(last, 10) == "had it"
        assert await asyncio.wait_for(take(gate), 10) == "had it"

    asyncio.run(all_of_it())


def test_room_that_was_kept_is_there_however_much_comes_meanwhile() -> None:
    async def all_of_it() -> None:
        kept_room = Workshop("test", 100 * MIB, 1)
        gate = Gate(1, 2, 1)

        async def wait(client: str, kept: bool = False) -> None:
            async with gate.place(client, kept=kept):
                pass

        with gate.keep("a"):
            async with gate.place(None):
                other = asyncio.create_task(wait("b"))
                await settle()
                with pytest.raises(Busy):
                    await wait("c")
                own = asyncio.create_task(wait("a", kept=True))
                await settle()
                assert gate.waiting == 2
            await asyncio.gather(own, other)
        with gate.keep("c"), gate.keep("c"), pytest.raises(Busy), gate.keep("c"):
            pass
        with kept_room.kept_for("a") as run:
            assert await run(str, 1) == "1"
        kept_room.close()

    asyncio.run(all_of_it())


def test_answers_of_no_bytes_to_one_client_at_a_time_are_counted_out() -> None:
    workshop = Workshop("test", 100 * MIB, 0.75)
    with workshop.holding(0, "a"), workshop.holding(0, "a"):
        pass
    with workshop.holding(5, "a"), workshop.holding(0, "a"), workshop.holding(0, "a"):
        pass
    assert workshop.bytes == 0
    workshop.close()


def test_one_client_holds_its_share_of_bytes_and_small_requests_always_find_room() -> None:
    workshop = Workshop("test", 100 * MIB, 0.75)
    with workshop.holding(60 * MIB, "a"):
        with pytest.raises(Busy, match="client_share"), workshop.holding(20 * MIB, "a"):
            pass
        with workshop.holding(30 * MIB, "b"):
            with pytest.raises(Busy), workshop.holding(20 * MIB, "c"):
                pass
            with workshop.holding(SMALL_BYTES, "a"), workshop.holding(SMALL_BYTES, "c"):
                pass
    refused = pytest.raises(Busy, match="client_share")
    with workshop.holding(60 * MIB, "2001:db8::1"), refused, workshop.holding(20 * MIB, "2001:db8::2"):
        pass
    with workshop.holding(90 * MIB, "a"):  # one request is taken, whatever the share
        pass
    assert workshop.bytes == 0
    workshop.close()
