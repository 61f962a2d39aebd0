"""Receive and acknowledge. The letters are docs/routing.md's."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.model.failure import FAILURE_CLASS, FAILURE_TEXT, TIME_OUT
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import ask_and_go, connect, is_problem, produce, pull_all, put_topic
from tests.gateway.receive.asking import ack, bodies, change, out, receive
from tests.gateway.routing.asking import nack, wait_until


@pytest.fixture
def group(topic: str) -> str:
    """A group that no other test uses."""
    return f"g-{topic}"


def test_what_is_out_is_handed_to_nobody_else_and_what_is_acknowledged_is_done(
    http: httpx.Client, topic: str, group: str
) -> None:
    sent = produce(
        http, topic, *({"body": str(number), "keys": ["k"], "properties": {"a": "b"}} for number in range(9))
    )
    first = receive(http, group, topic, max=5)
    second = receive(http, group, topic)
    assert sorted(bodies(first + second)) == [str(number) for number in range(9)]
    assert receive(http, group, topic) == []
    got = {message["message_id"]: message for message in first + second}
    for each in sent:
        message = got[each["message_id"]]
        assert (message["topic"], message["keys"], message["properties"]) == (topic, ["k"], {"a": "b"})
        assert message["reconsume_times"] == 0
        assert message["invisible_until_ms"] > each["store_time_ms"]
        assert message["queue_offset"] == each["queue_offset"]
    assert ack(http, group, *first, *second) == ["ok"] * 9
    assert ack(http, group, *first) == ["ok"] * 5
    assert sorted(bodies(receive(http, f"other-{group}", topic))) == [str(number) for number in range(9)]


def test_one_that_is_not_acknowledged_comes_again_until_it_is_a_dead_letter(
    http: httpx.Client, topic: str, group: str
) -> None:
    (other,) = produce(http, topic, "done")
    assert ack(http, group, *receive(http, group, topic)) == ["ok"]
    (sent,) = produce(http, topic, {"body": "x", "tag": "T", "keys": ["k"], "properties": {"a": "b"}})
    options = {"invisible_ms": 100, "max_reconsume_times": 2}
    held = {message["body"]: message for message in receive(http, group, topic, **options)}
    for attempt in (1, 2):
        (again,) = receive(http, group, topic, wait_ms=50_000, **options)
        assert (again["body"], again["reconsume_times"], again["real_topic"]) == ("x", attempt, topic)
        assert again["origin_message_id"] == sent["message_id"]
        assert ack(http, group, held["x"]) == ["receipt_expired"]
        held["x"] = again
    wait_until(lambda: len(pull_all(http, f"%25DLQ%25{group}")) == 1)
    (dead,) = pull_all(http, f"%25DLQ%25{group}")
    fields = ("body", "tag", "keys", "properties", "reconsume_times", "real_topic", "origin_message_id")
    why = {FAILURE_CLASS: TIME_OUT, FAILURE_TEXT: "handed out 3 times, and never acknowledged in time"}
    assert [dead[name] for name in fields] == ["x", "T", ["k"], {"a": "b", **why}, 2, topic, sent["message_id"]]
    assert receive(http, group, topic) == []
    assert other["message_id"] not in [
        message["origin_message_id"] for message in pull_all(http, f"%25RETRY%25{group}")
    ]


def test_a_retry_is_of_the_topic_that_it_was_sent_to(http: httpx.Client, topic: str, group: str) -> None:
    produce(http, topic, "x")
    (first,) = receive(http, group, topic)
    assert "stored_topic" not in first
    change(http, group, first["receipt"], 0)
    (again,) = receive(http, group, topic, wait_ms=50_000)
    assert (again["topic"], again["real_topic"], again["stored_topic"]) == (topic, topic, f"%RETRY%{group}")
    assert again["origin_message_id"] == first["message_id"]
    assert ack(http, group, again) == ["ok"]


def test_a_receive_waits_for_a_message_and_for_a_retry(http: httpx.Client, topic: str, group: str) -> None:
    put_topic(http, topic, 4)
    assert receive(http, group, topic, wait_ms=1) == []
    found: list[list[str]] = []
    waiting = threading.Thread(target=lambda: found.append(bodies(receive(http, group, topic, wait_ms=50_000))))
    waiting.start()
    produce(http, topic, "news")
    waiting.join()
    assert found == [["news"]]
    (sent,) = produce(http, topic, "nacked")
    fresh = f"fresh-{group}"
    ack(http, fresh, *(each for each in receive(http, fresh, topic) if each["message_id"] != sent["message_id"]))
    waiting = threading.Thread(target=lambda: found.append(bodies(receive(http, fresh, topic, wait_ms=50_000))))
    waiting.start()
    nack(http, fresh, {"message_id": sent["message_id"], "delay_level": 1})
    waiting.join()
    assert found == [["news"], ["nacked"]]


def test_receives_at_once_share_the_messages(http: httpx.Client, topic: str, group: str) -> None:
    produce(http, topic, *map(str, range(300)))
    got: list[str] = []

    def work() -> None:
        while messages := receive(http, group, topic, max=7):
            assert ack(http, group, *messages) == ["ok"] * len(messages)
            got.extend(bodies(messages))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(got) == Counter(map(str, range(300)))


def test_a_changed_invisibility_has_a_new_receipt(http: httpx.Client, topic: str, group: str) -> None:
    produce(http, topic, "x")
    (held,) = receive(http, group, topic, invisible_ms=60_000)
    longer = change(http, group, held["receipt"], 120_000).json()
    assert longer["invisible_until_ms"] > held["invisible_until_ms"]
    assert is_problem(change(http, group, held["receipt"], 1), 409, "receipt_expired")
    assert ack(http, group, held) == ["receipt_expired"]
    at_once = change(http, group, longer["receipt"], 0)
    (again,) = receive(http, group, topic)
    assert (again["body"], again["reconsume_times"]) == ("x", 1)
    assert ack(http, group, at_once.json()["receipt"], again) == ["receipt_expired", "ok"]
    assert is_problem(change(http, group, again["receipt"], 1), 409, "receipt_expired")


def test_of_an_ordering_key_nothing_further_comes_while_something_is_out(
    http: httpx.Client, topic: str, group: str
) -> None:
    put_topic(http, topic, 2)
    keyed = [{"body": f"{key}{number}", "ordering_key": key} for number in range(3) for key in "ab"]
    loose = [{"body": f"q{queue}{number}", "queue_id": queue} for number in range(2) for queue in range(2)]
    produce(http, topic, *keyed, *loose)
    got: list[str] = []
    while messages := receive(http, group, topic, ordered=True):
        assert receive(http, group, topic, ordered=True) == []
        firsts = [body[:-1] for body in bodies(messages)]
        assert len(firsts) == len(set(firsts))
        assert ack(http, group, *messages) == ["ok"] * len(messages)
        got += bodies(messages)
    assert Counter(got) == Counter([each["body"] for each in keyed + loose])
    for name in ("a", "b", "q0", "q1"):
        own = [body for body in got if body[:-1] == name]
        assert own == sorted(own)


@pytest.mark.parametrize("acknowledged", [True, False])
@pytest.mark.parametrize("ordered", [True, False])
def test_a_group_that_was_deleted_receives_all_anew(
    http: httpx.Client, topic: str, group: str, ordered: bool, acknowledged: bool
) -> None:
    """Ordered receives went on where the deleted group's had ended, and said so in the log: the rest was skipped."""
    put_topic(http, topic, 1)
    keyed = [{"body": str(number), "ordering_key": f"k{number % 3}", "tag": "t"} for number in range(9)]
    produce(http, topic, *keyed)

    def all_of_it() -> list[str]:
        got: list[str] = []
        while messages := receive(http, group, topic, ordered=ordered, tags="t"):
            got += bodies(messages)
            if acknowledged:
                ack(http, group, *messages)
        return sorted(got)

    first = all_of_it()
    assert first == sorted(each["body"] for each in keyed[: 9 if acknowledged or not ordered else 3])
    assert http.delete(f"/v1/groups/{group}").status_code == 200
    assert all_of_it() == first


