from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pytest

from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import (
    ARROW,
    JSON,
    NDJSON,
    Connection,
    connect,
    is_problem,
    pull_all,
    put_topic,
    write_arrow,
)
from tests.gateway.pull.test_many_waiters import resident_bytes
from tests.gateway.routing.asking import wait_until

MIB = 1024 * 1024
MESSAGE_MAX = 4 * MIB
REQUEST_MAX = 64 * MIB


def pieces(size: int) -> Iterator[bytes]:
    """A body without a length ahead."""
    for begin in range(0, size, MIB):
        yield b"x" * min(MIB, size - begin)


def test_a_message_may_have_4_mib_and_no_byte_more(http: httpx.Client, topic: str) -> None:
    path = f"/v1/topics/{topic}/messages"
    assert http.post(path, content=b"x" * MESSAGE_MAX).status_code == 200
    assert is_problem(http.post(path, content=b"x" * (MESSAGE_MAX + 1)), 413, "message_too_large")
    assert is_problem(http.post(path, content=pieces(MESSAGE_MAX + 1)), 413, "message_too_large")
    tagged = http.post(path, content=b"x" * (MESSAGE_MAX + 1), headers={"Lakemq-Tag": "T"})
    assert is_problem(tagged, 413, "message_too_large")
    (message,) = pull_all(http, topic)
    assert len(message["body"]) == MESSAGE_MAX


def test_a_message_among_others_has_the_same_limit(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    path = f"/v1/topics/{topic}/messages"
    large = json.dumps({"body": "x" * (MESSAGE_MAX + 1)})
    content = f'{{"messages": [{{"body": "a"}}, {large}]}}'
    assert is_problem(http.post(path, content=content, headers={"Content-Type": JSON}), 413, "message_too_large")
    content = f'{{"body": "a"}}\n{large}\n'
    assert is_problem(http.post(path, content=content, headers={"Content-Type": NDJSON}), 413, "message_too_large")
    columns = {"body": pa.array([b"a", b"x" * (MESSAGE_MAX + 1)], pa.binary())}
    response = http.post(path, content=write_arrow(columns), headers={"Content-Type": ARROW})
    assert is_problem(response, 413, "message_too_large")
    assert pull_all(http, topic) == []


def test_a_request_of_many_large_messages_is_taken_up_to_64_mib(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    columns = {"body": pa.array([b"x" * MESSAGE_MAX] * 15, pa.binary())}
    response = http.post(f"/v1/topics/{topic}/messages", content=write_arrow(columns), headers={"Content-Type": ARROW})
    assert response.status_code == 200, response.text
    assert response.json()["count"] == 15


@pytest.mark.parametrize("content_type", ["text/plain", JSON, ARROW])
def test_a_request_of_more_than_64_mib_is_refused_with_a_length_and_without(
    http: httpx.Client, topic: str, content_type: str
) -> None:
    path, headers = f"/v1/topics/{topic}/messages", {"Content-Type": content_type}
    response = http.post(path, content=b"x" * (REQUEST_MAX + 1), headers=headers)
    assert is_problem(response, 413, "message_too_large")
    assert is_problem(http.post(path, content=pieces(REQUEST_MAX + MIB), headers=headers), 413, "message_too_large")
    assert is_problem(http.get(f"/v1/topics/{topic}"), 404, "topic_not_found")


def test_who_sends_too_much_before_it_reads_sees_the_413_too(gateway: GatewayProcess, topic: str) -> None:
    """The rest of the body was left unread: closing the connection then resets it."""
    connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc)
    connection.request("POST", f"/v1/topics/{topic}/messages", body=b"x" * (REQUEST_MAX + 30 * MIB))
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.parametrize("content_type", ["text/plain", JSON, ARROW])
def test_what_inflates_to_more_is_refused(http: httpx.Client, topic: str, content_type: str) -> None:
    bomb = gzip.compress(b"x" * (REQUEST_MAX + 1), 1)
    headers = {"Content-Type": content_type, "Content-Encoding": "gzip"}
    response = http.post(f"/v1/topics/{topic}/messages", content=bomb, headers=headers)
    assert is_problem(response, 413, "message_too_large")


def test_a_refused_upload_takes_no_more_than_it_may(gateway: GatewayProcess, topic: str) -> None:
    """Only a length is announced; what is sent is refused as soon as it is too much."""
    with Connection(gateway) as connection:
        head = f"POST /v1/topics/{topic}/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: {10**15}\r\n\r\n"
        connection.send(head.encode())
        for _ in range(REQUEST_MAX // MIB * 2 + 2):
            try:
                connection.send(b"x" * MIB)
            except ConnectionError:
                return
        answer = connection.answer()
        assert answer is None or answer.status == 413


def test_the_limits_are_settings(tmp_path: Path) -> None:
    options = {"gateway__message_bytes_max": 10, "gateway__request_bytes_max": 100}
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as client:
        path = "/v1/topics/t/messages"
        assert client.post(path, content=b"x" * 10).status_code == 200
        assert is_problem(client.post(path, content=b"x" * 11), 413, "message_too_large")
        assert (
            client.post(path, content=b'{"messages":[{"body":"1"}]}', headers={"Content-Type": JSON}).status_code == 200
        )
        response = client.post(path, content=b" " * 101, headers={"Content-Type": JSON})
        assert is_problem(response, 413, "message_too_large")


def test_compressed_frames_count_in_the_cache_as_what_they_take_of_memory(
    fresh_gateway: GatewayProcess, topic: str
) -> None:
    content = gzip.compress(write_arrow({"body": pa.array([bytes(MESSAGE_MAX)] * 15, pa.binary())}), 1)
    headers = {"Content-Type": ARROW, "Content-Encoding": "gzip"}
    with connect(fresh_gateway) as client:
        for _ in range(8):
            assert client.post(f"/v1/topics/{topic}/messages", content=content, headers=headers).status_code == 200
    wait_until(lambda: resident_bytes(fresh_gateway.pid) < 400 * MIB, "what was stored last is there more than once")
