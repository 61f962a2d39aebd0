"""A log that is full and may drop its oldest takes messages on, and says what is gone and to whom."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.storage.mend.repair import repair_log
from lakemq.storage.segment.frame import MAGIC
from lakemq.testing import start_gateway
from tests.gateway.cold.lakes import DROPS, Lake
from tests.gateway.http_client import connect, produce, pull, pull_all, put_topic
from tests.gateway.receive.asking import ack, receive
from tests.gateway.routing.asking import begin, nack, position, resolve, wait_until

OPTIONS: dict[str, Any] = DROPS | {
    "storage__cache_bytes": 0,
    "transactions__halves_bytes_max": 0,
    "transactions__timeout_ms": 600_000,
}


def broker_of(http: httpx.Client) -> dict[str, Any]:
    return http.get("/v1/broker").json()


def fill(http: httpx.Client, beyond: int) -> None:
    """Produce until the log begins beyond a position. None is refused."""
    while broker_of(http)["min_position"] <= beyond:
        produce(http, "filling", "x" * 300_000)


def until_nothing_must_go(data: Path) -> None:
    """Wait until there is room for a segment more: what has to make room is dropped beside what is produced."""
    most = DROPS["storage__log_bytes_max"] - DROPS["storage__segment_bytes"]

    def is_settled() -> bool:
        size = 0
        for path in data.rglob("*.log"):
            with suppress(FileNotFoundError):  # it went just now
                size += path.stat().st_size
        return size <= most

    wait_until(is_settled, "the log stays too large")


def commit(http: httpx.Client, group: str, offset: int) -> None:
    content = {"offsets": [{"topic": "t", "queue_id": 0, "offset": offset}]}
    assert http.put(f"/v1/groups/{group}/offsets", json=content).is_success


def metric(http: httpx.Client, name: str) -> float:
    lines = http.get("/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith(name + " ")).split()[1])


def delayed(http: httpx.Client, body: str, delay_ms: int) -> dict[str, Any]:
    (message,) = produce(http, "t", {"body": body, "delay_ms": delay_ms})
    return message


def test_what_waits_in_what_is_dropped_moves_on_or_ends_and_nothing_is_skipped_in_silence(tmp_path: Path) -> None:
    """Without a lake: nothing ever left the log, and a full one refused all."""
    options = {**OPTIONS, "lake__dir": tmp_path / "none"}
    with start_gateway(tmp_path / "data", **options) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        produce(http, "t", *[str(number) for number in range(20)])
        (half,) = begin(http, "t", "half")
        later = delayed(http, "later", 3_600_000)
        (handed,) = receive(http, "g", "t", max=1, invisible_ms=600_000)
        commit(http, "pulls", 5)
        last = position(later["message_id"])
        fill(http, last)
        (line,) = [each for each in http.get("/readyz").json()["degraded"] if each.startswith("the log was full")]
        assert "storage.when_full" in line
        said = "the log is full: positions 0 to "
        wait_until(lambda: any(said in line and "1 open transactions" in line for line in gateway.log))
        broker = broker_of(http)
        assert broker["lake"]["dropped"] == [[0, broker["min_position"]]]
        assert metric(http, "lakemq_dropped_messages_total") >= broker["min_position"]
        # Groups are told.
        assert pull(http, "t", 0, 5, group="pulls")["status"] == "offset_out_of_range"
        assert http.get("/v1/groups/pulls").json()["gaps"] == [{"topic": "t", "queue_id": 0, "begin": 5, "end": 20}]
        assert receive(http, "g", "t") == []
        assert http.get("/v1/groups/g").json()["gaps"] == [{"topic": "t", "queue_id": 0, "begin": 1, "end": 20}]
        assert metric(http, "lakemq_gap_messages_total") == 34
        assert ack(http, "g", handed) == ["ok"]
        # What waited.
        wait_until(lambda: has_ended(resolve(http, half, "commit")))
        assert http.get("/v1/routing").json()["delay"]["begin_position"] >= broker["min_position"]
        assert http.delete(f"/v1/messages/{later['message_id']}").json()["recalled"] is True
        assert gateway.stop() == 0
    with start_gateway(tmp_path / "data", **options) as gateway, connect(gateway) as http:
        assert broker_of(http)["lake"]["dropped"][0][0] == 0
        assert has_ended(resolve(http, half, "commit"))
        fill(http, broker_of(http)["min_position"])


def has_ended(response: httpx.Response) -> bool:
    """How it ended is known until the log is tidied next, as its half has left it."""
    return response.status_code >= 400 and response.json()["code"] in ("transaction_resolved", "transaction_not_found")


@pytest.fixture
def lagging(tmp_path: Path) -> dict[str, Any]:
    return {**OPTIONS, "lake__dir": tmp_path / "lake", "data": tmp_path / "data"}


def test_history_goes_on_across_the_gap_in_a_lake_that_lagged_behind(lagging: dict[str, Any]) -> None:
    """Reads of what the lake holds were refused, as it doesn't reach the log's begin."""
    data = lagging.pop("data")
    with start_gateway(data, **lagging) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        for number in range(10):
            produce(http, "t", str(number))
        lake = Lake(lagging["lake__dir"], gateway.url)
        lake.compact(http)
        held = lake.held
        commit(http, "p", 0)
        for number in range(10, 20):
            produce(http, "t", f"{number} gone")
        nacked = produce(http, "t", "to be nacked")[0]["message_id"]
        assert nack(http, "n", nacked).is_success
        fill(http, broker_of(http)["max_position"])
        until_nothing_must_go(data)
        broker = broker_of(http)
        begins = broker["min_position"]
        assert broker["lake"]["dropped"] == [[held, begins]]
        produce(http, "t", "after")
        assert [each["body"] for each in pull_all(http, "t")][:10] == [str(number) for number in range(10)]
        assert pull(http, "t", 0, 9, group="p", max=5)["messages"][0]["body"] == "9"
        found = pull(http, "t", 0, 10, group="p", wait_ms=1000)
        assert (found["status"], found["messages"][0]["body"]) == ("found", "after")
        assert http.get("/v1/groups/p").json()["gaps"] == [{"topic": "t", "queue_id": 0, "begin": 10, "end": 21}]
        assert len(receive(http, "r", "t", max=10)) == 10
        assert [each["body"] for each in receive(http, "r", "t", max=5)] == ["after"]
        assert http.get("/v1/groups/r").json()["gaps"] == [{"topic": "t", "queue_id": 0, "begin": 10, "end": 21}]
        # The jobs go on where the log begins: then all is as it was, but for the hole.
        end = broker_of(http)["max_position"]
        lake.write(lake.rows(begins, end), end)
        http.put("/v1/broker/compacted", json={"compacted_position": end})
        wait_until(lambda: not any("the log was full" in line for line in http.get("/readyz").json()["degraded"]))
        fill(http, begins)
        lake.close()
        assert [each["body"] for each in pull_all(http, "t")] == [*map(str, range(10)), "after"]


def damage(data: Path, body: bytes, *, of_header: bool) -> None:
    """Damage the frame that holds the body: its payload, or so that not even its header can be read."""
    (path,) = [each for each in data.rglob("*.log") if body in each.read_bytes()]
    content = bytearray(path.read_bytes())
    at = content.index(body)
    content[content.rindex(MAGIC, 0, at) if of_header else at] ^= 1
    path.write_bytes(content)


def receive_all(http: httpx.Client, bodies: list[str]) -> None:
    """Receive and acknowledge until there is nothing more: just these bodies, each once."""
    found: list[str] = []
    while messages := receive(http, "g", "t", max=7):
        found += [each["body"] for each in messages]
        assert set(ack(http, "g", *messages)) == {"ok"}
    assert found == bodies


@pytest.mark.parametrize("of_header", [False, True])
def test_what_was_dropped_and_what_a_repair_lost_are_counted_once_and_nothing_comes_twice(
    tmp_path: Path, of_header: bool
) -> None:
    data, options = tmp_path / "data", {**OPTIONS, "lake__dir": tmp_path / "none"}
    with start_gateway(data, **options) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        produce(http, "t", *[f"dropped {number}" for number in range(20)])
        assert set(ack(http, "g", *receive(http, "g", "t", max=1))) == {"ok"}
        fill(http, 20)
        first = produce(http, "t", *[f"damaged {number}" for number in range(20, 30)])[0]["position"]
        produce(http, "t", *[f"kept {number}" for number in range(30, 40)])
        for _ in range(5):  # what is damaged is in no segment that is written
            produce(http, "filling", "x" * 300_000)
        last = produce(http, "t", "the last")[0]
        until_nothing_must_go(data)
        dropped = broker_of(http)["lake"]["dropped"]
        assert dropped == [[0, broker_of(http)["min_position"]]]
        assert dropped[0][1] <= first
        assert gateway.stop() == 0
    damage(data, b"damaged 25", of_header=of_header)
    repaired = repair_log(data)
    assert (repaired.positions_lost, len(repaired.damages)) == (10, 1)
    bodies = [*[f"kept {number}" for number in range(30, 40)], "the last"]
    with start_gateway(data, **options) as gateway, connect(gateway) as http:
        assert broker_of(http)["lake"]["dropped"] == dropped
        receive_all(http, bodies)
        assert metric(http, "lakemq_gap_messages_total") == 19 + 10
        gaps = http.get("/v1/groups/g").json()["gaps"]
        assert [(each["begin"], each["end"]) for each in gaps] in ([(1, 30)], [(1, 20), (20, 30)])
        (after,) = produce(http, "t", "after")
        assert (after["position"] > last["position"], after["queue_offset"] > last["queue_offset"]) == (True, True)
        receive_all(http, ["after"])
        assert metric(http, "lakemq_gap_messages_total") == 19 + 10
        gateway.kill()
    with start_gateway(data, **options) as gateway, connect(gateway) as http:
        receive_all(http, [])
        assert metric(http, "lakemq_gap_messages_total") == 0
        assert [each["body"] for each in pull_all(http, "t")] == [*bodies, "after"]