def test_an_ordered_retry_comes_before_what_follows_it(http: httpx.Client, topic: str, group: str) -> None:
    put_topic(http, topic, 1)
    produce(http, topic, "1", "2", {"body": "k1", "ordering_key": "k"}, {"body": "k2", "ordering_key": "k"})
    held = receive(http, group, topic, ordered=True)
    assert bodies(held) == ["1", "k1"]
    change(http, group, held[0]["receipt"], 0)
    again = receive(http, group, topic, ordered=True)
    assert (bodies(again), again[0]["reconsume_times"]) == (["1"], 1)
    ack(http, group, again[0], held[1])
    held = receive(http, group, topic, ordered=True)
    assert bodies(held) == ["2", "k2"]
    change(http, group, held[1]["receipt"], 0)
    ack(http, group, held[0])
    (last,) = receive(http, group, topic, ordered=True, max_reconsume_times=0)
    assert last["body"] == "k2"
    produce(http, topic, {"body": "k3", "ordering_key": "k"})
    assert receive(http, group, topic, ordered=True) == []
    change(http, group, last["receipt"], 0)
    (last,) = receive(http, group, topic, ordered=True)
    assert last["body"] == "k3"
    assert bodies(pull_all(http, f"%25DLQ%25{group}")) == ["k2"]


