from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from lakemq.gateway.pull import history as history_of
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, is_problem, produce, put_topic
from tests.gateway.timed import Timed

HOUR_MS = 3_600_000


def history(http: httpx.Client, message_id: str, **query: str) -> dict[str, Any]:
    response = http.get(f"/v1/messages/{message_id}/history", params=query)
    assert response.status_code == 200, response.text
    return response.json()


def whats(answer: dict[str, Any]) -> list[str]:
    return [each["what"] for each in answer["events"]]


def until(http: httpx.Client, message_id: str, *last: str) -> dict[str, Any]:
    """Its history, once it ends so."""
    while tuple(whats(answer := history(http, message_id)))[-len(last) :] != last:
        pass
    return answer


def receive(http: httpx.Client, group: str, topic: str, **fields: Any) -> dict[str, Any]:
    wanted = {"topic": topic, "max": 1, "invisible_ms": 60_000, "wait_ms": 20_000} | fields
    (message,) = http.post(f"/v1/groups/{group}/receive", json=wanted).json()["messages"]
    return message


def nack(http: httpx.Client, group: str, message: dict[str, Any], level: int, reason: str) -> None:
    content = {"messages": [{"receipt": message["receipt"], "delay_level": level, "reason": reason}]}
    http.post(f"/v1/groups/{group}/nacks", json=content).raise_for_status()


def test_a_message_that_is_retried_dead_redriven_and_acknowledged_has_all_of_it(tmp_path: Path, topic: str) -> None:
    with Timed(tmp_path, delay__levels="1h") as timed:
        live_through_all(timed, timed.http, topic)


