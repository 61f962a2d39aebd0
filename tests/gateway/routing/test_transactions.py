"""Transactions: halves, resolutions, checks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from lakemq.model.names import HALF_TOPIC
from lakemq.testing import start_gateway
from tests.gateway.http_client import (
    ARROW,
    ask_and_go,
    connect,
    is_problem,
    produce,
    pull_all,
    put_topic,
    write_arrow,
)
from tests.gateway.routing.asking import begin, checks, decide, half_id, nack, position, resolve, wait_until

HOUR_MS = 3_600_000


def bodies(http: httpx.Client, topic: str) -> list[str]:
    if http.get(f"/v1/topics/{topic}").status_code == 404:
        return []
    return [message["body"] for message in pull_all(http, topic)]


def test_a_half_is_seen_once_it_is_committed_and_never_when_rolled_back(http: httpx.Client, topic: str) -> None:
    committed, rolled_back, open_still = begin(http, topic, "c", "r", "o")
    assert bodies(http, topic) == []
    assert resolve(http, committed, "commit").status_code == 200
    assert resolve(http, rolled_back, "rollback").status_code == 200
    assert resolve(http, open_still, "unknown").status_code == 200
    (message,) = pull_all(http, topic)
    assert (message["body"], message["transaction_id"]) == ("c", committed)
    assert message["origin_message_id"] == half_id(committed)
    assert "real_topic" not in message


def test_the_same_resolution_again_is_fine_and_the_opposite_is_not(http: httpx.Client, topic: str) -> None:
    first, second = begin(http, topic, "a", "b")
    for transaction_id, resolution, opposite in ((first, "commit", "rollback"), (second, "rollback", "commit")):
        assert resolve(http, transaction_id, resolution).status_code == 200
        assert resolve(http, transaction_id, resolution).status_code == 200
        assert resolve(http, transaction_id, "unknown").status_code == 200
        assert is_problem(resolve(http, transaction_id, opposite), 409, "transaction_resolved")
    assert bodies(http, topic) == ["a"]


def test_many_are_resolved_at_once_with_a_status_for_each(http: httpx.Client, topic: str) -> None:
    ids = begin(http, topic, "a", "b", "c")
    resolve(http, ids[2], "rollback")
    wanted = [(ids[0], "commit"), (ids[1], "rollback"), (ids[2], "commit"), ("broker-a.0", "commit"), (ids[0], "nix")]
    resolutions = [{"transaction_id": name, "resolution": resolution} for name, resolution in wanted]
    response = http.post("/v1/transactions", json={"producer_group": "pg", "resolutions": resolutions})
    statuses = [(each["transaction_id"], each["status"]) for each in response.json()["results"]]
    assert statuses == [
        (ids[0], "ok"),
        (ids[1], "ok"),
        (ids[2], "transaction_resolved"),
        ("broker-a.0", "transaction_not_found"),
        (ids[0], "invalid_request"),
    ]
    assert bodies(http, topic) == ["a"]


def test_halves_come_in_every_form(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, queues=2)
    columns = {"body": pa.array([b"0", b"1"], pa.binary()), "queue_id": pa.array([1, 0], pa.int32())}
    query = {"producer_group": "pg"}
    path = f"/v1/topics/{topic}/transactions"
    answer = http.post(path, content=write_arrow(columns), headers={"Content-Type": ARROW}, params=query).json()
    ids = [each["transaction_id"] for each in answer["transactions"]]
    raw = http.post(path, content=b"raw", headers={"Lakemq-Tag": "T"}, params=query).json()
    ids.append(raw["transactions"][0]["transaction_id"])
    for transaction_id in ids:
        assert resolve(http, transaction_id, "commit").status_code == 200
    messages = {message["transaction_id"]: message for message in pull_all(http, topic)}
    assert [messages[name]["body"] for name in ids] == ["0", "1", "raw"]
    assert [messages[name]["queue_id"] for name in ids[:2]] == [1, 0]
    assert messages[ids[2]]["tag"] == "T"


@pytest.mark.parametrize("delay", [{"delay_level": 1}, {"delay_ms": 1}, {"deliver_at_ms": 1}])
def test_a_half_with_a_delay_is_refused(http: httpx.Client, topic: str, delay: dict[str, int]) -> None:
    content = {"messages": [{"body": "x", **delay}]}
    response = http.post(f"/v1/topics/{topic}/transactions", json=content, params={"producer_group": "pg"})
    assert is_problem(response, 400, "invalid_request")


def test_what_is_no_transaction_is_said_to_be_none(http: httpx.Client, topic: str) -> None:
    (plain,) = produce(http, topic, "x")
    for transaction_id in (plain["message_id"], "broker-a.99999999", "other.1", "nix"):
        assert is_problem(resolve(http, transaction_id, "commit"), 404, "transaction_not_found")
    (name,) = begin(http, topic, "y")
    assert is_problem(resolve(http, name, "perhaps"), 400, "invalid_request")
    assert is_problem(resolve(http, name, "commit", group="another"), 400, "invalid_request")
    assert is_problem(http.post(f"/v1/topics/{topic}/transactions", json={}), 400, "invalid_request")
    for body in (b"", b"[]", b"{}", b'{"producer_group": 1, "resolution": "commit"}', b"\xff" * 100_000):
        response = http.post(f"/v1/transactions/{name}", content=body, headers={"Content-Type": "application/json"})
        assert response.status_code in (400, 413), response.text


def test_a_request_with_a_key_begins_once(http: httpx.Client, topic: str) -> None:
    content = {"messages": [{"body": "x"}]}
    headers = {"Idempotency-Key": topic}
    query = {"producer_group": "pg"}
    answers = [
        http.post(f"/v1/topics/{topic}/transactions", json=content, params=query, headers=headers).json()
        for _ in range(2)
    ]
    assert answers[0] == answers[1]
    query = {"producer_group": "other"}
    other = http.post(f"/v1/topics/{topic}/transactions", json=content, params=query, headers=headers)
    assert other.json() != answers[0]


def test_a_check_reaches_one_client_and_whoever_answers_it_ends_it(tmp_path: Path) -> None:
    options = {"transactions__check_answer_ms": HOUR_MS, "transactions__timeout_ms": HOUR_MS}
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http, ThreadPoolExecutor(1) as pool:
        (name,) = begin(http, "t", "x")
        asking = pool.submit(checks, http, client_id="c1", wait_ms=50_000)
        assert decide(http, "check", [position(name)]) == {"accepted": 1, "ignored": 0}
        (check,) = asking.result()
        assert (check["transaction_id"], check["check_times"], check["message"]["body"]) == (name, 1, "x")
        assert check["message"]["topic"] == "t"
        assert checks(http, client_id="c2") == []  # c1 may still answer
        assert resolve(http, name, "commit").status_code == 200
        assert bodies(http, "t") == ["x"]
        assert checks(http, client_id="c2") == []


def test_a_client_that_has_gone_is_given_no_check(tmp_path: Path) -> None:
    """Regression: the long poll of a killed client took the next check with it."""
    options = {"transactions__check_answer_ms": HOUR_MS, "transactions__timeout_ms": HOUR_MS}
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http:
        (name,) = begin(http, "t", "x")
        ask_and_go(gateway, http, "GET", "/v1/producer-groups/pg/checks?wait_ms=60000")
        decide(http, "check", [position(name)])
        assert [check["transaction_id"] for check in checks(http, wait_ms=50_000)] == [name]


def test_an_unanswered_check_is_offered_to_the_next(tmp_path: Path) -> None:
    with (
        start_gateway(tmp_path, transactions__check_answer_ms=100, transactions__timeout_ms=HOUR_MS) as gateway,
        connect(gateway) as http,
    ):
        (name,) = begin(http, "t", "x")
        decide(http, "check", [position(name)])
        assert len(checks(http, client_id="c1")) == 1
        assert [check["transaction_id"] for check in checks(http, client_id="c2", wait_ms=50_000)] == [name]


def test_checks_count_up_until_the_transaction_is_given_up(tmp_path: Path) -> None:
    with (
        start_gateway(tmp_path, transactions__check_answer_ms=1, transactions__timeout_ms=HOUR_MS) as gateway,
        connect(gateway) as http,
    ):
        (name,) = begin(http, "t", "x")
        for number in range(1, 4):
            begun = http.get("/v1/routing").json()["transactions"]["begin_position"]
            assert decide(http, "check", [begun])["accepted"] == 1
            assert decide(http, "check", [begun])["accepted"] == 0
            assert [check["check_times"] for check in checks(http, wait_ms=50_000)] == [number]
        gateway.kill()
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        assert [check["check_times"] for check in checks(http)] == [3]
        begun = http.get("/v1/routing").json()["transactions"]["begin_position"]
        assert decide(http, "give_up", [begun])["accepted"] == 1
        (kept,) = pull_all(http, "RMQ_SYS_TRANS_CHECK_MAX_TIME")
        assert (kept["body"], kept["transaction_id"], kept["real_topic"]) == ("x", name, "t")
        assert resolve(http, name, "rollback").status_code == 200
        assert is_problem(resolve(http, name, "commit"), 409, "transaction_resolved")
        assert bodies(http, "t") == []


def test_without_a_lead_the_query_decides_and_an_operation_outdoes_a_check(tmp_path: Path) -> None:
    with start_gateway(tmp_path, routing__lead_ms=0, routing__grace_ms=-1) as gateway, connect(gateway) as http:
        first, second, third = begin(http, "t", "a", "b", "c")
        assert resolve(http, first, "commit").status_code == 200
        assert resolve(http, second, "rollback").status_code == 200
        assert resolve(http, third, "commit").status_code == 200
        assert is_problem(resolve(http, first, "rollback"), 409, "transaction_resolved")
        assert bodies(http, "t") == []
        gateway.kill()
    with start_gateway(tmp_path, routing__lead_ms=0, routing__grace_ms=-1) as gateway, connect(gateway) as http:
        assert decide(http, "commit", [position(first)])["accepted"] == 1
        assert decide(http, "check", [position(second)])["accepted"] == 1
        assert decide(http, "give_up", [position(third)])["accepted"] == 1
        assert bodies(http, "t") == ["a", "c"]
        assert http.get("/v1/routing").json()["transactions"]["open"] == 0
        assert pull_all(http, "RMQ_SYS_TRANS_OP_HALF_TOPIC")[0]["tag"] == "commit"


def test_a_transaction_of_a_deleted_topic_commits_to_nowhere(http: httpx.Client, topic: str) -> None:
    (name,) = begin(http, topic, "x")
    http.delete(f"/v1/topics/{topic}")
    assert resolve(http, name, "commit").status_code == 200
    assert resolve(http, name, "commit").status_code == 200
    assert is_problem(resolve(http, name, "rollback"), 409, "transaction_resolved")


def test_opposite_resolutions_at_once_end_in_one_of_them(http: httpx.Client, topic: str) -> None:
    for name in begin(http, topic, *(str(number) for number in range(20))):
        answers: dict[str, int] = {}

        def answer(resolution: str, name: str = name, answers: dict[str, int] = answers) -> None:
            answers[resolution] = resolve(http, name, resolution).status_code

        threads = [threading.Thread(target=answer, args=(each,)) for each in ("commit", "rollback")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers.values()) == [200, 409]
        seen = [message["transaction_id"] for message in pull_all(http, topic)]
        assert seen.count(name) == (answers["commit"] == 200)


def test_a_committed_message_can_be_nacked(http: httpx.Client, topic: str) -> None:
    (name,) = begin(http, topic, "x")
    resolve(http, name, "commit")
    (message,) = pull_all(http, topic)
    assert nack(http, f"g-{topic}", {"message_id": message["message_id"], "delay_level": -1}).status_code == 200
    (dead,) = pull_all(http, f"%DLQ%g-{topic}")
    assert (dead["transaction_id"], dead["origin_message_id"]) == (name, half_id(name))


def test_too_many_open_transactions_are_flow_control(tmp_path: Path) -> None:
    with start_gateway(tmp_path, transactions__open_max=1) as gateway, connect(gateway) as http:
        (name,) = begin(http, "t", "x")
        content = {"messages": [{"body": "y"}]}
        response = http.post("/v1/topics/t/transactions", json=content, params={"producer_group": "pg"})
        assert is_problem(response, 429, "flow_control")
        resolve(http, name, "rollback")
        begin(http, "t", "z")


def test_a_half_waits_as_long_as_the_setting_was_when_it_was_stored(tmp_path: Path) -> None:
    options = {"routing__lead_ms": 0, "routing__grace_ms": 0}
    with start_gateway(tmp_path, transactions__timeout_ms=HOUR_MS, **options) as gateway, connect(gateway) as http:
        (long,) = begin(http, "t", "long")
        columns = {"body": pa.array([b"arrow"], pa.binary())}
        answer = http.post(
            "/v1/topics/t/transactions",
            content=write_arrow(columns),
            headers={"Content-Type": ARROW},
            params={"producer_group": "pg"},
        )
        (arrow,) = [each["transaction_id"] for each in answer.json()["transactions"]]
        gateway.stop()
    options |= {"transactions__timeout_ms": 100, "transactions__check_interval_ms": HOUR_MS}
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http:
        (short,) = begin(http, "t", "short")
        (check,) = checks(http, wait_ms=50_000)
        assert (check["transaction_id"], check["message"]["body"]) == (short, "short")
        assert "deliver_at_ms" not in check["message"]
        halves = {half["body"]: half for half in pull_all(http, HALF_TOPIC)}
        waits = {body: half["deliver_at_ms"] - half["store_time_ms"] for body, half in halves.items()}
        assert min(waits["long"], waits["arrow"]) > HOUR_MS - 60_000
        assert waits["short"] > HOUR_MS - 60_000, "the half that the check left"
        for transaction_id in (long, short, arrow):
            assert resolve(http, transaction_id, "commit").status_code == 200
        wait_until(lambda: sorted(bodies(http, "t")) == ["arrow", "long", "short"])
        messages = pull_all(http, "t")
        assert all(message.get("deliver_at_ms") is None for message in messages)
