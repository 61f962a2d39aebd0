"""What has left the log is answered from the lake as it was from the log."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

import httpx
import pytest

from lakemq.model.message_columns import TTL_MS_MAX
from lakemq.testing import start_gateway
from tests.gateway.cold.lakes import Lake, wait_until_all_left
from tests.gateway.http_client import ARROW, NDJSON, connect, produce, pull, put_topic, read_arrow
from tests.gateway.receive.asking import receive

OPTIONS: dict[str, Any] = {
    "storage__segment_bytes": 2**20,
    "storage__retention_ms": 0,
    "storage__compacted_grace_ms": 0,
    "storage__compression": "none",
    "lake__cache_bytes": 4 * 2**20,
}
QUEUES = 3


class Cold(NamedTuple):
    """A gateway most of whose log has left; what it answered of it before; and its lake."""

    http: httpx.Client
    lake: Lake
    messages: dict[int, list[dict[str, Any]]]
    log_begins: list[int]
    """By queue, the first offset in the log."""


def fill(http: httpx.Client, seed: int) -> None:
    """Messages with all sorts of fields, in requests of all sizes, some of them large."""
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)
    numbers = count()
    put_topic(http, "t", QUEUES)
    put_topic(http, "early")
    produce(http, "early", "first", "last")
    for _ in range(60):
        batch: list[dict[str, Any]] = []
        for _ in range(chance.choice([1, 1, 3, 40])):
            number = next(numbers)
            message: dict[str, Any] = {"body": f"{number} " + "x" * chance.choice([0, 10, 3000])}
            if chance.random() < 0.5:
                message |= {"tag": chance.choice("AB"), "properties": {"n": str(number), "a": "1"}}
            if chance.random() < 0.3:
                message |= {"keys": [f"k{number % 7}", "all"], "ordering_key": f"o{number % 3}"}
            if chance.random() < 0.2:
                message |= {"ttl_ms": TTL_MS_MAX}
            batch.append(message)
        produce(http, "t", *batch)
    produce(http, "other", *["y" * 100_000] * 8)
    produce(http, "t", {"body": "\u00e9" * 400_000, "queue_id": 0}, *[{"body": f"late {each}"} for each in range(30)])


def read_all(http: httpx.Client, queue_id: int, **query: Any) -> list[dict[str, Any]]:
    """A queue from its beginning to its end by pulls."""
    offset, found = 0, []
    while True:
        answer = pull(http, "t", queue_id, offset, **query)
        if offset == answer["max_offset"]:
            return found
        assert answer["status"] in ("found", "no_matched_message"), answer
        assert answer["next_offset"] > offset
        found += answer["messages"]
        offset = answer["next_offset"]


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cold]:
    folder = tmp_path_factory.mktemp("cold")
    with start_gateway(folder / "data", lake__dir=folder / "lake", **OPTIONS) as gateway, connect(gateway) as http:
        lake = Lake(folder / "lake", gateway.url, row_group_rows=100)
        fill(http, random.randrange(2**32))
        messages = {queue_id: read_all(http, queue_id, max=1000) for queue_id in range(QUEUES)}
        end = http.get("/v1/broker").json()["max_position"]
        for upto in (end // 3, end // 2, end):
            lake.compact(http, upto)
        wait_until_all_left(http, folder / "data")
        queues = http.get("/v1/topics/t").json()["queues"]
        yield Cold(http, lake, messages, [queue["log_min_offset"] for queue in queues])
        lake.close()


def test_the_test_reads_both_below_and_in_the_log(cold: Cold) -> None:
    for queue_id, begin in enumerate(cold.log_begins):
        assert 10 < begin < len(cold.messages[queue_id])


@pytest.mark.parametrize("messages_max", [1000, 32, 7])
def test_a_queue_is_read_from_offset_0_across_the_seam_as_it_was_before(cold: Cold, messages_max: int) -> None:
    for queue_id, expected in cold.messages.items():
        assert read_all(cold.http, queue_id, max=messages_max) == expected


@pytest.mark.parametrize(
    "query", [{"tags": "A"}, {"tags": "A||B"}, {"sql": "n > 50 AND a = '1'"}, {"tags": "none"}, {"sql": "n = '50'"}]
)
def test_filters_choose_the_same_messages(cold: Cold, query: dict[str, str]) -> None:
    def chosen(message: dict[str, Any]) -> bool:
        number = message["properties"].get("n")
        if "tags" in query:
            return message.get("tag") in query["tags"].split("||")
        return number is not None and (int(number) > 50 if ">" in query["sql"] else number == "50")

    for queue_id, messages in cold.messages.items():
        assert read_all(cold.http, queue_id, max=20, **query) == list(filter(chosen, messages))


def test_what_has_expired_is_passed_over_in_the_lake_as_in_the_log(cold: Cold) -> None:
    received: list[str] = []
    try:
        assert cold.http.put("/v1/topics/t", json={"ttl_ms": 1}).status_code == 200
        for queue_id, messages in cold.messages.items():
            alive = [message["message_id"] for message in messages if "ttl_ms" in message]
            assert [message["message_id"] for message in read_all(cold.http, queue_id)] == alive
        begin = pull(cold.http, "t", 0, 0, max=50)
        found = [message["queue_offset"] for message in begin["messages"]]
        assert begin["expired"] == begin["next_offset"] - len(found)
        expected = [
            message["message_id"] for messages in cold.messages.values() for message in messages if "ttl_ms" in message
        ]
        while len(received) < len(expected):  # with a wait: a look into the lake ends by time
            some = receive(cold.http, "ttl", "t", wait_ms=50_000)
            assert some, f"{len(received)} of {len(expected)} came"
            received += [message["message_id"] for message in some]
        assert sorted(received) == sorted(expected)
        assert receive(cold.http, "ttl", "t") == []
    finally:
        assert cold.http.put("/v1/topics/t", json={"ttl_ms": 0}).status_code == 200


def test_all_three_forms_say_the_same(cold: Cold) -> None:
    path = "/v1/topics/t/queues/1/messages?offset=0&max=25"
    expected = cold.messages[1][:25]
    answers = {form: cold.http.get(path, headers={"Accept": form}) for form in (NDJSON, ARROW)}
    for answer in answers.values():
        assert answer.headers["lakemq-status"] == "found"
        assert answer.headers["lakemq-next-offset"] == "25"
        assert answer.headers["lakemq-min-offset"] == "0"
    lines = answers[NDJSON].content.splitlines()
    assert [httpx.Response(200, content=line).json() for line in lines] == expected
    table = read_arrow(answers[ARROW].content)
    assert [body.decode() for body in table["body"].to_pylist()] == [message["body"] for message in expected]
    for name in ("message_id", "position", "queue_offset", "store_time_ms", "born_time_ms", "reconsume_times"):
        assert table[name].to_pylist() == [message[name] for message in expected]
    assert [dict(each or []) for each in table["properties"].to_pylist()] == [each["properties"] for each in expected]


def test_a_queue_begins_where_the_lake_does(cold: Cold) -> None:
    for entry in cold.http.get("/v1/topics/t").json()["queues"]:
        assert entry["min_offset"] == 0 < entry["log_min_offset"] < entry["max_offset"]
    (listed,) = [topic for topic in cold.http.get("/v1/topics").json()["topics"] if topic["topic"] == "t"]
    assert [entry["min_offset"] for entry in listed["queues"]] == [0, 0, 0]


def test_since_when_a_queue_has_messages_is_told_across_the_seam(cold: Cold) -> None:
    queues = cold.http.get("/v1/topics/t", params={"times": QUEUES}).json()["queues"]
    spans = [(entry["oldest_ms"], entry["newest_ms"]) for entry in queues]
    assert spans == [(all_[0]["store_time_ms"], all_[-1]["store_time_ms"]) for all_ in cold.messages.values()]
    (entry,) = cold.http.get("/v1/topics/early", params={"times": 1}).json()["queues"]
    assert entry["log_min_offset"] == entry["max_offset"] == 2  # the log has none of it any more
    messages = pull(cold.http, "early", 0, 0)["messages"]
    for _ in range(2):  # the second is told what is known
        (entry,) = cold.http.get("/v1/topics/early", params={"times": 1}).json()["queues"]
        assert [entry["oldest_ms"], entry["newest_ms"]] == [each["store_time_ms"] for each in messages]


def test_every_message_is_found_by_its_id(cold: Cold) -> None:
    for messages in cold.messages.values():
        for message in messages[::5]:
            assert cold.http.get(f"/v1/messages/{message['message_id']}").json() == message


def test_the_offset_of_a_time_is_that_of_the_first_message_from_then_on(cold: Cold) -> None:
    for queue_id, messages in cold.messages.items():
        path = f"/v1/topics/t/queues/{queue_id}/offset"
        for message in [*messages[::9], messages[cold.log_begins[queue_id] - 1], messages[cold.log_begins[queue_id]]]:
            for time_ms in (message["store_time_ms"], message["store_time_ms"] + 1):
                expected = next((each["queue_offset"] for each in messages if each["store_time_ms"] >= time_ms), None)
                found = cold.http.get(path, params={"timestamp_ms": time_ms}).json()["offset"]
                assert found == (len(messages) if expected is None else expected)
        assert cold.http.get(path, params={"timestamp_ms": 0}).json()["offset"] == 0


def test_messages_are_found_by_key_newest_first(cold: Cold) -> None:
    every = sorted((each for some in cold.messages.values() for each in some), key=lambda each: -each["position"])
    for key in ("k1", "all", "none", "k9"):
        expected = [message for message in every if key in message["keys"]]
        for messages_max in (5, 1000):
            answer = cold.http.get("/v1/messages", params={"topic": "t", "key": key, "max": messages_max}).json()
            assert answer == {"messages": expected[:messages_max], "complete": True}


def test_a_look_up_by_key_is_within_its_times(cold: Cold) -> None:
    every = sorted((each for some in cold.messages.values() for each in some), key=lambda each: -each["position"])
    having = [message for message in every if "all" in message["keys"]]
    begin_ms, end_ms = having[-5]["store_time_ms"], having[4]["store_time_ms"]
    query = {"topic": "t", "key": "all", "begin_ms": begin_ms, "end_ms": end_ms, "max": 1000}
    found = cold.http.get("/v1/messages", params=query).json()["messages"]
    assert found == [each for each in having if begin_ms <= each["store_time_ms"] <= end_ms]


def test_a_cold_message_can_be_nacked(cold: Cold) -> None:
    message = cold.messages[2][3]
    body = {"client_id": "c", "messages": [{"message_id": message["message_id"], "delay_level": -1}]}
    answer = cold.http.post("/v1/groups/g/nacks", json=body)
    assert answer.status_code == 200, answer.text
    (dead,) = pull(cold.http, "%DLQ%g", wait_ms=50_000)["messages"]
    assert dead["body"] == message["body"]
    assert dead["properties"] == message["properties"]
    assert (dead["origin_message_id"], dead["real_topic"]) == (message["message_id"], "t")


def test_a_group_that_is_reset_to_the_earliest_goes_on_in_the_lake_and_lags_by_all_of_it(cold: Cold) -> None:
    path = "/v1/groups/late/offsets"
    reset = cold.http.post(f"{path}/reset", json={"topic": "t", "to": "earliest"})
    assert reset.status_code == 200, reset.text
    assert [entry["offset"] for entry in cold.http.get(path).json()["offsets"]] == [0, 0, 0]
    lag = cold.http.get("/v1/groups/late").json()["lag"]
    assert [(entry["min_offset"], entry["lag"]) for entry in lag] == [(0, len(each)) for each in cold.messages.values()]
    time_ms = cold.messages[1][40]["store_time_ms"]
    cold.http.post(f"{path}/reset", json={"topic": "t", "to": "timestamp", "timestamp_ms": time_ms})
    for entry in cold.http.get(path).json()["offsets"]:
        messages = cold.messages[entry["queue_id"]]
        assert entry["offset"] == next(each["queue_offset"] for each in messages if each["store_time_ms"] >= time_ms)
