"""Groups go on in the lake with what has left the log; what is gone for good they are told of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from lakemq.client import MessageQueue, MessageView, PullConsumer, PushConsumer, SimpleConsumer
from lakemq.testing import start_gateway
from tests.gateway.cold.lakes import Lake
from tests.gateway.http_client import connect, produce, pull_all, put_topic
from tests.gateway.receive.asking import ack, bodies, receive
from tests.gateway.routing.asking import nack, wait_until

OPTIONS: dict[str, Any] = {
    "storage__segment_bytes": 2**20,
    "storage__retention_ms": 0,
    "storage__compacted_grace_ms": 0,
    "storage__compression": "none",
}
HALVES = ("half-pushed", "half-pulled", "half-received")
TEXTS = [str(number) for number in range(60)]


class Cold(NamedTuple):
    """A gateway whose messages so far have all left its log, and its lake."""

    http: httpx.Client
    url: str


def leave(http: httpx.Client, lake: Lake) -> None:
    """Have all messages so far leave the log for the lake."""
    end = http.get("/v1/broker").json()["max_position"]
    produce(http, "filler", *["x" * 100_000] * 12)
    produce(http, "filler", "y")
    lake.compact(http)
    wait_until(lambda: http.get("/v1/broker").json()["min_position"] >= end, "it has not left the log")


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cold]:
    folder = tmp_path_factory.mktemp("cold-groups")
    with start_gateway(folder / "data", lake__dir=folder / "lake", **OPTIONS) as gateway, connect(gateway) as http:
        lake = Lake(folder / "lake", gateway.url)
        put_topic(http, "t", 2)
        for text in TEXTS:
            produce(http, "t", {"body": text, "ordering_key": f"k{int(text) % 4}", "tag": "AB"[int(text) % 2]})
        put_topic(http, "pruned", 1)
        produce(http, "pruned", *TEXTS)
        dead = [{"message_id": each["message_id"], "delay_level": -1} for each in produce(http, "d", "1", "2", "3")]
        for group in ("failing", "pruned"):
            assert nack(http, group, *dead).status_code == 200
        ack(http, "left", *receive(http, "left", "t", max=1))
        for group in ("half", *HALVES):
            place = {"topic": "pruned", "queue_id": 0, "offset": 2}
            http.put(f"/v1/groups/{group}/offsets", json={"offsets": [place]})
        leave(http, lake)
        lake.delete("topic = 'pruned' AND queue_offset < 5 OR topic = '%DLQ%pruned' AND queue_offset = 1")
        yield Cold(http, gateway.url)
        lake.close()


def receive_all(http: httpx.Client, group: str, topic: str, count: int, **fields: Any) -> list[dict[str, Any]]:
    """Receive and acknowledge until so many have come, and nothing more does."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        some = receive(http, group, topic, max=7, wait_ms=50_000, **fields)
        assert some, f"{len(found)} of {count} came"
        assert ack(http, group, *some) == ["ok"] * len(some)
        found += some
    assert receive(http, group, topic) == []
    return found


def test_a_new_group_receives_the_whole_history(cold: Cold) -> None:
    found = receive_all(cold.http, "fresh", "t", len(TEXTS))
    assert sorted(bodies(found), key=int) == TEXTS
    places = [(each["queue_id"], each["queue_offset"]) for each in found]
    assert len(set(places)) == len(TEXTS)
    lags = cold.http.get("/v1/groups/fresh").json()
    assert (lags["lag_total"], lags["gaps"]) == (0, [])


def test_a_group_goes_on_where_it_was_when_that_has_left_the_log(cold: Cold) -> None:
    """Regression: what had left the log was skipped in silence."""
    # The first look at where a queue begins in the lake waits for nothing.
    wait_until(lambda: cold.http.get("/v1/groups/left").json()["lag_total"] == len(TEXTS) - 1, "it has no such lag")
    assert len(receive_all(cold.http, "left", "t", len(TEXTS) - 1)) == len(TEXTS) - 1


def test_the_metrics_have_a_lag_that_is_in_the_lake(cold: Cold) -> None:
    """How far the group is behind there is looked for by the page itself: nobody else asks."""

    def told(metric: str) -> float:
        found = re.search(
            rf'^lakemq_group_{metric}{{group="waits"}} (\S+)$', cold.http.get("/metrics").text, re.MULTILINE
        )
        return float(found[1]) if found else -1

    place = {"topic": "pruned", "queue_id": 0, "offset": 2}
    assert cold.http.put("/v1/groups/waits/offsets", json={"offsets": [place]}).status_code == 200
    wait_until(lambda: told("lag_messages") == len(TEXTS) - 5)  # so many are left of it
    assert told("oldest_unconsumed_seconds") > 0


def test_history_is_received_in_order(cold: Cold) -> None:
    found = receive_all(cold.http, "ordered", "t", len(TEXTS), ordered=True)
    for key in range(4):
        own = [int(each["body"]) for each in found if each["ordering_key"] == f"k{key}"]
        assert own == sorted(own)


