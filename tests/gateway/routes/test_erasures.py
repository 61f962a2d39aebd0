"""`POST /v1/log/erasures`: who pulls, looks up or reads the log passes over what was erased."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, is_problem, produce, pull, put_topic, read_arrow
from tests.gateway.routing.asking import position


def erase(http: httpx.Client, **what: object) -> dict[str, int]:
    response = http.post("/v1/log/erasures", json=what)
    assert response.status_code == 200, response.text
    return response.json()


def test_pulls_and_look_ups_pass_over_what_was_erased_also_after_a_crash(tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        placed = produce(http, "t", *[{"body": f"secret {n}", "keys": ["k"], "tag": "T"} for n in range(10)])
        gone = [placed[number]["position"] for number in (0, 3, 4, 9)]
        assert erase(http, positions=gone) | {"segments": []} == {"erased": 4, "holes": 0, "below": 0, "segments": []}
        assert erase(http, ranges=[[gone[1], gone[2] + 1]])["holes"] == 2
        produce(http, "t", "after")
        _check(http, placed)
        assert http.get("/v1/messages?topic=t&key=k").json()["messages"][0]["body"] == "secret 8"
        gateway.kill()
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        _check(http, placed)
        (late,) = produce(http, "t", "later")
        assert late["queue_offset"] == 11
    assert b"secret 3" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def _check(http: httpx.Client, placed: list[dict[str, int]]) -> None:
    offsets = [1, 2, 5, 6, 7, 8, 10]
    found, offset = list[int](), 0
    while offset < 11:
        answer = pull(http, "t", 0, offset, max=2)
        assert answer["next_offset"] > offset
        found += [message["queue_offset"] for message in answer["messages"]]
        offset = answer["next_offset"]
    assert found == offsets
    assert [each["queue_offset"] for each in pull(http, "t", 0, 0, tags="T")["messages"]] == offsets[:-1]
    assert is_problem(http.get(f"/v1/messages/{placed[3]['message_id']}"), 404, "message_not_found")
    end = http.get("/v1/broker").json()["max_position"]
    table = read_arrow(http.get(f"/v1/log/messages?from=0&to={end}&topics=t").content)
    assert table["queue_offset"].to_pylist() == offsets


def test_messages_of_the_segment_that_is_written_are_erased_while_others_are_produced(http: httpx.Client) -> None:
    put_topic(http, "busy")
    bodies: list[str] = []
    for number in range(10):
        (placed,) = produce(http, "busy", f"gone {number}")
        produce(http, "busy", f"kept {number}")
        bodies.append(f"kept {number}")
        assert erase(http, positions=[placed["position"]])["erased"] == 1
    assert [message["body"] for message in pull(http, "busy")["messages"]] == bodies


@pytest.mark.parametrize("restart", [False, True])
def test_a_half_that_is_erased_ends_its_transaction_and_no_commit_brings_it_back(tmp_path: Path, restart: bool) -> None:
    with start_gateway(tmp_path / "data") as gateway, connect(gateway) as http:
        begun = http.post("/v1/topics/t/transactions?producer_group=pg", json={"messages": [{"body": "secret"}] * 2})
        erased, other = begun.json()["transactions"]
        if restart:
            gateway.kill()
            with start_gateway(tmp_path / "data") as again, connect(again) as later:
                _erase_half(later, erased, other)
        else:
            _erase_half(http, erased, other)


def _erase_half(http: httpx.Client, erased: dict[str, str], other: dict[str, str]) -> None:
    assert erase(http, positions=[position(erased["message_id"])])["erased"] == 1
    commit = {"producer_group": "pg", "resolution": "commit"}
    refused = http.post(f"/v1/transactions/{erased['transaction_id']}", json=commit)
    assert is_problem(refused, 409, "transaction_resolved")
    assert http.post(f"/v1/transactions/{other['transaction_id']}", json=commit).status_code == 200
    found = [pull(http, "t", queue["queue_id"])["messages"] for queue in http.get("/v1/topics/t").json()["queues"]]
    assert sum(map(len, found)) == 1
    assert http.get("/v1/routing").json()["transactions"]["open"] == 0


@pytest.mark.parametrize(
    "body",
    [
        {"positions": [2**62]},
        {"positions": [-1]},
        {"positions": [2**64]},
        {"positions": "1"},
        {"positions": [1.5]},
        {"ranges": [[1]]},
        {"ranges": [[0, 2**62]]},
        {"ranges": [[5, 4]], "else": 1},
        [],
    ],
)
def test_what_makes_no_sense_is_refused(http: httpx.Client, body: object) -> None:
    assert is_problem(http.post("/v1/log/erasures", json=body), 400, "invalid_request")


def test_nothing_to_erase_is_fine(http: httpx.Client) -> None:
    produce(http, "whatever", *["x"] * 8)  # the ranges must not lie beyond the log's end
    expected = {"erased": 0, "holes": 0, "below": 0, "segments": []}
    assert erase(http) == expected
    assert erase(http, ranges=[[5, 5], [7, 3]], positions=[]) == expected