def test_what_is_held_up_by_the_bound_of_a_call_comes_with_the_next(http: httpx.Client, topic: str, group: str) -> None:
    """Regression: of several frames, all but the first message of each were passed over."""
    put_topic(http, topic, 1)
    keyed = [f"{frame}.{key}" for frame in range(3) for key in range(3)]
    for frame in range(3):
        produce(http, topic, *({"body": f"{frame}.{key}", "ordering_key": str(key)} for key in range(3)))
    got: list[str] = []
    held: list[dict[str, Any]] = []
    while messages := receive(http, group, topic, ordered=True, max=1):
        assert len(messages) == 1
        held += messages
        got += bodies(messages)
        if len(held) == 3:
            ack(http, group, *held[::-1])
            held.clear()
    assert got == keyed


def test_a_reset_past_a_waiting_retry_lets_its_order_go_on(http: httpx.Client, topic: str, group: str) -> None:
    put_topic(http, topic, 1)
    produce(http, topic, "1", "2")
    (held,) = receive(http, group, topic, ordered=True)
    change(http, group, held["receipt"], 0)
    reset = {"topic": f"%RETRY%{group}", "to": "latest"}
    assert http.post(f"/v1/groups/{group}/offsets/reset", json=reset).status_code == 200
    assert bodies(receive(http, group, topic, ordered=True)) == ["2"]


def test_of_many_that_wait_each_message_wakes_one(http: httpx.Client, topic: str, group: str) -> None:
    put_topic(http, topic, 2)
    got: list[str] = []

    def work() -> None:
        got.extend(bodies(receive(http, group, topic, max=1, wait_ms=60_000)))

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    produce(http, topic, *map(str, range(5)))
    for number in range(5, 20):
        produce(http, topic, str(number))
    for thread in threads:
        thread.join()
    assert Counter(got) == Counter(map(str, range(20)))


def test_those_who_wait_for_a_topic_are_told_when_it_is_deleted(http: httpx.Client, topic: str, group: str) -> None:
    put_topic(http, topic, 1)
    statuses: list[int] = []

    def work() -> None:
        body = {"topic": topic, "wait_ms": 60_000}
        statuses.append(http.post(f"/v1/groups/{group}/receive", json=body).status_code)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    http.delete(f"/v1/topics/{topic}")
    for thread in threads:
        thread.join()
    assert statuses == [404, 404, 404]


def test_a_waiting_ordered_receive_is_told_when_its_key_is_free(http: httpx.Client, topic: str, group: str) -> None:
    put_topic(http, topic, 1)
    produce(http, topic, "1", "2")
    (first,) = receive(http, group, topic, ordered=True)
    found: list[str] = []
    waiting = threading.Thread(
        target=lambda: found.extend(bodies(receive(http, group, topic, ordered=True, wait_ms=50_000)))
    )
    waiting.start()
    ack(http, group, first)
    waiting.join()
    assert found == ["2"]


def test_those_who_waited_before_the_first_receive_are_told_too(http: httpx.Client, topic: str, group: str) -> None:
    """Regression: they were not told of acknowledgements, as there was nothing yet to be told by."""
    put_topic(http, topic, 1)
    got: list[dict[str, Any]] = []

    def work() -> None:
        messages = receive(http, group, topic, ordered=True, wait_ms=60_000)
        got.extend(messages)
        wait_until(lambda: len(got) > 0)
        ack(http, group, *messages)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    produce(http, topic, *({"body": f"k{number}", "ordering_key": "k"} for number in range(4)))
    for thread in threads:
        thread.join()
    assert bodies(got) == ["k0", "k1", "k2", "k3"]


