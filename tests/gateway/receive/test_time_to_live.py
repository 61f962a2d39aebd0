"""Messages that expire: by a clock that a test sets ahead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.gateway.http_client import ARROW, produce_arrow, pull, pull_all, put_topic, read_arrow, write_arrow
from tests.gateway.http_client import produce as produce_json
from tests.gateway.receive.asking import ack, bodies, receive
from tests.gateway.routing.asking import nack, wait_until
from tests.gateway.timed import Timed

HOUR_MS = 3_600_000
TTL = {"ttl_ms": HOUR_MS}


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Timed]:
    with Timed(tmp_path_factory.mktemp("ttl")) as process:
        yield process


@pytest.fixture
def http(timed: Timed) -> httpx.Client:
    return timed.http


@pytest.fixture
def group(topic: str) -> str:
    return f"g-{topic}"


def of_metrics(http: httpx.Client) -> float:
    line = next(each for each in http.get("/metrics").text.splitlines() if each.startswith("lakemq_messages_expired_t"))
    return float(line.split()[1])


def by_receipt(http: httpx.Client, group: str, message: dict[str, Any], delay_level: int) -> None:
    """Nack a message that is out."""
    response = nack(http, group, {"receipt": message["receipt"], "delay_level": delay_level})
    assert response.status_code == 200, response.text


def test_a_message_whose_time_is_over_is_passed_over_and_one_is_told(timed: Timed, topic: str, group: str) -> None:
    http = timed.http
    put_topic(http, topic)
    produce_json(http, topic, "stays", {"body": "goes", **TTL}, "stays too", {"body": "goes too", **TTL})
    assert bodies(pull(http, topic)["messages"]) == ["stays", "goes", "stays too", "goes too"]
    assert "expired" not in pull(http, topic)
    timed.pass_ms(HOUR_MS)
    before = of_metrics(http)
    answer = pull(http, topic)
    assert bodies(answer["messages"]) == ["stays", "stays too"]
    assert (answer["next_offset"], answer["expired"]) == (4, 2)
    assert "holes" not in answer, "they are there still"
    as_arrow = http.get(f"/v1/topics/{topic}/queues/0/messages?offset=0", headers={"Accept": ARROW})
    assert read_arrow(as_arrow.content)["body"].to_pylist() == [b"stays", b"stays too"]
    assert as_arrow.headers["lakemq-expired"] == "2"
    assert bodies(receive(http, group, topic)) == ["stays", "stays too"]
    assert of_metrics(http) >= before + 6
    assert http.get(f"/v1/topics/{topic}").json()["expired"] == 6


def test_a_receive_says_how_many_have_expired(timed: Timed, topic: str, group: str) -> None:
    http = timed.http
    put_topic(http, topic)

    def ask(**fields: Any) -> dict[str, Any]:
        content = {"topic": topic, "wait_ms": 0, **fields}
        return http.post(f"/v1/groups/{group}/receive", json=content).raise_for_status().json()

    goes = {"body": "goes", **TTL}
    produce_json(http, topic, goes, "first", goes, goes, "second", goes)
    timed.pass_ms(HOUR_MS)
    answer = ask(max=1)
    assert (bodies(answer["messages"]), answer["expired"]) == (["first"], 1)
    answer = ask(max=1)
    assert (bodies(answer["messages"]), answer["expired"]) == (["second"], 3), "also what comes after it"
    assert ask() == {"messages": []}, "they are passed once"
    assert http.get(f"/v1/topics/{topic}").json()["expired"] == 4
    produce_json(http, topic, "fresh")
    assert "expired" not in ask()
    produce_json(http, topic, {"body": "goes", "ordering_key": "k", **TTL})
    timed.pass_ms(HOUR_MS)
    assert ask(ordered=True) == {"messages": [], "expired": 1}


def test_a_pull_of_nothing_but_expired_messages_goes_on_after_them(timed: Timed, topic: str, group: str) -> None:
    put_topic(timed.http, topic)
    produce_json(timed.http, topic, *({"body": str(number), **TTL} for number in range(20)))
    timed.pass_ms(HOUR_MS)
    answer = pull(timed.http, topic, max=3)
    assert answer["messages"] == []
    assert (answer["status"], answer["next_offset"], answer["expired"]) == ("no_matched_message", 20, 20)
    assert receive(timed.http, group, topic) == []
    produce_json(timed.http, topic, "new")
    assert bodies(receive(timed.http, group, topic)) == ["new"]


def test_a_filter_counts_the_expired_up_to_where_it_came(timed: Timed, topic: str) -> None:
    put_topic(timed.http, topic)
    some = [
        {"body": f"{tag}{number}", "tag": tag, **ttl} for number in range(3) for tag, ttl in (("a", TTL), ("b", {}))
    ]
    produce_json(timed.http, topic, *some)
    timed.pass_ms(HOUR_MS)
    answer = pull(timed.http, topic, max=1, tags="a||b")
    assert (bodies(answer["messages"]), answer["next_offset"], answer["expired"]) == (["b0"], 2, 1)
    assert pull(timed.http, topic, tags="a")["messages"] == []


def test_every_form_says_it_and_what_can_not_be_is_refused(timed: Timed, topic: str) -> None:
    http, url = timed.http, f"/v1/topics/{topic}/messages"
    put_topic(http, topic)
    assert http.post(url, content=b"raw", headers={"Lakemq-Ttl-Ms": str(HOUR_MS)}).status_code == 200
    produce_json(http, topic, {"body": "json", **TTL})
    produce_arrow(http, topic, {"body": [b"arrow", b"stays"], "ttl_ms": [HOUR_MS, None]})
    produce_arrow(http, topic, {"body": [b"many"] * 600, "ttl_ms": [HOUR_MS] * 600})
    assert [message.get("ttl_ms") for message in pull(http, topic, max=4)["messages"]] == [HOUR_MS] * 3 + [None]
    timed.pass_ms(HOUR_MS)
    assert bodies(pull_all(http, topic)) == ["stays"]
    for wrong in (0, -1, 2**60, "1", 1.5, True):
        assert http.post(url, json={"messages": [{"body": "x", "ttl_ms": wrong}]}).status_code == 400
    for text in ("0", "x", "-1"):
        assert http.post(url, content=b"raw", headers={"Lakemq-Ttl-Ms": text}).status_code == 400
    content = write_arrow({"body": [b"x"], "ttl_ms": [0]})
    assert http.post(url, content=content, headers={"Content-Type": ARROW}).status_code == 400


def test_a_topic_says_it_for_messages_that_say_nothing(timed: Timed, topic: str, group: str) -> None:
    http = timed.http
    http.put(f"/v1/topics/{topic}", json={"queues": 1, "ttl_ms": HOUR_MS})
    produce_json(http, topic, "goes", {"body": "stays", "ttl_ms": 2 * HOUR_MS})
    timed.pass_ms(HOUR_MS)
    assert bodies(pull_all(http, topic)) == ["stays"]
    assert http.put(f"/v1/topics/{topic}", json={"ttl_ms": 0}).json()["ttl_ms"] == 0
    assert bodies(pull_all(http, topic)) == ["goes", "stays"], "it is there still"
    assert bodies(receive(http, group, topic)) == ["goes", "stays"]


def test_it_counts_from_when_a_delayed_message_is_due(timed: Timed, topic: str) -> None:
    put_topic(timed.http, topic)
    produce_json(timed.http, topic, {"body": "late", "delay_ms": 2 * HOUR_MS, **TTL})
    timed.pass_ms(2 * HOUR_MS)
    wait_until(lambda: bodies(pull_all(timed.http, topic)) == ["late"])
    timed.pass_ms(HOUR_MS)
    assert pull_all(timed.http, topic) == []


def test_it_counts_from_the_commit_of_a_transaction(timed: Timed, topic: str) -> None:
    http = timed.http
    put_topic(http, topic)
    half = {"messages": [{"body": "half", **TTL}]}
    begun = http.post(f"/v1/topics/{topic}/transactions?producer_group=p", json=half)
    timed.pass_ms(HOUR_MS)
    transaction: str = begun.json()["transactions"][0]["transaction_id"]
    commit = {"producer_group": "p", "resolution": "commit"}
    assert http.post(f"/v1/transactions/{transaction}", json=commit).status_code == 200
    wait_until(lambda: bodies(pull_all(http, topic)) == ["half"])
    timed.pass_ms(HOUR_MS)
    assert pull_all(http, topic) == []


@pytest.mark.parametrize("by_topic", [False, True])
def test_a_retry_has_what_was_left_of_the_first(timed: Timed, topic: str, group: str, by_topic: bool) -> None:
    http = timed.http
    http.put(f"/v1/topics/{topic}", json={"queues": 1, "ttl_ms": HOUR_MS if by_topic else 0})
    produce_json(http, topic, {"body": "x", **({} if by_topic else TTL)})
    (first,) = receive(http, group, topic, invisible_ms=HOUR_MS)
    timed.pass_ms(HOUR_MS // 2)
    by_receipt(http, group, first, delay_level=1)
    timed.pass_ms(2_000)
    (again,) = receive(http, group, topic, wait_ms=50_000)
    assert again["reconsume_times"] == 1
    assert 0 < again["ttl_ms"] < HOUR_MS // 2
    timed.pass_ms(60_000)  # then it is out no more
    wait_until(lambda: len(pull_all(http, f"%25RETRY%25{group}")) == 2)
    timed.pass_ms(HOUR_MS // 2)
    assert receive(http, group, topic) == []
    assert pull_all(http, f"%25RETRY%25{group}") == []


@pytest.mark.parametrize("by_nack", [False, True])
def test_what_has_expired_when_its_retry_is_due_does_not_come_again(
    timed: Timed, topic: str, group: str, by_nack: bool
) -> None:
    http = timed.http
    put_topic(http, topic)
    produce_json(http, topic, {"body": "x", **TTL})
    (first,) = receive(http, group, topic, invisible_ms=2 * HOUR_MS if by_nack else HOUR_MS)
    if by_nack:
        timed.pass_ms(HOUR_MS - 5_000)  # the level is 10 s
        by_receipt(http, group, first, delay_level=3)
    else:
        timed.pass_ms(HOUR_MS)
    wait_until(lambda: http.get(f"/v1/topics/{topic}").json()["expired"] == 1)
    assert "expired" in {message.get("tag") for message in pull_all(http, "RMQ_SYS_DECISION_TOPIC")}
    assert pull_all(http, f"%25RETRY%25{group}") == []
    assert receive(http, group, topic) == []
    assert ack(http, group, first) == ["receipt_expired"]


def test_a_dead_letter_does_not_expire(timed: Timed, topic: str, group: str) -> None:
    http = timed.http
    put_topic(http, topic)
    produce_json(http, topic, {"body": "x", **TTL})
    (first,) = receive(http, group, topic)
    by_receipt(http, group, first, delay_level=-1)
    wait_until(lambda: len(pull_all(http, f"%25DLQ%25{group}")) == 1)
    timed.pass_ms(2 * HOUR_MS)
    (dead,) = pull_all(http, f"%25DLQ%25{group}")
    assert (dead["body"], dead.get("ttl_ms")) == ("x", None)
    http.put(f"/v1/topics/{topic}", json={"ttl_ms": HOUR_MS})
    redrive = http.post(f"/v1/groups/{group}/dead-letters/redrive", json={})
    assert redrive.status_code == 202, redrive.text
    wait_until(lambda: len(pull_all(http, f"%25RETRY%25{group}")) == 1)
    timed.pass_ms(2 * HOUR_MS)
    assert bodies(receive(http, group, topic)) == ["x"]


def test_what_expires_while_it_waits_for_its_order_holds_up_nothing(timed: Timed, topic: str, group: str) -> None:
    http = timed.http
    put_topic(http, topic)
    some: list[dict[str, Any]] = [{"body": "0"}, {"body": "1", **TTL}, {"body": "2", **TTL}, {"body": "3"}]
    produce_json(http, topic, *({**each, "ordering_key": "k"} for each in some))
    (first,) = receive(http, group, topic, ordered=True, invisible_ms=2 * HOUR_MS)
    assert receive(http, group, topic, ordered=True) == [], "the others are held back now"
    timed.pass_ms(HOUR_MS)
    assert ack(http, group, first) == ["ok"]
    assert bodies(receive(http, group, topic, ordered=True)) == ["3"]


def test_a_retry_that_expires_lets_its_order_go_on(timed: Timed, topic: str, group: str) -> None:
    http = timed.http
    put_topic(http, topic)
    produce_json(http, topic, {"body": "0", "ordering_key": "k", **TTL}, {"body": "1", "ordering_key": "k"})
    (first,) = receive(http, group, topic, ordered=True)
    by_receipt(http, group, first, delay_level=1)
    timed.pass_ms(2_000)
    wait_until(lambda: len(pull_all(http, f"%25RETRY%25{group}")) == 1)
    timed.pass_ms(HOUR_MS)
    assert bodies(receive(http, group, topic, ordered=True, wait_ms=20_000)) == ["1"]


def test_a_retry_that_the_group_is_past_lets_its_order_go_on(timed: Timed, topic: str, group: str) -> None:
    """So it is when the retry has left the log before the group's first receive of a retry, too."""
    http = timed.http
    put_topic(http, topic)
    produce_json(http, topic, {"body": "0", "ordering_key": "k"}, {"body": "1", "ordering_key": "k"})
    (first,) = receive(http, group, topic, ordered=True)
    by_receipt(http, group, first, delay_level=1)
    timed.pass_ms(2_000)
    wait_until(lambda: len(pull_all(http, f"%25RETRY%25{group}")) == 1)
    past = {"offsets": [{"topic": f"%RETRY%{group}", "queue_id": 0, "offset": 1}]}
    assert http.put(f"/v1/groups/{group}/offsets", json=past).status_code == 200
    assert bodies(receive(http, group, topic, ordered=True)) == ["1"]


def test_an_expired_message_is_found_by_its_id_and_its_key(timed: Timed, topic: str) -> None:
    http = timed.http
    (sent,) = produce_json(http, topic, {"body": "x", "keys": ["k"], **TTL})
    timed.pass_ms(HOUR_MS)
    assert http.get(f"/v1/messages/{sent['message_id']}").json()["body"] == "x"
    assert bodies(http.get("/v1/messages", params={"topic": topic, "key": "k"}).json()["messages"]) == ["x"]
