from __future__ import annotations

import base64
import gzip
import zlib
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest

from tests.gateway.http_client import ARROW, JSON, NDJSON, is_problem, produce, pull, pull_all, put_topic, write_arrow

FULL: dict[str, Any] = {
    "body": "grüße",
    "tag": "T",
    "keys": ["k1", "k2"],
    "properties": {"a": "b", "ü": "ö"},
    "ordering_key": "order-42",
    "born_time_ms": 1_700_000_000_000,
}
EVENT = {"specversion": "1.0", "id": "e1", "source": "/s", "type": "made"}


def post(http: httpx.Client, topic: str, content: bytes, content_type: str, **headers: str) -> httpx.Response:
    named = {"Content-Type": content_type} | {name.replace("_", "-"): value for name, value in headers.items()}
    return http.post(f"/v1/topics/{topic}/messages", content=content, headers=named)


def only(http: httpx.Client, topic: str) -> dict[str, Any]:
    (message,) = pull_all(http, topic)
    return message


def test_a_json_message_comes_out_with_every_field(http: httpx.Client, topic: str) -> None:
    (placed,) = produce(http, topic, FULL)
    assert set(placed) == {"message_id", "queue_id", "queue_offset", "position", "store_time_ms"}
    message = only(http, topic)
    assert message == {**FULL, **placed, "topic": topic, "body_encoding": "utf-8", "reconsume_times": 0}


def test_what_a_message_does_not_say_is_left_out_or_empty(http: httpx.Client, topic: str) -> None:
    (placed,) = produce(http, topic, "hello")
    expected = {"topic": topic, "body": "hello", "body_encoding": "utf-8", "keys": [], "properties": {}}
    more = {"born_time_ms": placed["store_time_ms"], "reconsume_times": 0}
    assert only(http, topic) == {**placed, **expected, **more}


