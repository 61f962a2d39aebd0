"""What leaves the log must be in the lake for certain, whoever says so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakemq.gateway.upkeep.log_cleanup import LogCleanup
from lakemq.settings import HOUR_MS, Settings
from lakemq.storage.lake.certain import Certain
from lakemq.testing import start_gateway
from tests.gateway.cold.lakes import Lake, wait_until_all_left
from tests.gateway.http_client import connect, produce, put_topic
from tests.gateway.routing.asking import wait_until
from tests.storage.harness import LogHarness


def test_nobodys_word_takes_anything_from_the_log_but_the_lakes_own(tmp_path: Path) -> None:
    """It used to be enough to say `PUT /v1/broker/compacted`."""
    options: dict[str, Any] = {"storage__segment_bytes": 2**20, "storage__retention_ms": 0}
    options |= {"storage__compression": "none", "storage__compacted_grace_ms": 0, "lake__dir": tmp_path / "lake"}
    with start_gateway(tmp_path / "log", **options) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        for _ in range(4):
            produce(http, "t", "x" * 600_000)
        end = http.get("/v1/broker").json()["max_position"]
        assert http.put("/v1/broker/compacted", json={"compacted_position": end}).status_code == 200
        wait_until(lambda: any("nothing leaves the log: there is no lake" in line for line in gateway.log))
        assert any("nothing can leave the log" in line for line in http.get("/readyz").json()["degraded"])
        metrics = http.get("/metrics").text
        assert "lakemq_disk_full_in_seconds" in metrics
        lake = Lake(tmp_path / "made", gateway.url)
        lake.compact(http)
        some = next((tmp_path / "made" / "messages").glob("*.parquet"))
        content = some.read_bytes()
        some.write_bytes(content[:-1])
        lake.folder.rename(tmp_path / "lake")
        http.put("/v1/broker/compacted", json={"compacted_position": end})
        wait_until(lambda: any(some.name in line for line in gateway.log))
        broker = http.get("/v1/broker").json()
        assert (broker["min_position"], broker["lake"]["certain_position"]) == (0, 0)
        (tmp_path / "lake" / "messages" / some.name).write_bytes(content)
        http.put("/v1/broker/compacted", json={"compacted_position": end})
        assert wait_until_all_left(http, tmp_path / "log") > 0
        assert http.get("/v1/broker").json()["lake"].items() >= {"certain_position": lake.held, "fault": None}.items()
        lake.close()


def test_what_the_lake_holds_of_another_log_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    """After `data/` was emptied, a look-up by key found whatever was at the old log's positions."""
    options: dict[str, Any] = {"storage__segment_bytes": 2**20, "storage__retention_ms": 0}
    options |= {"storage__compression": "none", "storage__compacted_grace_ms": 0, "lake__dir": tmp_path / "lake"}
    with start_gateway(tmp_path / "old", **options) as gateway, connect(gateway) as http:
        produce(http, "t", {"body": "old", "keys": ["k"]})
        lake = Lake(tmp_path / "lake", gateway.url)
        lake.compact(http)
        lake.close()
    with start_gateway(tmp_path / "new", **options) as gateway, connect(gateway) as http:
        produce(http, "t", *[{"body": "new", "keys": ["n"]}] * 3)
        for _ in range(4):
            produce(http, "u", "x" * 600_000)
        found = http.get("/v1/messages", params={"topic": "t", "key": "k"})
        assert found.status_code == 200, found.text
        assert found.json()["messages"] == []
        assert len(http.get("/v1/messages", params={"topic": "t", "key": "n"}).json()["messages"]) == 3
        http.put("/v1/broker/compacted", json={"compacted_position": 1})
        wait_until(lambda: any("is not of this log" in line for line in gateway.log))
        assert http.get("/v1/broker").json()["min_position"] == 0


def test_the_gateways_log_says_when_messages_are_refused_and_when_they_are_accepted_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only `/readyz` said it: the gateway's log, to which doctor points, had nothing of a full disk."""
    harness = LogHarness(tmp_path, free_bytes_min=2048).open()
    log, settings = harness.log, Settings.model_validate({"lake": {"verify": False}})
    cleanup = LogCleanup(settings, log, asyncio.to_thread)
    harness.files.room_bytes = 1000
    for _ in range(2):
        harness.run(cleanup.clean_up())
    said = "the disk has 1000 bytes free, below storage.free_bytes_min (2.0 KiB)"
    assert caplog.text.count(f"no message is accepted: {said}") == 1
    harness.files.room_bytes = None
    with caplog.at_level(logging.INFO):
        harness.run(cleanup.clean_up())
    assert "messages are accepted again" in caplog.text
    harness.close()


def test_others_have_their_turns_while_many_segments_leave(tmp_path: Path) -> None:
    """They left in one turn of the loop, which then stood still for seconds."""
    harness = LogHarness(tmp_path).open()
    log, settings = harness.log, Settings.model_validate({"lake": {"verify": False}})
    for count in range(2, 9):
        log.begin_segment()
        while len(log.segments) < count:
            harness.run(asyncio.sleep(0.001))
        harness.wait_until_sealed()
        harness.put_topic(f"t{count}")

    async def run(look: Callable[[], Certain]) -> Certain:
        return await asyncio.to_thread(look)

    async def clean_up() -> tuple[int, list[int]]:
        cleanup, seen = LogCleanup(settings, log, run), list[int]()
        cleanup.tell(log.next_position)
        harness.clock.time_ms += 1000 * HOUR_MS
        cleaning = asyncio.create_task(cleanup.clean_up())
        while not cleaning.done():
            seen.append(len(log.segments))
            await asyncio.sleep(0)
        return cleaning.result(), seen

    removed, seen = harness.run(clean_up())
    assert removed == 7
    assert {*range(2, 9)} <= {*seen}
    harness.close()
