from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest

from lakemq.model.columns import MESSAGE
from lakemq.testing import start_gateway
from tests.gateway.http_client import (
    ARROW,
    JSON,
    NDJSON,
    connect,
    is_problem,
    produce,
    pull,
    put_topic,
    read_arrow,
    write_arrow,
)

VARIED: list[dict[str, Any]] = [
    {"body": "text"},
    {"body": "/wA=", "body_encoding": "base64", "tag": "red"},
    {"body": "ü", "keys": ["a", "b"], "properties": {"x": "1", "y": "ü"}, "ordering_key": "o"},
    {"body": "", "tag": "blue", "born_time_ms": 5},
]


def get(http: httpx.Client, topic: str, accept: str, **query: Any) -> httpx.Response:
    path = f"/v1/topics/{topic}/queues/0/messages"
    return http.get(path, params={"offset": 0, **query}, headers={"Accept": accept})


def fill(http: httpx.Client, topic: str) -> None:
    """Messages of one queue in several frames, some of them Arrow's."""
    put_topic(http, topic)
    for _ in range(3):
        produce(http, topic, *VARIED)
        http.post(f"/v1/topics/{topic}/messages", content=b"raw", headers={"Content-Type": "text/plain"})
    columns = {"body": pa.array([b"%d" % n for n in range(600)], pa.binary()), "tag": pa.array(["red"] * 600)}
    content = write_arrow(columns)
    assert (
        http.post(f"/v1/topics/{topic}/messages", content=content, headers={"Content-Type": ARROW}).status_code == 200
    )
    produce(http, topic, *VARIED)