def test_a_body_in_base64_comes_out_as_text_where_it_is_text(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    bodies = [b"text", b"\xff\x00\xfe", b"", "ü".encode()]
    produce(http, topic, *({"body": base64.b64encode(body).decode(), "body_encoding": "base64"} for body in bodies))
    found = [(message["body"], message["body_encoding"]) for message in pull(http, topic)["messages"]]
    assert found == [("text", "utf-8"), ("/wD+", "base64"), ("", "utf-8"), ("ü", "utf-8")]


def test_ndjson_is_one_message_a_line(http: httpx.Client, topic: str) -> None:
    lines = b"\n".join([orjson.dumps(FULL), b"", orjson.dumps({"body": "two", "queue_id": 3})]) + b"\n"
    response = post(http, topic, lines, NDJSON)
    assert response.status_code == 200
    placed = response.json()["messages"]
    assert placed[1]["queue_id"] == 3
    messages = {message["message_id"]: message for message in pull_all(http, topic)}
    assert [messages[place["message_id"]]["body"] for place in placed] == ["grüße", "two"]
    assert messages[placed[0]["message_id"]]["properties"] == FULL["properties"]


def test_the_answer_is_in_the_order_of_the_request_whatever_queues_it_goes_to(http: httpx.Client, topic: str) -> None:
    queue_ids = [3, 0, 3, 1, 2, 0, 0, 3]
    wanted = [{"body": f"{number}", "queue_id": queue_id} for number, queue_id in enumerate(queue_ids)]
    placed = produce(http, topic, *wanted)
    assert [place["queue_id"] for place in placed] == queue_ids
    bodies = {message["message_id"]: message["body"] for message in pull_all(http, topic)}
    assert [bodies[place["message_id"]] for place in placed] == [str(number) for number in range(len(queue_ids))]
    positions = sorted(place["position"] for place in placed)
    assert positions == list(range(positions[0], positions[0] + len(queue_ids)))


@pytest.mark.parametrize("rows", [None, 3])
def test_arrow_rows_come_out_with_every_column(http: httpx.Client, topic: str, rows: int | None) -> None:
    put_topic(http, topic)
    count = 10
    columns = {
        "body": pa.array([b"b%d" % number for number in range(count)], pa.binary()),
        "tag": pa.array([None if number % 2 else f"t{number}" for number in range(count)], pa.string()),
        "keys": pa.array([[f"k{number}", "all"] for number in range(count)], pa.list_(pa.string())),
        "properties": pa.array([[("p", str(number))] for number in range(count)], pa.map_(pa.string(), pa.string())),
        "ordering_key": pa.array(["o"] * count, pa.string()),
        "born_time_ms": pa.array(range(count), pa.int64()),
    }
    response = post(http, topic, write_arrow(columns, rows), ARROW)
    assert response.status_code == 200, response.text
    answer = response.json()
    assert answer["count"] == count
    assert answer["ranges"] == [{"queue_id": 0, "first_queue_offset": 0, "count": count}]
    messages = pull(http, topic)["messages"]
    assert [message["position"] for message in messages] == list(
        range(answer["first_position"], answer["first_position"] + count)
    )
    for number, message in enumerate(messages):
        assert message["body"] == f"b{number}"
        assert message.get("tag") == (None if number % 2 else f"t{number}")
        assert message["keys"] == [f"k{number}", "all"]
        assert message["properties"] == {"p": str(number)}
        assert message["ordering_key"] == "o"
        assert message["born_time_ms"] == number


def test_arrow_ranges_say_where_the_rows_of_each_queue_are(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, 4)
    queue_ids = [2, 0, 2, None, 0, 2]
    columns = {
        "body": pa.array([b"%d" % number for number in range(6)], pa.binary()),
        "queue_id": pa.array(queue_ids, pa.int32()),
    }
    for turn in range(2):
        answer = post(http, topic, write_arrow(columns), ARROW).json()
        assert sum(entry["count"] for entry in answer["ranges"]) == answer["count"] == 6
        position = answer["first_position"]
        for entry in answer["ranges"]:
            found = pull(http, topic, entry["queue_id"], entry["first_queue_offset"], max=entry["count"])["messages"]
            assert [message["position"] for message in found] == list(range(position, position + entry["count"]))
            position += entry["count"]
            numbers = [int(message["body"]) for message in found]
            assert numbers == sorted(numbers)
            assert {queue_ids[number] for number in numbers} <= {entry["queue_id"], None}
        assert turn or answer["ranges"][0]["first_queue_offset"] == 0


@pytest.mark.parametrize("count", [3, 50_000])
def test_arrow_rows_are_named_as_the_request_says(http: httpx.Client, topic: str, count: int) -> None:
    """Also where there are so many that the event loop hands them on."""
    put_topic(http, topic, queues=1)
    packed = write_arrow(pa.table({"body": pa.array([b""] * count, pa.binary())}))
    answer = post(http, topic, packed, ARROW, Lakemq_Send_Ids="sender.9").raise_for_status().json()
    assert answer["count"] == count
    first = pull(http, topic, offset=0)["messages"][0]
    last = pull(http, topic, offset=count - 1)["messages"][0]
    assert [each["properties"] for each in (first, last)] == [
        {"send_id": "sender.9"},
        {"send_id": f"sender.{8 + count}"},
    ]


def test_arrow_and_json_put_an_ordering_key_into_the_same_queue(http: httpx.Client, topic: str) -> None:
    keys = [f"order-{number}" for number in range(40)]
    placed = produce(http, topic, *({"body": "j", "ordering_key": key} for key in keys))
    queue_of = {key: place["queue_id"] for key, place in zip(keys, placed, strict=True)}
    assert len(set(queue_of.values())) == 4
    columns = {"body": pa.array([b"a"] * 40, pa.binary()), "ordering_key": pa.array(keys, pa.string())}
    assert post(http, topic, write_arrow(columns), ARROW).status_code == 200
    for message in pull_all(http, topic):
        assert message["queue_id"] == queue_of[message["ordering_key"]]


def test_what_is_no_arrow_is_a_400_of_its_own(http: httpx.Client, topic: str) -> None:
    whole = write_arrow({"body": pa.array([b"x" * 100], pa.binary())})
    nothing = write_arrow({"body": pa.array([], pa.binary())})
    other = write_arrow({"text": pa.array([b"x"], pa.binary())})
    null = write_arrow({"body": pa.array([None], pa.binary())})
    for content in (b"", b"rubbish", whole[:-40], nothing, other, null):
        assert is_problem(post(http, topic, content, ARROW), 400, "invalid_arrow")
    assert is_problem(http.get(f"/v1/topics/{topic}"), 404, "topic_not_found")


def test_a_raw_body_is_one_message_with_its_content_type(http: httpx.Client, topic: str) -> None:
    response = post(http, topic, b"\x89PNG\xff", "image/png")
    assert response.status_code == 200
    message = only(http, topic)
    assert base64.b64decode(message["body"]) == b"\x89PNG\xff"
    assert message["properties"] == {"content_type": "image/png"}
    assert message | response.json()["messages"][0] == message


def test_the_headers_of_a_raw_message_are_its_fields(http: httpx.Client, topic: str) -> None:
    headers = {
        "Lakemq-Tag": "T",
        "Lakemq-Keys": "a, b",
        "Lakemq-Queue-Id": "2",
        "Lakemq-Ordering-Key": "order",
        "Lakemq-Property-Colour": "red",
    }
    response = http.post(f"/v1/topics/{topic}/messages", content=b"hello", headers=headers)
    assert response.status_code == 200
    message = only(http, topic)
    assert (message["tag"], message["keys"], message["queue_id"]) == ("T", ["a", "b"], 2)
    assert message["ordering_key"] == "order"
    assert message["properties"] == {"colour": "red", "content_type": "application/octet-stream"}


@pytest.mark.parametrize("content_type", ["text/plain; charset=utf-8", "application/xml", "nonsense", 'a/b; q="1"'])
def test_any_other_content_type_is_raw_and_kept(http: httpx.Client, topic: str, content_type: str) -> None:
    assert post(http, topic, b"<x/>", content_type).status_code == 200
    assert only(http, topic)["properties"] == {"content_type": content_type}


def test_an_empty_raw_body_is_a_message(http: httpx.Client, topic: str) -> None:
    assert http.post(f"/v1/topics/{topic}/messages").status_code == 200
    assert only(http, topic)["body"] == ""


def test_a_binary_cloud_event_is_a_message(http: httpx.Client, topic: str) -> None:
    headers = {f"ce-{name}": value for name, value in EVENT.items()} | {"ce-subject": "a%20b"}
    response = http.post(f"/v1/topics/{topic}/messages", content=b"{}", headers={**headers, "Content-Type": JSON})
    assert response.status_code == 200, response.text
    message = only(http, topic)
    assert (message["body"], message["keys"], message["tag"]) == ("{}", ["e1"], "made")
    expected = {"specversion": "1.0", "source": "/s", "subject": "a b", "datacontenttype": JSON}
    assert message["properties"] == expected


def test_structured_and_batched_cloud_events_are_messages(http: httpx.Client, topic: str) -> None:
    structured = {**EVENT, "data": {"n": 1}}
    batch = [
        {**EVENT, "id": "e2", "data_base64": "/wA="},
        {**EVENT, "id": "e3", "datacontenttype": "text/plain", "data": "x"},
    ]
    put_topic(http, topic)
    assert post(http, topic, orjson.dumps(structured), "application/cloudevents+json").status_code == 200
    response = post(http, topic, orjson.dumps(batch), "application/cloudevents-batch+json; charset=utf-8")
    assert response.status_code == 200
    assert len(response.json()["messages"]) == 2
    found = [(m["keys"], m["body"], m["body_encoding"]) for m in pull(http, topic)["messages"]]
    assert found == [(["e1"], '{"n":1}', "utf-8"), (["e2"], "/wA=", "base64"), (["e3"], "x", "utf-8")]


def test_events_in_another_format_are_not_taken(http: httpx.Client, topic: str) -> None:
    for media in ("application/cloudevents+xml", "application/cloudevents-batch+avro"):
        assert is_problem(post(http, topic, b"<x/>", media), 415, "unsupported_media_type")


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_bodies_are_stored_as_what_they_hold(http: httpx.Client, topic: str, encoding: str) -> None:
    compress = gzip.compress if encoding == "gzip" else zlib.compress
    put_topic(http, topic)
    content = compress(orjson.dumps({"messages": [FULL]}))
    assert post(http, topic, content, JSON, Content_Encoding=encoding).status_code == 200
    assert post(http, topic, compress(b"raw"), "text/plain", Content_Encoding=encoding).status_code == 200
    assert [message["body"] for message in pull(http, topic)["messages"]] == ["grüße", "raw"]


def test_an_unknown_content_encoding_is_not_taken(http: httpx.Client, topic: str) -> None:
    assert is_problem(post(http, topic, b"x", JSON, Content_Encoding="br"), 415, "unsupported_media_type")
    assert is_problem(post(http, topic, b"x", "text/plain", Content_Encoding="br"), 415, "unsupported_media_type")


def test_json_in_another_charset_is_not_taken(http: httpx.Client, topic: str) -> None:
    response = post(http, topic, '{"messages": [{"body": "x"}]}'.encode("utf-16"), f"{JSON}; charset=utf-16")
    assert is_problem(response, 415, "unsupported_media_type")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"messages": []}',
        b'{"messages": {}}',
        b'{"messages": [1]}',
        b'{"messages": [{}]}',
        b'{"messages": [{"body": 1}]}',
        b'{"messages": [{"body": "x"}], "more": 1}',
        b'{"messages": [{"body": "x", "colour": "red"}]}',
        b'{"messages": [{"body": "x", "tag": "a||b"}]}',
        b'{"messages": [{"body": "x", "queue_id": -1}]}',
        b'{"messages": [{"body": "x", "queue_id": 1e9}]}',
        b'{"messages": [{"body": "x", "queue_id": 99999999999999999999999}]}',
        b'{"messages": [{"body": "x", "queue_id": true}]}',
        b'{"messages": [{"body": "x", "keys": "k"}]}',
        b'{"messages": [{"body": "x", "properties": {"a": 1}}]}',
        b'{"messages": [{"body": "*", "body_encoding": "base64"}]}',
        b'{"messages": [{"body": "x", "body_encoding": "rot13"}]}',
        b'{"messages": [{"body": "\\ud800"}]}',
        b'{"messages": [{"body": "\xff"}]}',
        b'{"messages": ' + b"[" * 100_000,
    ],
)
def test_json_that_is_none_of_the_contract_is_refused_whole(http: httpx.Client, topic: str, content: bytes) -> None:
    assert is_problem(post(http, topic, content, JSON), 400, "invalid_request")
    assert is_problem(http.get(f"/v1/topics/{topic}"), 404, "topic_not_found")
