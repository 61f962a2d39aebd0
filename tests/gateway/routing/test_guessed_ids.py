"""Receipts and the ids of transactions that nobody was given: they do nothing, and nothing shows the right ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from lakemq.model.ids import split_nonce
from lakemq.model.names import HALF_TOPIC, OP_TOPIC, RECEIVE_TOPIC
from lakemq.storage.backup import back_up, restore
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, is_problem, produce, pull_all
from tests.gateway.receive.asking import ack, change, receive
from tests.gateway.routing.asking import begin, checks, decide, half_id, nack, position, resolve


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A gateway that checks no transaction by itself, however long a test takes."""
    options = {"transactions__timeout_ms": 3_600_000, "transactions__check_answer_ms": 3_600_000}
    with start_gateway(tmp_path_factory.mktemp("guessed"), **options) as gateway, connect(gateway) as client:
        yield client


def others(given: str, other: str) -> list[str]:
    """What somebody might try who knows the message id of one row, and has been given `other`."""
    message_id = split_nonce(given)[0]
    nonce = split_nonce(other)[1]
    return [message_id, f"{message_id}-{nonce}", f"{message_id}-{'0' * 16}", given[:-1], f"{given}0"]


def test_a_guessed_transaction_id_is_not_found_and_changes_nothing(http: httpx.Client, topic: str) -> None:
    first, second = begin(http, topic, "a", "b")
    for guess in others(first, second):
        for resolution in ("commit", "rollback", "unknown"):
            assert is_problem(resolve(http, guess, resolution), 404, "transaction_not_found")
    content = {"producer_group": "pg", "resolutions": [{"transaction_id": half_id(first), "resolution": "commit"}]}
    (result,) = http.post("/v1/transactions", json=content).json()["results"]
    assert result["status"] == "transaction_not_found"
    assert pull_all(http, topic) == []
    assert resolve(http, first, "commit").status_code == 200
    assert [message["body"] for message in pull_all(http, topic)] == ["a"]


def test_a_guessed_receipt_has_expired_and_changes_nothing(http: httpx.Client, topic: str) -> None:
    produce(http, topic, "a", "b")
    first, second = receive(http, f"g-{topic}", topic)
    guesses = others(first["receipt"], second["receipt"])
    assert ack(http, f"g-{topic}", *guesses) == ["receipt_expired"] * len(guesses)
    for guess in guesses:
        assert is_problem(change(http, f"g-{topic}", guess, 0), 409, "receipt_expired")
        assert nack(http, f"g-{topic}", {"receipt": guess}).json()["messages"][0]["status"] == "receipt_expired"
    changed = change(http, f"g-{topic}", first["receipt"], 60_000).json()["receipt"]
    assert ack(http, f"g-{topic}", changed, second) == ["ok", "ok"]


def test_nothing_that_is_read_shows_the_nonce_of_what_is_open(http: httpx.Client, topic: str) -> None:
    produce(http, topic, "a")
    group = f"g-{topic}"
    (held,) = receive(http, group, topic)
    (name,) = begin(http, topic, "b", group=group)
    assert resolve(http, name, "unknown", group).status_code == 200
    assert decide(http, "check", [position(name)])["accepted"] == 1
    (check,) = checks(http, group)
    assert (check["transaction_id"], check["message"]["transaction_id"]) == (name, name)
    assert check["message"]["message_id"] == half_id(name)
    nonces = [split_nonce(name)[1], split_nonce(held["receipt"])[1]]
    columns = "message_id,topic,body,properties,keys,tag,origin_message_id,transaction_id,group,cause"
    end = http.get("/v1/log/end").json()["end_position"]
    log = http.get("/v1/log/messages", params={"from": 0, "to": end, "columns": columns, "bytes_max": 2**24})
    rows = pa.ipc.open_stream(log.content).read_all().to_pylist()
    shown = str([row for row in rows if row["topic"] in (HALF_TOPIC, OP_TOPIC, RECEIVE_TOPIC, topic)])
    shown += "".join(str(pull_all(http, each)) for each in (HALF_TOPIC, OP_TOPIC, RECEIVE_TOPIC, topic))
    shown += http.get(f"/v1/messages/{half_id(name)}").text + http.get(f"/v1/groups/{group}").text
    shown += http.get("/v1/routing").text + http.get("/v1/broker").text + http.get("/metrics").text
    assert half_id(name) in shown
    assert not [nonce for nonce in nonces if nonce in shown]


def test_what_was_given_is_known_after_a_crash_and_to_no_restored_log(tmp_path: Path) -> None:
    options: dict[str, Any] = {"topics__default_queues": 1, "storage__flush_interval_ms": 20}
    with start_gateway(tmp_path / "data", **options) as gateway, connect(gateway) as http:
        produce(http, "t", "a", "b", ack="sync")
        first, second = receive(http, "g", "t")
        kept, later = begin(http, "t", "c", "d")
        produce(http, "t", "e", ack="sync")
        back_up(tmp_path / "data", tmp_path / "lake", tmp_path / "copy", "broker-a")
        gateway.kill()
    restore(tmp_path / "copy", tmp_path / "restored", tmp_path / "no-lake")
    for index in (tmp_path / "data").rglob("*.idx"):
        index.unlink()
    with start_gateway(tmp_path / "data", **options) as gateway, connect(gateway) as http:
        assert resolve(http, kept, "commit").status_code == 200
        assert ack(http, "g", first) == ["ok"]
        log_id = http.get("/v1/broker").json()["log_id"]
    with start_gateway(tmp_path / "restored", **options) as gateway, connect(gateway) as http:
        now = http.get("/v1/broker").json()["log_id"]
        for each in (kept, later):  # as they are, and as if they were of this log
            assert is_problem(resolve(http, each, "commit"), 404, "transaction_not_found")
            guess = each.replace(log_id.replace("-", "")[:12], now.replace("-", "")[:12])
            assert is_problem(resolve(http, guess, "commit"), 404, "transaction_not_found")
        assert http.get("/v1/routing").json()["transactions"]["open"] == 2
        assert ack(http, "g", first, second) == ["receipt_expired"] * 2