def test_tags_choose_and_a_retry_waits_for_who_wants_its_tag(http: httpx.Client, topic: str, group: str) -> None:
    put_topic(http, topic, 1)
    produce(http, topic, *({"body": f"{tag}{number}", "tag": tag} for number in range(4) for tag in "AB"))
    held = receive(http, group, topic, tags="A")
    assert sorted(bodies(held)) == ["A0", "A1", "A2", "A3"]
    change(http, group, held[0]["receipt"], 0)
    produce(http, topic, {"body": "B4", "tag": "B"})
    assert bodies(receive(http, group, topic, tags="B||C")) == ["B4"]
    again = receive(http, group, topic, tags="A || C")
    assert bodies(again) == bodies(held)[:1]
    assert is_problem(
        http.post(f"/v1/groups/{group}/receive", json={"topic": topic, "tags": "A||"}), 400, "invalid_filter"
    )


def test_sql_chooses_by_properties_also_in_order(http: httpx.Client, topic: str, group: str) -> None:
    put_topic(http, topic, 1)
    produce(http, topic, *({"body": str(number), "properties": {"p": str(number)}} for number in range(6)))
    wanted = {"sql": "p > 3 OR p = 1", "tags": "*"}
    assert bodies(receive(http, group, topic, **wanted)) == ["1", "4", "5"]
    got: list[str] = []
    while messages := receive(http, f"o-{group}", topic, ordered=True, **wanted):
        got += bodies(messages)
        ack(http, f"o-{group}", *messages)
    assert got == ["1", "4", "5"]
    response = http.post(f"/v1/groups/{group}/receive", json={"topic": topic, "sql": "p >"})
    assert is_problem(response, 400, "invalid_filter")


def test_retries_of_two_topics_come_each_with_its_own(http: httpx.Client, topic: str, group: str) -> None:
    other = f"{topic}-other"
    for name in (topic, other):
        produce(http, name, name)
        (held,) = receive(http, group, name)
        change(http, group, held["receipt"], 0)
    for name in (other, topic):
        (again,) = receive(http, group, name)
        assert (again["body"], again["real_topic"]) == (name, name)
        assert ack(http, group, again) == ["ok"]


@pytest.mark.parametrize("lead_ms", [0, 10_000])
def test_after_a_kill_what_is_out_is_out_and_what_was_acknowledged_stays_so(tmp_path: Path, lead_ms: int) -> None:
    options = {"routing__lead_ms": lead_ms}
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http:
        produce(http, "t", *map(str, range(10)))
        held = receive(http, "g", "t", max=6, ordered=False)
        assert ack(http, "g", *held[:3]) == ["ok"] * 3
        gateway.kill()
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http:
        assert out(http) == 3
        rest = receive(http, "g", "t")
        assert sorted(bodies(held + rest)) == sorted(map(str, range(10)))
        assert ack(http, "g", *held, *rest) == ["ok"] * 10
        gateway.kill()
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http:
        assert (out(http), receive(http, "g", "t")) == (0, [])
        assert ack(http, "g", *held) == ["ok"] * 6


