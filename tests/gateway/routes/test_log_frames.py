"""`GET /v1/log/frames`: the log's files, byte for byte."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.storage.segment.content import decode_content
from lakemq.storage.segment.frame import KIND_HOLE, KIND_MESSAGES, KIND_STATE, Meta, decode_meta, open_payload
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.cold.lakes import wait_until_all_left
from tests.gateway.http_client import connect, is_problem, produce, put_topic
from tests.gateway.routing.asking import wait_until

FRAMES = "application/vnd.lakemq.frames"
TOPICS = ("red", "green", "blue")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GatewayProcess, httpx.Client, Path]]:
    """A gateway whose log has several segments, many frames of three topics, and a hole."""
    options = {"storage__segment_bytes": 1024 * 1024, "storage__compression": "none", "storage__cache_bytes": 200_000}
    data_dir = tmp_path_factory.mktemp("log")
    with start_gateway(data_dir, **options) as gateway, connect(gateway) as http:
        for topic in TOPICS:
            put_topic(http, topic, 2)
        for number in range(200):
            topic = TOPICS[number * 7 // 4 % 3]
            produce(http, topic, f"{topic}-{number}-" + "x" * 15_000, *(["more"] * (number % 5)))
        assert http.post("/v1/log/erasures", json={"positions": [50, 51]}).status_code == 200
        assert len(files(data_dir)) > 2
        wait_until(lambda: is_all_on_disk(http))
        follow(http)  # an answer ends where another segment's index would have to be read: now all are known
        yield gateway, http, data_dir


def is_all_on_disk(http: httpx.Client) -> bool:
    """Whether what was sent, which is answered when it is written, is on disk."""
    broker = http.get("/v1/broker").json()
    return broker["flushed_position"] == broker["max_position"]


def files(data_dir: Path) -> list[Path]:
    return sorted((data_dir / "commitlog").glob("*.log"))


def ask(http: httpx.Client, begin: int, **query: Any) -> tuple[bytes, int, httpx.Headers]:
    """One answer: its frames, and where to go on."""
    response = http.get("/v1/log/frames", params={"from": begin, **query})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == FRAMES
    assert int(response.headers["content-length"]) == len(response.content)
    return response.content, int(response.headers["lakemq-next-position"]), response.headers


def follow(http: httpx.Client, begin: int = 0, **query: Any) -> tuple[bytes, int]:
    """All frames from there on, and how many answers they took."""
    pages: list[bytes] = []
    while True:
        frames, following, headers = ask(http, begin, **query)
        pages.append(frames)
        assert following >= begin
        if following == int(headers["lakemq-confirmed-position"]):
            return b"".join(pages), len(pages)
        begin = following


def parse(data: bytes) -> list[Meta]:
    """The frames, each sound."""
    metas: list[Meta] = []
    at = 0
    while at < len(data):
        meta = decode_meta(data, at)
        payload = open_payload(meta, memoryview(data)[at + meta.meta_bytes : at + meta.frame_bytes])
        if meta.kind == KIND_MESSAGES:
            assert decode_content(meta, payload).count == meta.count
        metas.append(meta)
        at += meta.frame_bytes
    return metas


@pytest.mark.parametrize("bytes_max", [1, 40_000, 700_000, 32 * 1024 * 1024])
def test_what_is_followed_is_the_files_byte_for_byte(
    log: tuple[GatewayProcess, httpx.Client, Path], bytes_max: int
) -> None:
    _, http, data_dir = log
    whole, pages = follow(http, bytes_max=bytes_max)
    assert whole == b"".join(file.read_bytes() for file in files(data_dir))
    assert (pages > 1) == (bytes_max < 32 * 1024 * 1024)
    kinds = {meta.kind for meta in parse(whole)}
    assert kinds == {KIND_MESSAGES, KIND_STATE, KIND_HOLE}


def test_an_answer_says_whose_log_it_is_and_how_far_it_goes(log: tuple[GatewayProcess, httpx.Client, Path]) -> None:
    _, http, _ = log
    broker = http.get("/v1/broker").json()
    frames, _, headers = ask(http, 0, bytes_max=1)
    assert uuid.UUID(headers["lakemq-log-id"]).bytes == parse(frames)[0].log.log_id
    assert int(headers["lakemq-epoch"]) == parse(frames)[0].log.epoch
    assert int(headers["lakemq-min-position"]) == 0
    assert int(headers["lakemq-confirmed-position"]) == broker["max_position"]


def test_a_position_within_a_frame_gets_the_whole_frame(log: tuple[GatewayProcess, httpx.Client, Path]) -> None:
    _, http, data_dir = log
    segment = files(data_dir)[1]
    metas = [meta for meta in parse(segment.read_bytes()) if meta.count > 2]
    for meta in metas[:5]:
        for position in range(meta.first_position, meta.first_position + meta.count):
            frames, following, _ = ask(http, position, bytes_max=1)
            (found,) = [each for each in parse(frames) if each.kind != KIND_STATE]
            assert (found, following) == (meta, meta.first_position + meta.count)


def test_the_state_that_a_segment_begins_with_comes_before_its_first_frame(
    log: tuple[GatewayProcess, httpx.Client, Path],
) -> None:
    _, http, data_dir = log
    base = int(files(data_dir)[1].stem)
    assert [meta.kind for meta in parse(ask(http, base, bytes_max=1)[0])] == [KIND_STATE, KIND_MESSAGES]
    assert [meta.kind for meta in parse(ask(http, base + 1, bytes_max=1)[0])] == [KIND_MESSAGES]


@pytest.mark.parametrize("topics", ["red", "green,blue", "RMQ_SYS_TOPICS", "nothing", ""])
@pytest.mark.parametrize("bytes_max", [1, 100_000])
def test_only_frames_with_a_wanted_topic_come_and_come_whole(
    log: tuple[GatewayProcess, httpx.Client, Path], topics: str, bytes_max: int
) -> None:
    _, http, data_dir = log
    wanted = set(topics.split(","))
    whole = [meta for file in files(data_dir) for meta in parse(file.read_bytes()) if meta.kind == KIND_MESSAGES]
    expected = [meta for meta in whole if any(run.topic in wanted for run in meta.runs)]
    assert parse(follow(http, topics=topics, bytes_max=bytes_max)[0]) == expected


def test_who_has_everything_waits_for_the_next_frame(http: httpx.Client, topic: str) -> None:
    (placed,) = produce(http, topic, "first")
    begin = placed["position"] + 1
    begin = max(begin, ask(http, begin)[1])
    late = threading.Timer(0.3, lambda: produce(http, topic, "second"))
    late.start()
    frames, following, _ = ask(http, begin, wait_ms=60_000, topics=topic)
    late.join()
    (meta,) = parse(frames)
    assert topic in {run.topic for run in meta.runs}, "what others store at the same moment is in the same frame"
    assert following > begin


def test_the_end_of_the_log_is_an_empty_answer(log: tuple[GatewayProcess, httpx.Client, Path]) -> None:
    _, http, _ = log
    end = int(ask(http, 0)[2]["lakemq-confirmed-position"])
    for begin in (end, end + 1_000):
        frames, following, headers = ask(http, begin)
        assert (frames, following, int(headers["lakemq-confirmed-position"])) == (b"", begin, end)


def test_a_log_without_messages_has_the_state_that_it_begins_with(tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        assert ask(http, 0)[0] == b""
        alone, following, _ = ask(http, 0, state="yes")
        assert (alone, following) == (files(tmp_path)[0].read_bytes(), 0)
        assert [meta.kind for meta in parse(alone)] == [KIND_STATE]
        assert ask(http, 1, state="yes")[0] == b""
        put_topic(http, "t")
        frames, following, _ = ask(http, 0, state="yes")
        assert (frames, following) == (files(tmp_path)[0].read_bytes(), 1)
        assert ask(http, 1, state="yes")[0] == b""
        assert is_problem(http.get("/v1/log/frames?from=0&state=maybe"), 400, "invalid_request")


@pytest.mark.parametrize(
    "query",
    ["", "from=x", "from=-1", "from=0&bytes_max=0", "from=0&bytes_max=99999999999", "from=0&wait_ms=-1", "to=3"],
)
def test_a_query_that_makes_no_sense_is_refused(http: httpx.Client, query: str) -> None:
    assert is_problem(http.get(f"/v1/log/frames?{query}"), 400, "invalid_request")


def test_what_retention_took_is_gone(tmp_path: Path) -> None:
    options = {"storage__segment_bytes": 1024 * 1024, "storage__retention_ms": 0, "storage__compression": "none"}
    options |= {"storage__compacted_grace_ms": 0, "lake__verify": 0}
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        placed = [produce(http, "t", "x" * 600_000)[0] for _ in range(6)]
        body = {"compacted_position": placed[-1]["position"]}
        assert http.put("/v1/broker/compacted", json=body).status_code == 200
        first = wait_until_all_left(http, tmp_path)
        assert first == http.get("/v1/log/end").json()["begin_position"] > 0
        assert is_problem(http.get("/v1/log/frames", params={"from": first - 1}), 410, "position_gone")
        metas = parse(follow(http, first)[0])
        assert (metas[0].kind, metas[0].first_position) == (KIND_STATE, first)


def test_a_file_that_is_not_whole_is_damage(tmp_path: Path) -> None:
    options = {"storage__segment_bytes": 1024 * 1024, "storage__compression": "none"}
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        for _ in range(6):
            produce(http, "t", "x" * 600_000)
        first = files(tmp_path)[0]
        os.truncate(first, first.stat().st_size - 8)
        assert is_problem(http.get("/v1/log/frames", params={"from": 0}), 503, "log_damaged")
        assert follow(http, int(files(tmp_path)[1].stem))[0]
