"""Retries and dead letters."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.model.failure import FAILURE_CLASS, FAILURE_TEXT, GIVEN_MAX, TEXT_MAX
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, is_problem, produce, pull_all
from tests.gateway.receive.asking import ack, change, receive
from tests.gateway.routing.asking import decide, nack, position, wait_until

NAMES = ("message_id", "receipt")
REASON = {"class": "ValueError", "text": "no amount"}
KEPT = {FAILURE_CLASS: "ValueError", FAILURE_TEXT: "no amount"}
INVALID = "invalid_receipt"


def retries(http: httpx.Client, group: str, count: int) -> list[dict[str, Any]]:
    """The group's retry topic, once it holds so many."""

    def there() -> list[dict[str, Any]]:
        found = http.get(f"/v1/topics/%25RETRY%25{group}").status_code == 200
        return pull_all(http, f"%25RETRY%25{group}") if found else []

    wait_until(lambda: len(there()) >= count)
    return there()


def test_a_nacked_message_comes_again_until_it_is_a_dead_letter(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    (sent,) = produce(http, topic, {"body": "x", "tag": "T", "keys": ["k"], "properties": {"a": "b"}})
    again = {"message_id": sent["message_id"], "delay_level": 1, "max_reconsume_times": 2}
    for attempt in (1, 2):
        assert nack(http, group, again).status_code == 200
        message = retries(http, group, attempt)[-1]
        assert (message["reconsume_times"], message["real_topic"]) == (attempt, topic)
        assert message["origin_message_id"] == sent["message_id"]
        again = {**again, "message_id": message["message_id"]}
    assert nack(http, group, again).status_code == 200
    (dead,) = pull_all(http, f"%25DLQ%25{group}")
    fields = ("body", "tag", "keys", "properties", "reconsume_times", "real_topic", "origin_message_id")
    assert [dead[name] for name in fields] == ["x", "T", ["k"], {"a": "b"}, 2, topic, sent["message_id"]]
    queues = http.get(f"/v1/topics/%25DLQ%25{group}").json()["queues"]
    assert len(queues) == 1


def test_why_a_message_failed_last_is_kept_with_its_retry_and_its_dead_letter(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    (sent,) = produce(http, topic, {"body": "x", "properties": {"a": "b"}})
    again = {"message_id": sent["message_id"], "delay_level": 1, "max_reconsume_times": 3}
    for attempt, (reason, kept) in enumerate([(REASON, KEPT), ("busy", {FAILURE_TEXT: "busy"}), (None, {})], 1):
        assert nack(http, group, again | ({"reason": reason} if reason else {})).status_code == 200
        message = retries(http, group, attempt)[-1]
        assert message["properties"] == {"a": "b", **kept}
        again["message_id"] = message["message_id"]
    assert nack(http, group, again | {"reason": REASON}).status_code == 200
    (dead,) = pull_all(http, f"%25DLQ%25{group}")
    assert (dead["properties"], dead["reconsume_times"]) == ({"a": "b", **KEPT}, 3)


def test_reasons_are_cut_and_harmless_however_many_come_at_once(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    sent = produce(http, topic, *("x" for _ in range(30)))
    reason = {"class": "\x1b[31m", "text": "y" * GIVEN_MAX}
    nacks = [{"message_id": each["message_id"], "delay_level": -1, "reason": reason} for each in sent]
    assert nack(http, group, *nacks).status_code == 200
    dead = pull_all(http, f"%25DLQ%25{group}")
    kept = {FAILURE_CLASS: "\\x1b[31m", FAILURE_TEXT: "y" * (TEXT_MAX - 1) + "…"}
    assert [each["properties"] for each in dead] == [kept] * 30


def test_the_first_retry_is_at_level_3(http: httpx.Client, topic: str) -> None:
    (sent,) = produce(http, topic, "x")
    nack(http, f"g-{topic}", sent["message_id"])
    (waiting,) = [m for m in pull_all(http, "SCHEDULE_TOPIC_XXXX") if m["real_topic"] == f"%RETRY%g-{topic}"]
    assert waiting["deliver_at_ms"] - waiting["store_time_ms"] in range(5_001, 10_001), "level 2 is 5 s"
    assert is_problem(http.delete(f"/v1/messages/{waiting['message_id']}"), 400, "invalid_request")


def test_a_nack_sent_twice_counts_once(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    first, second = produce(http, topic, "a", "b")
    dead = [{"message_id": each["message_id"], "delay_level": -1} for each in (first, second)]
    assert [each["status"] for each in nack(http, group, dead[0], dead[0]).json()["messages"]] == ["ok", "duplicate"]
    assert [each["status"] for each in nack(http, group, *dead).json()["messages"]] == ["duplicate", "ok"]
    assert len(pull_all(http, f"%25DLQ%25{group}")) == 2
    assert nack(http, f"h-{topic}", dead[0]).json()["messages"][0]["status"] == "ok"


def test_a_nack_of_what_is_not_there_stores_none(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    (sent,) = produce(http, topic, {"body": "x", "delay_ms": 60_000})
    (plain,) = produce(http, topic, "y")
    assert is_problem(nack(http, group, plain["message_id"], "broker-a.99999999"), 404, "message_not_found")
    assert is_problem(nack(http, group, "nix"), 404, "message_not_found")
    assert is_problem(nack(http, group, "other.1"), 404, "message_not_found")
    assert is_problem(nack(http, group, sent["message_id"]), 400, "invalid_request")
    assert is_problem(nack(http, "a b", plain["message_id"]), 400, "invalid_request")
    assert is_problem(nack(http, group), 400, "invalid_request")
    wrong = [{"delay_level": "3"}, {"max_reconsume_times": -1}, {"other": 1}]
    wrong += [{"reason": each} for each in (7, ["x"], {"class": 7}, {"name": "x"}, "x" * (GIVEN_MAX + 1))]
    for field in wrong:
        assert is_problem(nack(http, group, {"message_id": plain["message_id"], **field}), 400, "invalid_request")
    assert http.get(f"/v1/topics/%25DLQ%25{group}").status_code == 404


def test_a_message_that_was_deleted_with_its_topic_keeps_no_other_from_a_retry(http: httpx.Client, topic: str) -> None:
    group, deleted = f"g-{topic}", f"{topic}-deleted"
    (first,) = produce(http, deleted, "first")
    (second,) = produce(http, deleted, "second")
    kept = produce(http, topic, "a", "b")
    assert http.delete(f"/v1/topics/{deleted}").is_success
    asked = [kept[0], first, second, kept[1], first]
    dead = [{"message_id": each["message_id"], "delay_level": -1} for each in asked]
    gone = "message_not_found"
    for counts in ("ok", "duplicate"):
        answer = nack(http, group, *dead)
        assert answer.status_code == 200, answer.text
        assert [each["status"] for each in answer.json()["messages"]] == [counts, gone, gone, counts, gone]
    assert sorted(each["body"] for each in pull_all(http, f"%25DLQ%25{group}")) == ["a", "b"]
    produce(http, deleted, "of another topic of that name")
    for each in (dead[1:2], dead[1:3]):
        assert is_problem(nack(http, group, *each), 404, gone)
    assert len(pull_all(http, f"%25DLQ%25{group}")) == 2


def test_a_message_that_has_left_log_and_lake_keeps_no_other_from_a_retry(tmp_path: Path) -> None:
    options: dict[str, Any] = {"storage__segment_bytes": 2**20, "storage__retention_ms": 0, "lake__verify": 0}
    with start_gateway(tmp_path, storage__compacted_grace_ms=0, **options) as gateway, connect(gateway) as http:
        (left,) = produce(http, "t", "left")
        *_, kept = [produce(http, "t", secrets.token_hex(2**20))[0] for _ in range(3)]
        http.put("/v1/broker/compacted", json={"compacted_position": http.get("/v1/broker").json()["max_position"]})
        wait_until(lambda: http.get("/v1/broker").json()["min_position"] > position(left["message_id"]))
        dead = [{"message_id": each["message_id"], "delay_level": -1} for each in (left, kept)]
        answer = nack(http, "g", *dead)
        assert [each["status"] for each in answer.json()["messages"]] == ["message_not_found", "ok"]
        assert is_problem(nack(http, "g", dead[0]), 404, "message_not_found")


def test_a_nack_settles_the_receipt_of_a_message_that_is_out(http: httpx.Client, topic: str) -> None:
    """Regression: two copies came back, as the receipt ran out and the nack acted."""
    group = f"g-{topic}"
    produce(http, topic, "a", "b", "c", "d")
    by_id, by_receipt, acked, ran_out = receive(http, group, topic)
    dead = {"delay_level": -1}
    said = {**dead, "reason": REASON}
    nacks = [{"message_id": by_id["message_id"], **dead}, {"receipt": by_receipt["receipt"], **said}]
    answer = nack(http, group, *nacks).json()["messages"]
    assert answer == [
        {"message_id": by_id["message_id"], "status": "ok"},
        {"receipt": by_receipt["receipt"], "status": "ok"},
    ]
    assert ack(http, group, acked, by_id, by_receipt) == ["ok", "receipt_expired", "receipt_expired"]
    assert is_problem(change(http, group, by_id["receipt"], 0), 409, "receipt_expired")
    change(http, group, ran_out["receipt"], 0)
    again = [{name: each[name], **dead} for each in (by_id, by_receipt, acked, ran_out) for name in NAMES]
    statuses = [each["status"] for each in nack(http, group, *again).json()["messages"]]
    assert statuses == ["duplicate"] * 5 + ["receipt_expired", "duplicate", "receipt_expired"]
    (retried,) = receive(http, group, topic)
    assert ack(http, group, retried) == ["ok"]
    letters = {m["body"]: m["properties"] for m in pull_all(http, f"%25DLQ%25{group}")}
    assert letters == {by_id["body"]: {}, by_receipt["body"]: KEPT}


def test_a_nack_names_its_message_once(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    produce(http, topic, "a")
    (message,) = receive(http, group, topic)
    both = {name: message[name] for name in NAMES}
    for named in ({}, both):
        assert is_problem(nack(http, group, named), 400, "invalid_request")
    for receipt, status in (("nix", INVALID), ("broker-a.5", INVALID), (message["message_id"], "receipt_expired")):
        assert nack(http, group, {"receipt": receipt}).json()["messages"][0]["status"] == status
    others = nack(http, f"h-{topic}", {"receipt": message["receipt"]})
    assert others.json()["messages"][0]["status"] == INVALID
    assert ack(http, group, message) == ["ok"]


def test_after_a_reset_a_group_may_nack_again(http: httpx.Client, topic: str) -> None:
    """Regression: the second nack was a duplicate, and the message lost."""
    group = f"g-{topic}"
    (sent,) = produce(http, topic, "x")
    again = {"message_id": sent["message_id"], "delay_level": -1}
    assert nack(http, group, again).json()["messages"][0]["status"] == "ok"
    reset = http.post(f"/v1/groups/{group}/offsets/reset", json={"topic": topic, "to": "earliest"})
    assert reset.status_code == 200
    assert nack(http, group, again).json()["messages"][0]["status"] == "ok"


@pytest.mark.parametrize("prefix", ["%25RETRY%25", "%25DLQ%25"])
def test_clients_write_neither_retries_nor_dead_letters(http: httpx.Client, topic: str, prefix: str) -> None:
    response = http.post(f"/v1/topics/{prefix}{topic}/messages", content=b"x")
    assert is_problem(response, 403, "read_only_topic")


def test_without_a_lead_the_query_decides_and_a_kill_loses_nothing(tmp_path: Path) -> None:
    with start_gateway(tmp_path, routing__lead_ms=0, routing__grace_ms=-1) as gateway, connect(gateway) as http:
        sent = produce(http, "t", "a", "b", "c")
        nack(http, "g", *({"message_id": each["message_id"], "reason": REASON} for each in sent))
        assert http.get("/v1/routing").json()["retry"]["waiting"] == 3
        gateway.kill()
    with start_gateway(tmp_path, routing__lead_ms=0, routing__grace_ms=-1) as gateway, connect(gateway) as http:
        begun = http.get("/v1/routing").json()["retry"]["begin_position"]
        assert begun > position(sent[-1]["message_id"])
        assert decide(http, "dead_letter", [begun])["accepted"] == 1
        assert decide(http, "retry", [begun + 1, begun + 2], 1)["accepted"] == 2
        assert decide(http, "retry", [begun, begun + 1, begun + 2], 1)["accepted"] == 0
        assert [m["body"] for m in pull_all(http, "%25DLQ%25g")] == ["a"]
        waiting = http.get("/v1/routing").json()["delay"]
        due = [waiting["begin_position"], waiting["begin_position"] + 1]
        assert decide(http, "deliver", due)["accepted"] == 2
        assert [m["body"] for m in retries(http, "g", 2)] == ["b", "c"]
        of_all = [*pull_all(http, "%25DLQ%25g"), *retries(http, "g", 2)]
        assert [each["properties"] for each in of_all] == [KEPT] * 3, "as where the gateway decides"
        assert nack(http, "g", sent[0]["message_id"]).json()["messages"][0]["status"] == "duplicate"


@pytest.mark.parametrize("grace_ms", [-1, 0])
def test_an_undecided_nack_that_is_erased_with_its_message_waits_no_more(tmp_path: Path, grace_ms: int) -> None:
    with start_gateway(tmp_path, routing__lead_ms=0, routing__grace_ms=-1) as gateway, connect(gateway) as http:
        (sent, other) = produce(http, "t", "a", "b")
        for each in (sent, other):
            nack(http, "g", {"message_id": each["message_id"], "reason": REASON})
        first = http.get("/v1/routing").json()["retry"]["begin_position"]
        erased = http.post("/v1/log/erasures", json={"positions": [sent["position"], first]})
        assert erased.json()["erased"] == 2
        if grace_ms < 0:
            decide(http, "dead_letter", [first, first + 1])
            assert http.get("/v1/routing").json()["retry"]["waiting"] == 0
            assert [m["body"] for m in pull_all(http, "%25DLQ%25g")] == ["b"]
    with start_gateway(tmp_path, routing__lead_ms=0, routing__grace_ms=grace_ms) as gateway, connect(gateway) as http:
        wait_until(lambda: http.get("/v1/routing").json()["retry"]["waiting"] == 0)