def row_of(message: dict[str, Any]) -> dict[str, Any]:
    """A JSON message as a row of the Arrow answer."""
    body: str = message["body"]
    row: dict[str, Any] = dict.fromkeys(MESSAGE.names)
    row |= {name: value for name, value in message.items() if name != "body_encoding"}
    row["body"] = base64.b64decode(body) if message["body_encoding"] == "base64" else body.encode()
    return row


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the Arrow answer, with what is absent as JSON says it."""
    return row | {"keys": row["keys"] or [], "properties": dict(row["properties"] or [])}


@pytest.mark.parametrize("query", [{"max": 10_000}, {"offset": 7, "max": 9}, {"tags": "red || blue", "max": 700}])
def test_the_three_answers_hold_the_same_messages(http: httpx.Client, topic: str, query: dict[str, Any]) -> None:
    fill(http, topic)
    as_json = get(http, topic, JSON, **query)
    as_lines = get(http, topic, NDJSON, **query)
    as_arrow = get(http, topic, ARROW, **query)
    assert [answer.headers["content-type"] for answer in (as_json, as_lines, as_arrow)] == [JSON, NDJSON, ARROW]
    content = as_json.json()
    messages = content["messages"]
    assert messages
    assert [orjson.loads(line) for line in as_lines.content.splitlines()] == messages
    table = read_arrow(as_arrow.content)
    assert table.schema.equals(MESSAGE)
    assert [plain(row) for row in table.to_pylist()] == [row_of(message) for message in messages]
    for answer in (as_lines, as_arrow):
        assert {name: answer.headers[f"lakemq-{name.replace('_', '-')}"] for name in content if name != "messages"} == {
            name: str(value) for name, value in content.items() if name != "messages"
        }


def test_a_pull_goes_on_where_the_one_before_says(http: httpx.Client, topic: str) -> None:
    fill(http, topic)
    whole = pull(http, topic, max=10_000)
    assert (whole["status"], whole["min_offset"]) == ("found", 0)
    assert whole["next_offset"] == whole["max_offset"] == len(whole["messages"])
    assert [message["queue_offset"] for message in whole["messages"]] == list(range(whole["max_offset"]))
    pieces: list[dict[str, Any]] = []
    offset = 0
    while (part := pull(http, topic, 0, offset, max=7))["status"] == "found":
        assert len(part["messages"]) <= 7
        pieces += part["messages"]
        offset = part["next_offset"]
    assert part["status"] == "no_new_message"
    assert pieces == whole["messages"]


def test_a_pull_gives_32_messages_unless_it_says_otherwise(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    produce(http, topic, *(str(number) for number in range(40)))
    assert len(pull(http, topic)["messages"]) == 32
    assert [message["body"] for message in pull(http, topic, 0, 30, max=3)["messages"]] == ["30", "31", "32"]


def test_at_the_end_there_is_no_new_message(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    empty = {"status": "no_new_message", "next_offset": 0, "min_offset": 0, "max_offset": 0, "messages": []}
    assert pull(http, topic) == empty
    produce(http, topic, "hello")
    assert pull(http, topic, 0, 1) == {**empty, "next_offset": 1, "max_offset": 1}


@pytest.mark.parametrize("accept", [JSON, NDJSON, ARROW])
@pytest.mark.parametrize("offset", [2, 2**63 - 1])
def test_past_the_end_the_answer_says_where_to_go_on(http: httpx.Client, topic: str, accept: str, offset: int) -> None:
    put_topic(http, topic)
    produce(http, topic, "hello")
    response = get(http, topic, accept, offset=offset, wait_ms=60_000)
    assert response.status_code == 200
    if accept == JSON:
        content = response.json()
        assert content.pop("messages") == []
    else:
        names = ("status", "next-offset", "min-offset", "max-offset")
        content = {name.replace("-", "_"): response.headers[f"lakemq-{name}"] for name in names}
        content = {name: value if name == "status" else int(value) for name, value in content.items()}
        assert response.content == b"" if accept == NDJSON else read_arrow(response.content).num_rows == 0
    assert content == {"status": "offset_out_of_range", "next_offset": 1, "min_offset": 0, "max_offset": 1}


def test_only_messages_with_one_of_the_tags_are_given(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    produce(http, topic, *({"body": tag, "tag": tag} for tag in "abcabc"), "none")
    for tags, expected in (("a", "aa"), ("a||c", "acac"), (" b || x ", "bb")):
        answer = pull(http, topic, tags=tags)
        assert (answer["status"], "".join(m["body"] for m in answer["messages"])) == ("found", expected)
        assert answer["next_offset"] == 7
    for everything in ("*", "", " * "):
        assert len(pull(http, topic, tags=everything)["messages"]) == 7


def test_where_no_tag_matches_the_offset_goes_on_all_the_same(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    produce(http, topic, {"body": "x", "tag": "a"}, "y")
    answer = pull(http, topic, tags="b")
    assert answer == {
        "status": "no_matched_message",
        "next_offset": 2,
        "min_offset": 0,
        "max_offset": 2,
        "messages": [],
    }


def test_a_filter_that_matches_seldom_finds_its_message(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    tags = ["common"] * 5000 + ["rare"] + ["common"] * 5000
    columns = {"body": pa.array([b""] * len(tags), pa.binary()), "tag": pa.array(tags)}
    content = write_arrow(columns)
    assert (
        http.post(f"/v1/topics/{topic}/messages", content=content, headers={"Content-Type": ARROW}).status_code == 200
    )
    found: list[int] = []
    offset = 0
    while (answer := pull(http, topic, 0, offset, tags="rare"))["next_offset"] > offset:
        found += [message["queue_offset"] for message in answer["messages"]]
        offset = answer["next_offset"]
    assert (found, offset) == ([5000], 10_001)


@pytest.mark.parametrize("tags", ["||", "a||", "||a", "a||*", "a||||b", "x" * 5000])
def test_a_tag_expression_that_is_none_is_an_invalid_filter(http: httpx.Client, topic: str, tags: str) -> None:
    put_topic(http, topic)
    assert is_problem(get(http, topic, JSON, tags=tags), 400, "invalid_filter")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "offset=",
        "offset=-1",
        "offset=1.0",
        "offset=x",
        "offset=%00",
        "offset=9223372036854775808",
        "offset=" + "9" * 5000,
        "offset=٣",
        "offset=0&max=0",
        "offset=0&max=10001",
        "offset=0&max=-5",
        "offset=0&wait_ms=60001",
        "offset=0&wait_ms=-1",
        "offset=0&offset=1",
        "offset=0&colour=red",
        "offset=0&tags=%ff",
        "offset=0&" + "&".join(f"a{number}=1" for number in range(100)),
    ],
)
def test_a_query_that_the_contract_does_not_know_is_refused(http: httpx.Client, topic: str, query: str) -> None:
    put_topic(http, topic)
    assert is_problem(http.get(f"/v1/topics/{topic}/queues/0/messages?{query}"), 400, "invalid_request")


def test_the_group_that_asks_may_be_named(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    assert pull(http, topic, group="g")["status"] == "no_new_message"


def test_a_topic_or_queue_that_is_not_there_is_a_404(http: httpx.Client, topic: str) -> None:
    assert is_problem(get(http, topic, JSON), 404, "topic_not_found")
    put_topic(http, topic, 2)
    for queue in ("2", "999999999", "9999999999", "9" * 40, "0" * 8 + "10"):
        response = http.get(f"/v1/topics/{topic}/queues/{queue}/messages?offset=0")
        assert is_problem(response, 404, "queue_not_found")
    for queue in ("-1", "x", "1.5", "%D9%A3"):
        response = http.get(f"/v1/topics/{topic}/queues/{queue}/messages?offset=0")
        assert is_problem(response, 400, "invalid_request")


def test_a_name_that_is_none_is_refused(http: httpx.Client) -> None:
    for name in ("a.b", "%ff", "a" * 128, "%25RETRY%25a.b"):
        assert is_problem(http.get(f"/v1/topics/{name}/queues/0/messages?offset=0"), 400, "invalid_topic")


def test_retries_and_dead_letters_may_be_asked_for(http: httpx.Client) -> None:
    for name in ("%25RETRY%25g", "%25DLQ%25g"):
        assert is_problem(http.get(f"/v1/topics/{name}/queues/0/messages?offset=0"), 404, "topic_not_found")


def test_a_write_only_topic_can_not_be_read(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, permission="w")
    produce(http, topic, "hello")
    assert is_problem(get(http, topic, JSON), 403, "forbidden")


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("*/*", JSON),
        ("text/html", JSON),
        ("", JSON),
        ("application/x-ndjson;q=0.1, application/json", JSON),
        (f"text/plain, {NDJSON};q=0.5, {ARROW};q=0.9", ARROW),
        ("APPLICATION/X-NDJSON", NDJSON),
        (f"{ARROW};q=nonsense", JSON),
        (f"{ARROW};q=0, {NDJSON}", NDJSON),
    ],
)
def test_the_answer_has_the_form_that_the_client_likes_best(
    http: httpx.Client, topic: str, accept: str, expected: str
) -> None:
    put_topic(http, topic)
    assert get(http, topic, accept).headers["content-type"] == expected


def test_messages_of_sealed_segments_are_read_from_disk(tmp_path: Path) -> None:
    options = {"storage__segment_bytes": 1024 * 1024, "storage__cache_bytes": 0, "storage__compression": "none"}
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        for number in range(20):
            produce(http, "t", {"body": f"{number:04}" + "x" * 200_000, "tag": f"t{number % 4}"}, {"body": "small"})
        assert len(list((tmp_path / "commitlog").glob("*.log"))) > 2
        found: list[str] = []
        offset = 0
        while (answer := pull(http, "t", 0, offset, max=3))["messages"]:
            found += [message["body"][:4] for message in answer["messages"]]
            offset = answer["next_offset"]
        assert found == [body for number in range(20) for body in (f"{number:04}", "smal")]
        tagged = [message["body"][:4] for message in pull(http, "t", tags="t3", max=100)["messages"]]
        assert tagged == ["0003", "0007", "0011", "0015", "0019"]
