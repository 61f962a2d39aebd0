"""What readers are told of messages that a power cut took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.storage.slices.holes import offsets_without, positions_without, to_header
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, is_problem, produce, read_arrow
from tests.gateway.receive.asking import ack, receive

OPTIONS: dict[str, Any] = {"storage__memory_survives": False, "topics__default_queues": 1}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with a message, a tail that may be lost, and a message."""
    path = tmp_path_factory.mktemp("lost") / "data"
    with start_gateway(path, **OPTIONS) as gateway, connect(gateway) as http:
        produce(http, "t", "before")
        http.put("/v1/groups/g/offsets", json={"offsets": [{"topic": "t", "queue_id": 0, "offset": 0}]})
        gateway.kill()
    return path


def test_a_gap_is_said_and_no_lag(data_dir: Path) -> None:
    with start_gateway(data_dir, **OPTIONS) as gateway, connect(gateway) as http:
        (placed,) = produce(http, "t", "after")
        end = placed["queue_offset"]
        assert end > 1
        assert http.get("/v1/broker").json()["epoch"] == 2
        pull = "/v1/topics/t/queues/0/messages"
        first = http.get(pull, params={"offset": 0}).json()
        assert ([message["body"] for message in first["messages"]], first["next_offset"]) == (["before"], 32)
        assert first["holes"] == [[1, 32]]
        assert "holes" not in http.get(pull, params={"offset": 0, "max": 1}).json()
        second = http.get(pull, params={"offset": 32}).json()
        assert [message["body"] for message in second["messages"]] == ["after"]
        assert (second["next_offset"], second["holes"]) == (end + 1, [[32, end]])
        told = http.get(pull, params={"offset": 5}, headers={"accept": "application/x-ndjson"})
        assert told.headers["lakemq-holes"] == f"5-{end - 1}"
        tagged = http.get(pull, params={"offset": 0, "tags": "none"}).json()
        assert (tagged["messages"], tagged["next_offset"], tagged["holes"]) == ([], end + 1, [[1, end]])
        received = http.post("/v1/groups/r/receive", json={"topic": "t", "wait_ms": 0}).json()
        assert received["gaps"] == [{"topic": "t", "queue_id": 0, "begin": 1, "end": end}]
        log = http.get("/v1/log/messages", params={"from": 0, "to": 2**62})
        begin, last = map(int, log.headers["lakemq-holes"].split("-"))
        assert (first["messages"][0]["position"] < begin, last) == (True, placed["position"] - 1)
        _a_reader_of_few_passes_over(http, begin, last + 1)
        group = http.get("/v1/groups/g").json()
        assert group["lag_total"] == 2
        lost = http.get(f"/v1/messages/{placed['message_id'].rpartition('.')[0]}.{begin}")
        assert (lost.status_code, lost.json()["code"]) == (404, "message_not_found")


def _a_reader_of_few_passes_over(http: httpx.Client, hole: int, after: int) -> None:
    """Who takes ten messages at a time, such as a query of Spark's, doesn't walk what may be 2^32 positions."""
    seen, reached, steps = list[int](), 0, 0
    while reached <= after:
        before, reached = reached, http.get("/v1/log/end", params={"from": reached, "max": 10}).json()["end_position"]
        assert reached - before <= 10 or reached == after, (before, reached)
        rows = http.get("/v1/log/messages", params={"from": before, "to": reached, "columns": "position"})
        seen += [row["position"] for row in read_arrow(rows.content).to_pylist()]
        steps += 1
        assert steps < 10
    assert seen[: hole + 1] == [*range(hole), after]


def test_what_was_told_before_never_means_something_else(tmp_path: Path) -> None:
    """A power cut takes what was told of a message, a half and a receipt; others are at their positions."""
    options: dict[str, Any] = {**OPTIONS, "storage__flush_interval_ms": 60_000}
    path = tmp_path / "data"
    with start_gateway(path, **options) as gateway, connect(gateway) as http:
        produce(http, "t", "kept")
        half: dict[str, Any] = {"content": "half", "params": {"producer_group": "pg"}}
        http.post("/v1/topics/t/transactions", **half)
        (held,) = receive(http, "g", "t")
        gateway.kill()
    segment = next((path / "commitlog").glob("*.log"))
    whole = segment.read_bytes()
    with start_gateway(path, **options) as gateway, connect(gateway) as http:
        (placed,) = produce(http, "t", "lost")
        transaction = http.post("/v1/topics/t/transactions", **half).json()["transactions"][0]
        (other,) = receive(http, "g", "t")
        gateway.kill()
    segment.write_bytes(whole)
    for name in ("FLUSHED", segment.with_suffix(".idx").name):
        segment.with_name(name).unlink(missing_ok=True)
    with start_gateway(path, **options) as gateway, connect(gateway) as http:
        for _ in range(5):
            produce(http, "t", "another")
            http.post("/v1/topics/t/transactions", **half)
        assert http.get(f"/v1/messages/{held['message_id']}").json()["body"] == "kept"
        _all_are_unknown(http, placed["message_id"], transaction["transaction_id"], other["receipt"])
    (path / "commitlog").rename(tmp_path / "away")
    with start_gateway(path, **options) as gateway, connect(gateway) as http:
        produce(http, "t", *["of another log"] * 40)
        _all_are_unknown(http, placed["message_id"], transaction["transaction_id"], other["receipt"])
        assert http.get("/v1/broker").json()["max_position"] > held["position"]
        _all_are_unknown(http, held["message_id"], held["receipt"], held["receipt"])


def _all_are_unknown(http: httpx.Client, message_id: str, transaction_id: str, receipt: str) -> None:
    assert is_problem(http.get(f"/v1/messages/{message_id}"), 404, "message_not_found")
    assert is_problem(http.delete(f"/v1/messages/{message_id}"), 404, "message_not_found")
    nack = {"client_id": "c", "messages": [{"message_id": message_id}]}
    assert is_problem(http.post("/v1/groups/g/nacks", json=nack), 404, "message_not_found")
    commit = {"producer_group": "pg", "resolution": "commit"}
    answer = http.post(f"/v1/transactions/{transaction_id}", json=commit)
    assert is_problem(answer, 404, "transaction_not_found")
    assert is_problem(http.get(f"/v1/redrives/{message_id}"), 404, "redrive_not_found")
    change = {"receipt": receipt, "invisible_ms": 1_000}
    assert is_problem(http.post("/v1/groups/g/invisibility", json=change), 409, "receipt_expired")
    assert ack(http, "g", receipt) == ["receipt_expired"]


def test_ranges_are_what_is_not_there() -> None:
    assert offsets_without([], 3, 3) == []
    assert offsets_without([], 3, 9) == [(3, 9)]
    assert positions_without([], 0, 2) == [(0, 2)]
    assert to_header([(3, 8), (9, 10)]) == b"3-7,9-9"
    assert to_header([(at, at + 1) for at in range(0, 400, 2)]).endswith(b"254-254,more")