def live_through_all(timed: Timed, http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    (stored,) = produce(http, topic, {"body": "x"})
    name = stored["message_id"]
    nack(http, topic, receive(http, topic, topic), 1, "first")
    waits = until(http, name, "nacked", "scheduled")
    assert waits["events"][-1]["pending"] is True
    timed.pass_ms(HOUR_MS)
    until(http, name, "scheduled", "retried")
    nack(http, topic, receive(http, topic, topic), -1, "second")
    dead = until(http, name, "nacked", "dead")
    assert [each["failure_text"] for each in dead["events"] if each["what"] in ("nacked", "dead")] == [
        *("first", "second", "second")
    ]
    assert dead["events"][-1]["pending"] is True
    http.post(f"/v1/groups/{topic}/dead-letters/redrive", json={"dry_run": False}).raise_for_status()
    redriven = until(http, name, "dead", "retried")
    assert [each["pending"] for each in redriven["events"] if each["what"] == "dead"] == [False]
    assert redriven["events"][-1]["cause"] == redriven["events"][-2]["position"]
    receipt = receive(http, topic, topic)["receipt"]
    http.post(f"/v1/groups/{topic}/acks", json={"receipts": [receipt]}).raise_for_status()
    ended = until(http, name, "received", "acknowledged")
    assert ended["next_after"] is None
    assert history(http, ended["events"][-3]["message_id"])["message"]["message_id"] == name
    (group,) = ended["groups"]
    assert (group["group"], group["passed"], group["out"]) == (topic, True, None)


def test_a_dead_letter_that_was_discarded_is_told_from_others(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    (stored,) = produce(http, topic, {"body": "x"})
    nack(http, topic, receive(http, topic, topic), -1, "never")
    open_letter = until(http, stored["message_id"], "nacked", "dead")["events"][-1]
    http.post(f"/v1/groups/{topic}/dead-letters/discard", json={}).raise_for_status()
    assert until(http, stored["message_id"], "dead")["events"][-1] == open_letter | {
        "pending": False,
        "discarded": True,
    }
    assert open_letter["pending"] is True
    assert "discarded" not in open_letter


def test_when_a_group_last_received_is_told_until_the_broker_is_started_again(tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        first, second = (each["message_id"] for each in produce(http, "t", *[{"body": "x", "queue_id": 0}] * 2))
        began_ms = history(http, first)["now_ms"]
        receive(http, "g", "t")
        (group,) = (answer := history(http, second))["groups"]
        # Of two clocks, one of which may be set meanwhile.
        assert began_ms - 1000 <= group["received_ms"] <= answer["now_ms"] + 1000
        assert group["holds_messages"] is True
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        (group,) = history(http, second)["groups"]
        assert (group["receives"], group["received_ms"]) == (True, None)


def test_a_scheduled_message_waits_and_is_then_another_or_is_recalled(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    late, soon = (produce(http, topic, {"body": "x", "delay_ms": ms})[0]["message_id"] for ms in (600_000, 20))
    waiting = history(http, late)
    assert waiting["waits"] == {"for": "time", "due_ms": waiting["message"]["deliver_at_ms"]}
    assert (waiting["target"], waiting["groups"], waiting["events"]) == (None, None, [])
    delivered = until(http, soon, "stored")
    assert delivered["waits"] is None
    assert delivered["target"]["topic"] == topic
    copy = history(http, delivered["target"]["message_id"])
    assert (copy["message"]["message_id"], copy["target"]) == (soon, delivered["target"])
    assert http.delete(f"/v1/messages/{late}").status_code == 200
    assert until(http, late, "decided")["waits"] == {"for": "nothing", "outcome": "recalled"}


def test_a_half_waits_for_its_resolution(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    begun = http.post(
        f"/v1/topics/{topic}/transactions?producer_group=pg",
        json={"messages": [{"body": "x", "tag": "t", "keys": ["k"], "properties": {"a": "b"}}] * 2},
    )
    first, second = begun.json()["transactions"]
    told = history(http, first["message_id"])
    hidden = [told["message"][name] for name in ("tag", "keys", "properties", "ordering_key")]
    assert hidden == [None, [], {}, None], "it is its producer's until it is committed"
    waits = told["waits"]
    assert (waits["for"], waits["group"]) == ("resolution", "pg")
    for each, resolution in ((first, "commit"), (second, "rollback")):
        content = {"producer_group": "pg", "resolution": resolution}
        http.post(f"/v1/transactions/{each['transaction_id']}", json=content).raise_for_status()
    assert until(http, first["message_id"], "stored", "operation")["target"]["topic"] == topic
    while history(http, second["message_id"])["waits"] != {"for": "nothing", "outcome": "rollback"}:
        pass


def test_groups_say_where_they_are_with_it(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    first, second = produce(http, topic, {"body": "x", "tag": "a"}, {"body": "y", "tag": "b"})
    behind, picky = f"{topic}-behind", f"{topic}-picky"
    offsets = {"offsets": [{"topic": topic, "queue_id": 0, "offset": 1}]}
    http.put(f"/v1/groups/{behind}/offsets", json=offsets).raise_for_status()
    http.put(f"/v1/groups/{behind}", json={"consume_enabled": False}).raise_for_status()
    member = {
        "subscriptions": [{"topic": topic, "type": "tag", "expression": "a"}],
        "client": {"queues": [{"topic": topic, "queue_id": 0}]},
    }
    http.post(f"/v1/groups/{picky}/members/c1/heartbeat", json=member).raise_for_status()
    out = receive(http, topic, topic)
    groups = {each["group"]: each for each in history(http, first["message_id"])["groups"]}
    assert groups[topic]["out"]["until_ms"] == out["invisible_until_ms"]
    assert (groups[behind]["offset"], groups[behind]["consume_enabled"]) == (1, False)
    assert groups[picky]["filters"] == [{"type": "tag", "expression": "a", "matches": True}]
    assert groups[picky]["held_by"] == ["c1"]
    groups = {each["group"]: each for each in history(http, second["message_id"])["groups"]}
    assert groups[picky]["filters"][0]["matches"] is False
    assert (groups[behind]["lag"], groups[topic]["passed"]) == (1, False)
    clients = http.get(f"/v1/topics/{topic}/clients").json()
    assert [each["group"] for each in clients["consumers"]] == [topic, behind, picky]
    assert clients["consumers"][2]["expressions"] == ["a"]


def test_when_a_message_expires_is_told_by_its_own_time_to_live_or_its_topics(http: httpx.Client, topic: str) -> None:
    http.put(f"/v1/topics/{topic}", json={"queues": 1, "ttl_ms": 90_000}).raise_for_status()
    own, of_topic, late = produce(
        http, topic, {"body": "x", "ttl_ms": 1}, {"body": "y"}, {"body": "z", "delay_ms": 600_000}
    )
    assert history(http, own["message_id"])["expires_ms"] == own["store_time_ms"] + 1
    assert history(http, of_topic["message_id"])["expires_ms"] == of_topic["store_time_ms"] + 90_000
    assert history(http, late["message_id"])["expires_ms"] is None


def test_who_sends_to_a_topic_is_listed(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    http.put(f"/v1/clients/{topic}-p", json={"topics": [topic], "language": "python"}).raise_for_status()
    (producer,) = http.get(f"/v1/topics/{topic}/clients").json()["producers"]
    assert (producer["client_id"], producer["language"]) == (f"{topic}-p", "python")


def test_a_place_to_go_on_is_nobody_elses_and_of_no_other_message() -> None:
    from lakemq.gateway.pull.cursor import pack_place, unpack_place
    from lakemq.model.errors import InvalidRequest

    packed = pack_place(history_of.Place(7, (3, 4)), "a-1.1")
    assert unpack_place(packed, "a-1.1") == history_of.Place(7, (3, 4))
    for text, message_id in ((packed, "a-1.2"), (packed[:-4] + "AAAA", "a-1.1"), ("", "a"), ("é", "a"), ("W10=", "a")):
        try:
            unpack_place(text, message_id)
        except InvalidRequest:
            continue
        raise AssertionError(text)


def test_a_history_that_can_not_be_is_refused(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    (stored,) = produce(http, topic, {"body": "x"})
    path = f"/v1/messages/{stored['message_id']}/history"
    assert is_problem(http.get(path, params={"after": "AAAA"}), 400, "invalid_request")
    assert is_problem(http.get("/v1/messages/none-1.0/history"), 404, "message_not_found")


def test_a_long_history_comes_in_pages_of_which_none_repeats_or_leaves_out(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    (stored,) = produce(http, topic, {"body": "x"})
    receipt = receive(http, topic, topic)["receipt"]
    changes = history_of.EVENTS_MAX + 10
    for _ in range(changes):
        content = {"receipt": receipt, "invisible_ms": 60_000}
        receipt = http.post(f"/v1/groups/{topic}/invisibility", json=content).json()["receipt"]
    first = history(http, stored["message_id"])
    assert len(first["events"]) == history_of.EVENTS_MAX
    assert is_problem(
        http.get(f"/v1/messages/{stored['message_id']}/history", params={"after": first["next_after"][:-4]}),
        400,
        "invalid_request",
    )
    rest = history(http, stored["message_id"], after=first["next_after"])
    positions = [each["position"] for each in (*first["events"], *rest["events"])]
    assert len(positions) == len(set(positions)) == changes + 1
    assert (rest["next_after"], rest["events"][-1]["pending"]) == (None, True)