def test_history_is_filtered(cold: Cold) -> None:
    found = receive_all(cold.http, "tagged", "t", len(TEXTS) // 2, tags="A")
    assert sorted(bodies(found), key=int) == TEXTS[::2]


def test_history_that_runs_out_or_is_nacked_comes_again(cold: Cold) -> None:
    http = cold.http
    # With a wait: a busy machine may look into the lake for longer than one look may take.
    (nacked,) = receive(http, "slow", "t", max=1, wait_ms=50_000)
    (ran_out,) = receive(http, "slow", "t", max=1, wait_ms=50_000, invisible_ms=1)
    again = {"receipt": nacked["receipt"], "delay_level": 1}
    assert nack(http, "slow", again).json()["messages"][0]["status"] == "ok"
    wait_until(lambda: len(pull_all(http, "%25RETRY%25slow")) == 2, "they do not come again")
    copies = {each["origin_message_id"]: each["body"] for each in pull_all(http, "%25RETRY%25slow")}
    assert copies == {each["message_id"]: each["body"] for each in (ran_out, nacked)}


def test_what_is_gone_for_good_is_a_gap_that_is_counted_and_told(cold: Cold) -> None:
    http = cold.http
    gap = {"topic": "pruned", "queue_id": 0, "begin": 2, "end": 5}
    content = {"topic": "pruned", "max": 3, "wait_ms": 50_000}
    answer = http.post("/v1/groups/half/receive", json=content).json()
    assert bodies(answer["messages"]) == ["5", "6", "7"]
    assert answer["gaps"] == [gap]
    assert "gaps" not in http.post("/v1/groups/half/receive", json=content).json()
    assert http.get("/v1/groups/half").json()["gaps"] == [gap]
    counted = re.findall(r"^lakemq_gap_messages_total (\S+)$", http.get("/metrics").text, re.MULTILINE)
    assert float(counted[0]) >= 3
    # A new group begins with what there is.
    assert bodies(receive(http, "begins", "pruned", max=1, wait_ms=50_000)) == ["5"]
    assert http.get("/v1/groups/begins").json()["gaps"] == []


def test_dead_letters_are_redriven_from_the_lake(cold: Cold) -> None:
    """Regression: a redrive matched only those that were still in the log."""
    http = cold.http
    path = "/v1/groups/failing/dead-letters/redrive"
    dry = http.post(path, json={"dry_run": True}).json()
    assert (dry["matched"], "gone" in dry) == (3, False)
    begun = http.post(path, json={"where": "body <> '2'"}).json()
    assert begun["matched"] == 2
    look = f"/v1/redrives/{begun['redrive_id']}"
    wait_until(lambda: http.get(look).json()["state"] == "done", "the redrive does not end")
    assert http.get(look).json()["redriven"] == 2
    assert sorted(each["body"] for each in pull_all(http, "%25RETRY%25failing")) == ["1", "3"]
    assert http.post(path, json={"dry_run": True}).json()["matched"] == 1


def test_dead_letters_in_the_lake_are_counted_for_a_discard(cold: Cold) -> None:
    answer = cold.http.post("/v1/groups/pruned/dead-letters/discard", json={"dry_run": True}).json()
    assert (answer["matched"], answer["discarded"], answer["gone"]) == (2, 0, 1)


def test_a_redrive_says_how_many_dead_letters_are_gone_for_good(cold: Cold) -> None:
    answer = cold.http.post("/v1/groups/pruned/dead-letters/redrive", json={"dry_run": True}).json()
    assert (answer["matched"], answer["gone"]) == (2, 1)


def test_a_letter_that_is_stored_no_more_is_gone(cold: Cold) -> None:
    path = "/v1/groups/pruned/dead-letters"
    page = cold.http.get(path).json()
    assert [(each["queue_offset"], each["state"], each["deliveries"]) for each in page["dead_letters"]] == [
        (2, "open", 1),
        (1, "gone", None),
        (0, "open", 1),
    ]
    first = page["dead_letters"][2]
    assert (first["topic"], first["keys"], first["failure_class"]) == ("d", [], None)
    gone = {"queue_offset": 1, "state": "gone", "keys": []}
    (shown,) = cold.http.get(path, params={"state": "gone"}).json()["dead_letters"]
    assert {name: value for name, value in shown.items() if value is not None} == gone
    assert len(cold.http.get(path, params={"topic": "d"}).json()["dead_letters"]) == 2, "of what nobody knows the topic"


def test_consumers_are_told_of_what_is_gone(cold: Cold) -> None:
    queue = MessageQueue("pruned", "broker-a", 0)
    gaps: list[tuple[MessageQueue, int, int]] = []
    pushed: list[str] = []

    def on_gap(*gap: Any) -> None:
        gaps.append(gap)
        raise ValueError("what it raises is logged")

    def listen(message: MessageView) -> None:
        pushed.append(message.text())

    push_group, pull_group, receive_group = HALVES
    with PushConsumer(push_group, listen, brokers=cold.url, on_gap=on_gap, concurrency=1) as pushing:
        pushing.subscribe("pruned")
        wait_until(lambda: len(pushed) == len(TEXTS) - 5, "it was not pushed")
    with PullConsumer(pull_group, brokers=cold.url, on_gap=on_gap) as pulling:
        pulling.assign([queue])
        assert pulling.poll(1, wait_s=60)[0].text() == "5"
    with SimpleConsumer(receive_group, brokers=cold.url, on_gap=on_gap) as receiving:
        assert receiving.receive("pruned", 1)[0].text() == "5"
    assert gaps == [(queue, 2, 5)] * 3
    for group in HALVES:
        told = cold.http.get(f"/v1/groups/{group}").json()["gaps"]
        assert told == [{"topic": "pruned", "queue_id": 0, "begin": 2, "end": 5}]
