"""Whose heartbeat is read next, and how much others are held up by that."""

from __future__ import annotations

import asyncio

import pytest

from lakemq.model.errors import Busy
from lakemq.nameserver.intake import WORK_S, Intake, Pace
from lakemq.settings import NameServer


def test_rest_is_as_long_as_work() -> None:
    pace = Pace()
    worked_s = [WORK_S / 2, WORK_S / 4, WORK_S / 2, WORK_S / 8, 1.0, WORK_S / 2]
    rests_s = [pace.rest_s(each) for each in worked_s]
    assert rests_s[:2] == [0.0, 0.0]
    assert sum(rests_s) == pytest.approx(sum(worked_s[:-1]))
    assert rests_s[-1] == 0.0


def test_clients_have_turns_however_much_one_of_them_says() -> None:
    async def scene() -> list[str]:
        intake, order = Intake(NameServer()), list[str]()

        async def say(client: str) -> None:
            async with intake.turn(client, 1):
                order.append(client)
                await asyncio.sleep(0)

        await asyncio.gather(*(say(client) for client in "aaaaabc"))
        return order

    assert asyncio.run(scene()) == list("aabcaaa")


def test_what_waits_is_bounded_and_one_client_leaves_room_for_others() -> None:
    async def scene() -> None:
        intake = Intake(NameServer(request_bytes_max=8_000, request_bytes_in_flight_max=20_000))
        async with intake.turn("a", 5_000):
            with pytest.raises(Busy):
                await intake.turn("a", 5_000).__aenter__()
            waiting = asyncio.ensure_future(intake.turn("b", 4_500).__aenter__())
            await asyncio.sleep(0)
            with pytest.raises(Busy):
                await intake.turn("c", 1_000).__aenter__()
            waiting.cancel()
            await asyncio.wait([waiting])
        async with intake.turn("a", 8_000):  # one is read, however large
            pass

    asyncio.run(scene())
