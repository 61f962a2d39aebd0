"""What readers are told of messages that a power cut took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakemq.gateway.holes import offsets_without, positions_without, to_header
from lakemq.testing import start_gateway
from tests.gateway.http import connect, produce

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
        log = http.get("/v1/log/messages", params={"from": 0, "to": 2**62})
        begin, last = map(int, log.headers["lakemq-holes"].split("-"))
        assert (first["messages"][0]["position"] < begin, last) == (True, placed["position"] - 1)
        group = http.get("/v1/groups/g").json()
        assert group["lag_total"] == 2
        lost = http.get(f"/v1/messages/{placed['message_id'].rpartition('.')[0]}.{begin}")
        assert (lost.status_code, lost.json()["code"]) == (404, "message_not_found")


def test_ranges_are_what_is_not_there() -> None:
    assert offsets_without([], 3, 3) == []
    assert offsets_without([], 3, 9) == [(3, 9)]
    assert positions_without([], 0, 2) == [(0, 2)]
    assert to_header([(3, 8), (9, 10)]) == b"3-7,9-9"
    assert to_header([(at, at + 1) for at in range(0, 400, 2)]).endswith(b"254-254,more")
