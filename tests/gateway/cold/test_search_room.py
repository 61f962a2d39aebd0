"""Searches by key that wait for others: how many may, and how many of one client."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from lakemq import settings
from lakemq.gateway.cold import ColdReader
from lakemq.gateway.cold.by_key import SEARCHES_MAX, WAITING_MAX, KeySearch, Sought
from lakemq.gateway.cold.reader import THREADS
from lakemq.model.errors import Busy
from lakemq.storage.read.store import Store
from tests.storage.harness import LogHarness

SOUGHT = Sought("a", "k", 0, 2**40, 1)
SHARE = 0.25


def test_one_client_takes_no_more_than_its_share_of_the_room_for_searches(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path / "data").open()
    options: dict[str, dict[str, object]] = {
        "lake": {"dir": tmp_path / "lake"},
        "storage": {"data_dir": tmp_path / "data"},
    }
    store = Store.of(harness.log, "broker-a")
    cold = ColdReader(settings.load(Path(os.devnull), {}, options), store)
    searches = KeySearch(store, cold, 1_000_000, SHARE)
    held = threading.Event()

    async def search() -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(THREADS):  # each search needs one of them
                tasks.create_task(cold.run(held.wait))
            may_wait = int(WAITING_MAX * SHARE)
            asked = [tasks.create_task(searches.find(SOUGHT, "10.0.0.1")) for _ in range(SEARCHES_MAX + may_wait)]
            await asyncio.sleep(0)
            try:
                with pytest.raises(Busy):
                    await asyncio.wait_for(searches.find(SOUGHT, "10.0.0.1"), 60)
                asked.append(tasks.create_task(searches.find(SOUGHT, "10.0.0.2")))
                await asyncio.sleep(0)
                assert not asked[-1].done(), "there is room for others"
            finally:
                held.set()
            assert [await each for each in asked] == [([], True)] * len(asked)

    try:
        harness.run(search())
    finally:
        cold.close()
        harness.crash()
