"""The lake under the gateway's feet: compacted, vacuumed, erased, damaged, behind or not there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.cold.lakes import Lake, wait_until_all_left
from tests.gateway.cold.test_cold import OPTIONS
from tests.gateway.http_client import connect, is_problem, message_id_at, produce, pull, put_topic

Scene = tuple[GatewayProcess, httpx.Client, Path, int]
"""A gateway whose log has left but for the end, where its lake is, and where its log begins in queue 0."""


def _produce(http: httpx.Client, first: int, count: int) -> None:
    large = [{"body": f"{number}" + "x" * 20_000, "keys": [f"k{number}"]} for number in range(first, first + count)]
    produce(http, "t", *large)


def _bodies(http: httpx.Client, offset: int = 0) -> list[int]:
    """The numbers of all messages from an offset on, by pulls."""
    found: list[int] = []
    while True:
        answer = pull(http, "t", 0, offset, max=16)
        found += [int(message["body"].rstrip("x")) for message in answer["messages"]]
        if answer["next_offset"] == answer["max_offset"]:
            return found
        assert answer["next_offset"] > offset, answer
        offset = answer["next_offset"]


@pytest.fixture(scope="module")
def begin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Scene]]:
    """One gateway for all tests, each with a lake made anew: what they do to it is of no use to others."""
    folder = tmp_path_factory.mktemp("faults")
    with start_gateway(folder / "data", lake__dir=folder / "lake", **OPTIONS) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        for number in range(0, 200, 25):
            _produce(http, number, 25)
        rest = Lake(folder / "whole", gateway.url)
        rows = rest.rows(0, http.get("/v1/broker").json()["max_position"])
        rest.close()
        end = rows.num_rows

        def make() -> Scene:
            other = folder / "lake"
            if other.exists():
                other.rename(folder / f"lake-{len(list(folder.iterdir()))}")
            lake = Lake(other, gateway.url, row_group_rows=7)
            for first in range(0, end, 40):
                lake.write(rows.slice(first, 40), min(first + 40, end))
            lake.close()
            assert http.put("/v1/broker/compacted", json={"compacted_position": end}).status_code == 200
            wait_until_all_left(http, folder / "data")
            erase_nothing(http)
            queue = http.get("/v1/topics/t").json()["queues"][0]
            return gateway, http, other, queue["log_min_offset"]

        yield make


def erase_nothing(http: httpx.Client) -> None:
    """The gateway forgets what it has read of the lake."""
    assert http.post("/v1/log/erasures", json={}).status_code == 200


def test_files_that_were_merged_and_vacuumed_meanwhile_are_no_matter(begin: Callable[[], Scene]) -> None:
    gateway, http, folder, _ = begin()
    assert _bodies(http) == list(range(200))
    lake = Lake(folder, gateway.url, row_group_rows=7)
    lake.optimize("topic", "store_time")
    lake.close()
    assert _bodies(http) == list(range(200))
    assert http.get("/v1/messages?topic=t&key=k7").json()["messages"][0]["queue_offset"] == 7


def test_what_was_deleted_from_the_lake_is_passed_over(begin: Callable[[], Scene]) -> None:
    gateway, http, folder, _ = begin()
    lake = Lake(folder, gateway.url, row_group_rows=7)
    lake.delete("queue_offset < 20 OR (queue_offset >= 50 AND queue_offset < 90)")
    lake.close()
    erase_nothing(http)
    assert pull(http, "t", 0, 0)["status"] == "offset_out_of_range"
    assert pull(http, "t", 0, 0)["next_offset"] == 20
    assert _bodies(http, 20) == [*range(20, 50), *range(90, 200)]
    assert http.get("/v1/topics/t").json()["queues"][0]["min_offset"] == 20
    answer = pull(http, "t", 0, 60, max=10)
    assert answer["next_offset"] == 100
    assert [message["queue_offset"] for message in answer["messages"]] == list(range(90, 100))


@pytest.mark.parametrize("how", ["cut", "garbage", "footer"])
def test_a_damaged_file_is_a_clear_error_and_no_row_of_it_is_answered(begin: Callable[[], Scene], how: str) -> None:
    _, http, folder, log_begins = begin()
    for path in (folder / "messages").glob("*.parquet"):
        content = path.read_bytes()
        middle = len(content) // 2
        path.write_bytes(
            {
                "cut": content[:middle],
                "garbage": content[:4] + b"\xff" * middle + content[4 + middle :],
                "footer": content[:-2000] + bytes(1992) + content[-8:],
            }[how]
        )
    response = http.get("/v1/topics/t/queues/0/messages?offset=3")
    assert is_problem(response, 503, "lake_unreadable")
    assert is_problem(http.get("/v1/messages?topic=t&key=k3"), 503, "lake_unreadable")
    message_id = pull(http, "t", 0, log_begins)["messages"][0]["message_id"]
    assert http.get(f"/v1/messages/{message_id}").status_code == 200
    assert _bodies(http, log_begins) == list(range(log_begins, 200))


def test_a_damaged_delta_log_is_a_clear_error(begin: Callable[[], Scene]) -> None:
    _, http, folder, log_begins = begin()
    for path in (folder / "consume_queue" / "_delta_log").glob("*.json"):
        path.write_text("{")
    erase_nothing(http)
    assert is_problem(http.get("/v1/topics/t/queues/0/messages?offset=3"), 503, "lake_unreadable")
    assert http.get("/v1/topics/t").json()["queues"][0]["min_offset"] == log_begins
    assert _bodies(http, log_begins) == list(range(log_begins, 200))


def _reads(http: httpx.Client) -> tuple[str, str, str]:
    """By offset, by id and by key."""
    by_id = f"/v1/messages/{message_id_at(http, 3)}"
    return "/v1/topics/t/queues/0/messages?offset=3", by_id, "/v1/messages?topic=t&key=k3"


@pytest.mark.parametrize("table", ["messages", "consume_queue", "message_index"])
def test_while_a_table_is_put_back_nobody_passes_over_history(begin: Callable[[], Scene], table: str) -> None:
    _, http, folder, _ = begin()
    (folder / table).rename(folder / "_away")
    erase_nothing(http)
    reads = _reads(http)
    of = {"messages": reads, "consume_queue": reads[:1], "message_index": reads[2:]}
    for path in of[table]:
        is_problem(http.get(path), 503, "lake_unreadable")
    (folder / "_away").rename(folder / table)
    erase_nothing(http)
    assert _bodies(http) == list(range(200))


def test_a_lake_that_holds_too_little_is_told(begin: Callable[[], Scene]) -> None:
    gateway, http, folder, _ = begin()
    folder.rename(folder.with_name("whole-lake"))
    lake = Lake(folder, gateway.url)
    lake.write(lake.rows(0, 0), 10)
    lake.close()
    erase_nothing(http)
    for path in _reads(http):
        is_problem(http.get(path), 503, "lake_unreadable")


def test_a_table_of_other_types_is_told(begin: Callable[[], Scene]) -> None:
    _, http, folder, _ = begin()
    shutil.rmtree(folder / "consume_queue")
    other = {"topic": ["t"], "queue_id": ["0"], "queue_offset": ["x"], "broker": ["broker-a"], "position": [1.5]}
    held = CommitProperties(app_transactions=[Transaction("lakemq-lake-broker-a", 10**6)])
    write_deltalake(folder / "consume_queue", pa.table(other), commit_properties=held)
    erase_nothing(http)
    is_problem(http.get(_reads(http)[0]), 503, "lake_unreadable")