def test_what_ran_out_while_the_broker_was_away_comes_again(tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        produce(http, "t", "x")
        (held,) = receive(http, "g", "t", invisible_ms=3_600_000)
        gateway.kill()
    with start_gateway(tmp_path, clock_offset_ms=3_600_000) as gateway, connect(gateway) as http:
        (again,) = receive(http, "g", "t", wait_ms=50_000)
        assert (again["body"], again["reconsume_times"]) == ("x", 1)
        assert ack(http, "g", held, again) == ["receipt_expired", "ok"]


def test_a_receive_begins_at_the_committed_offset(http: httpx.Client, topic: str, group: str) -> None:
    put_topic(http, topic, 1)
    produce(http, topic, "0", "1", "2")
    offsets = {"offsets": [{"topic": topic, "queue_id": 0, "offset": 2}]}
    assert http.put(f"/v1/groups/{group}/offsets", json=offsets).status_code == 200
    assert bodies(receive(http, group, topic)) == ["2"]


def test_a_reset_forgets_what_is_out(http: httpx.Client, topic: str, group: str) -> None:
    put_topic(http, topic, 1)
    produce(http, topic, "0", "1")
    held = receive(http, group, topic)
    reset = http.post(f"/v1/groups/{group}/offsets/reset", json={"topic": topic, "to": "earliest"})
    assert reset.status_code == 200, reset.text
    again = receive(http, group, topic)
    assert bodies(again) == ["0", "1"]
    assert ack(http, group, *held, *again) == ["receipt_expired"] * 2 + ["ok"] * 2
    http.post(f"/v1/groups/{group}/offsets/reset", json={"topic": topic, "to": "latest"})
    assert receive(http, group, topic) == []


def test_a_deleted_topic_is_received_no_more(http: httpx.Client, topic: str, group: str) -> None:
    produce(http, topic, "old")
    (held,) = receive(http, group, topic)
    assert http.delete(f"/v1/topics/{topic}").status_code < 300
    body = {"topic": topic, "wait_ms": 0}
    assert is_problem(http.post(f"/v1/groups/{group}/receive", json=body), 404, "topic_not_found")
    assert ack(http, group, held) == ["ok"]
    produce(http, topic, "new")
    assert bodies(receive(http, group, topic)) == ["new"]


def test_a_retry_that_is_done_comes_no_more_when_its_topic_is_made_again(
    http: httpx.Client, topic: str, group: str
) -> None:
    """Regression: with the topic its group's place in the retries was forgotten, and they came from the first on."""
    produce(http, topic, "old")
    receive(http, group, topic, invisible_ms=1)
    (retry,) = receive(http, group, topic, wait_ms=50_000)
    assert (retry["reconsume_times"], ack(http, group, retry)) == (1, ["ok"])
    assert http.delete(f"/v1/topics/{topic}").is_success
    put_topic(http, topic, 1)
    assert receive(http, group, topic) == []
    produce(http, topic, "new")
    assert bodies(receive(http, group, topic)) == ["new"]


RECEIVE: dict[str, Any] = {"topic": "t", "wait_ms": 0}


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("receive", {}, 400, "invalid_request"),
        ("receive", [], 400, "invalid_request"),
        ("receive", {**RECEIVE, "topic": 3}, 400, "invalid_request"),
        ("receive", {**RECEIVE, "topic": "a b"}, 400, "invalid_topic"),
        ("receive", {**RECEIVE, "topic": "nowhere-to-be"}, 404, "topic_not_found"),
        ("receive", {**RECEIVE, "topic": "RMQ_SYS_ACK_TOPIC"}, 400, "invalid_topic"),
        ("receive", {**RECEIVE, "topic": "%RETRY%g"}, 400, "invalid_topic"),
        ("receive", {**RECEIVE, "max": 0}, 400, "invalid_request"),
        ("receive", {**RECEIVE, "max": 1001}, 400, "invalid_request"),
        ("receive", {**RECEIVE, "max": True}, 400, "invalid_request"),
        ("receive", {**RECEIVE, "max": 1e300}, 400, "invalid_request"),
        ("receive", {**RECEIVE, "wait_ms": -1}, 400, "invalid_request"),
        ("receive", {**RECEIVE, "wait_ms": 60_001}, 400, "invalid_request"),
        ("receive", {**RECEIVE, "invisible_ms": 0}, 400, "invalid_request"),
        ("receive", {**RECEIVE, "invisible_ms": 12 * 3_600_000 + 1}, 400, "invalid_request"),
        ("receive", {**RECEIVE, "max_reconsume_times": -1}, 400, "invalid_request"),
        ("receive", {**RECEIVE, "ordered": "yes"}, 400, "invalid_request"),
        ("receive", {**RECEIVE, "other": 1}, 400, "invalid_request"),
        ("acks", {}, 400, "invalid_request"),
        ("acks", {"receipts": []}, 400, "invalid_request"),
        ("acks", {"receipts": "broker-a.1"}, 400, "invalid_request"),
        ("acks", {"receipts": [1]}, 400, "invalid_request"),
        ("acks", {"receipts": ["x"] * 10_001}, 400, "invalid_request"),
        ("invisibility", {"receipt": "nix", "invisible_ms": 1}, 400, "invalid_request"),
        ("invisibility", {"receipt": "broker-a.0", "invisible_ms": 1}, 400, "invalid_request"),
        ("invisibility", {"receipt": "broker-a.1", "invisible_ms": -1}, 400, "invalid_request"),
        ("invisibility", {"receipt": "broker-a.1"}, 400, "invalid_request"),
    ],
)
def test_what_makes_no_sense_is_refused(http: httpx.Client, path: str, body: Any, status: int, code: str) -> None:
    assert is_problem(http.post(f"/v1/groups/g/{path}", json=body), status, code)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"null", b'{"topic":"t","topic":', b"[" * 100_000])
@pytest.mark.parametrize("path", ["receive", "acks", "invisibility"])
def test_what_is_no_json_is_refused(http: httpx.Client, path: str, content: bytes) -> None:
    response = http.post(f"/v1/groups/g/{path}", content=content, headers={"Content-Type": "application/json"})
    assert is_problem(response, 400, "invalid_request")


def test_receipts_of_others_and_nonsense_are_told_apart(http: httpx.Client, topic: str, group: str) -> None:
    produce(http, topic, "x")
    (held,) = receive(http, group, topic)
    assert ack(http, f"other-{group}", held) == ["invalid_receipt"]
    assert is_problem(change(http, f"other-{group}", held["receipt"], 1), 400, "invalid_request")
    nonsense = ["broker-b.1", "", "x" * 10_000]
    guessed = [held["message_id"], f"{held['receipt'].rpartition('.')[0]}.999999999999"]
    assert ack(http, group, *nonsense, *guessed) == ["invalid_receipt"] * 3 + ["receipt_expired"] * 2
    assert ack(http, group, held["receipt"], held) == ["ok"] * 2
    assert is_problem(http.post("/v1/groups/a b/acks", json={"receipts": ["x"]}), 400, "invalid_request")
    assert is_problem(http.post(f"/v1/groups/{group}/receive?x=1", json=RECEIVE), 400, "invalid_request")


def test_so_many_are_out_at_most(tmp_path: Path) -> None:
    with start_gateway(tmp_path, receive__out_max=3, receive__subscriptions_max=1) as gateway, connect(gateway) as http:
        produce(http, "t", *map(str, range(5)))
        held = receive(http, "g", "t")
        assert len(held) == 3
        assert is_problem(http.post("/v1/groups/g/receive", json=RECEIVE), 429, "flow_control")
        ack(http, "g", *held[:2])
        assert len(receive(http, "g", "t", max=1)) == 1
        assert is_problem(http.post("/v1/groups/h/receive", json=RECEIVE), 429, "flow_control")


def test_a_group_that_acknowledges_nothing_leaves_room_for_others(tmp_path: Path) -> None:
    with start_gateway(tmp_path, receive__group_out_max=2) as gateway, connect(gateway) as http:
        produce(http, "t", "1", "2", "3")
        assert len(receive(http, "g", "t")) == 2
        assert is_problem(http.post("/v1/groups/g/receive", json=RECEIVE), 429, "flow_control")
        assert len(receive(http, "h", "t")) == 2


def test_a_client_that_has_gone_is_handed_nothing(fresh_gateway: GatewayProcess) -> None:
    with connect(fresh_gateway) as http:
        put_topic(http, "t")
        ask_and_go(fresh_gateway, http, "POST", "/v1/groups/g/receive", b'{"topic": "t", "wait_ms": 60000}')
        produce(http, "t", "x")
        assert bodies(receive(http, "g", "t")) == ["x"]


def test_a_write_only_topic_is_not_received(http: httpx.Client, topic: str, group: str) -> None:
    put_topic(http, topic, 1, "w")
    body = {**RECEIVE, "topic": topic}
    assert is_problem(http.post(f"/v1/groups/{group}/receive", json=body), 403, "forbidden")


def test_dead_letters_can_be_received(http: httpx.Client, topic: str, group: str) -> None:
    (sent,) = produce(http, topic, "x")
    nack(http, group, {"message_id": sent["message_id"], "delay_level": -1})
    (dead,) = receive(http, f"h-{group}", f"%DLQ%{group}")
    change(http, f"h-{group}", dead["receipt"], 0)
    (again,) = receive(http, f"h-{group}", f"%DLQ%{group}")
    assert (again["body"], again["reconsume_times"]) == ("x", 1)
    assert ack(http, f"h-{group}", again) == ["ok"]


def test_a_place_that_nobody_uses_gives_way(tmp_path: Path) -> None:
    """Once there were as many as may be, every new one was refused for ever."""
    settings = {"receive__subscriptions_max": 2, "receive__idle_ms": 0}
    with start_gateway(tmp_path, **settings) as gateway, connect(gateway) as http:
        produce(http, "t", "1", "2")
        (held,) = receive(http, "holds", "t", max=1)
        for number in range(4):
            ack(http, f"g{number}", *receive(http, f"g{number}", "t"))
        assert [len(receive(http, "holds", "t")), ack(http, "holds", held)] == [1, ["ok"]]
        (nacked, _) = receive(http, "g9", "t")
        nack(http, "g9", {"receipt": nacked["receipt"], "delay_level": 18})
        gateway.kill()
    with start_gateway(tmp_path, **settings) as gateway, connect(gateway) as http:
        assert is_problem(http.post("/v1/groups/h/receive", json=RECEIVE), 429, "flow_control")
        assert receive(http, "g9", "t") == []
