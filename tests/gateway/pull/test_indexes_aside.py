"""Indexes of old segments are read aside, whatever is asked for that needs them: the loop serves others meanwhile."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from lakemq.gateway.process.embedded import Embedded
from lakemq.settings import Broker, Gateway, Idempotency, Settings, Storage
from lakemq.testing import FaultyFiles
from tests.as_administrator import AsAdministrator
from tests.gateway.groups.asking import heartbeat, view
from tests.gateway.http_client import TLS, WAIT_S, produce, pull, put_topic

MESSAGES = 48
"""Of 300 kB: there are far more segments than indexes are kept."""
LOOP = "lakemq gateway"
HOUR_MS = 3_600_000
KEY = {"Idempotency-Key": "k"}


class _Stored(NamedTuple):
    """A log of many segments, in a folder of which each test has a copy."""

    folder: Path
    keyed: dict[str, Any]
    """What the request with `KEY` was answered, before these."""
    scheduled: str
    """A message that waits since before these."""
    stored_ms: list[int]
    """When each message was."""
    ids: list[str]


class _Watched(FaultyFiles):
    """In which threads indexes are read."""

    def __init__(self, stored: _Stored) -> None:
        super().__init__()
        self.threads: list[str] = []
        self.keyed, self.scheduled = stored.keyed, stored.scheduled
        self.stored_ms, self.ids = stored.stored_ms, stored.ids
        self.begun, self.goes_on = threading.Event(), threading.Event()
        """Whether an index is being read, and whether it may be."""
        self.goes_on.set()

    def open_read(self, path: Path) -> int:
        if path.suffix == ".idx":
            self.threads.append(threading.current_thread().name)
            self.begun.set()
            assert self.goes_on.wait(WAIT_S)
        return super().open_read(path)

    def read_aside(self) -> bool:
        """Whether indexes were read, none of them on the loop."""
        threads, self.threads = self.threads, []
        assert LOOP not in threads
        return bool(threads)


def settings_of(folder: Path) -> Settings:
    values = {"data_dir": folder, "segment_bytes": 2**20, "free_bytes_min": 0, "disk_high_ratio": 1.0}
    storage = Storage.model_validate({**values, "verify_ms": 0})
    # A key is known for as long as any of these tests takes.
    known = Idempotency(window_ms=HOUR_MS)
    return Settings(broker=Broker(name="b"), gateway=Gateway(port=0), storage=storage, idempotency=known)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> _Stored:
    folder = tmp_path_factory.mktemp("stored") / "data"
    first = Embedded(settings_of(folder))
    with connect(first) as client:
        put_topic(client, "t")
        put_topic(client, "other")
        keyed = client.post("/v1/topics/other/messages", content=b"once", headers=KEY).json()
        (late,) = produce(client, "t", {"body": "later", "delay_ms": HOUR_MS})
        bodies = ({"body": os.urandom(150_000).hex(), "keys": ["k"]} for _ in range(MESSAGES))
        placed = [produce(client, "t", each)[0] for each in bodies]
    first.stop()
    times, ids = [each["store_time_ms"] for each in placed], [each["message_id"] for each in placed]
    return _Stored(folder, keyed, late["message_id"], times, ids)


@pytest.fixture
def files(stored: _Stored) -> _Watched:
    return _Watched(stored)


@pytest.fixture
def http(tmp_path: Path, stored: _Stored, files: _Watched) -> Iterator[httpx.Client]:
    """A client of a gateway that has just started on a log of many segments."""
    again = Embedded(settings_of(Path(shutil.copytree(stored.folder, tmp_path / "data"))), files=files)
    with connect(again) as client:
        files.threads.clear()
        yield client
    again.stop()


def connect(gateway: Embedded) -> httpx.Client:
    return httpx.Client(base_url=gateway.url, timeout=WAIT_S, trust_env=False, verify=TLS, auth=AsAdministrator())


def test_a_pull_of_what_is_old_reads_no_index_on_the_loop(http: httpx.Client, files: _Watched) -> None:
    assert len(pull(http, "t", offset=1, max=2)["messages"]) == 2
    assert files.read_aside()


def test_a_receive_of_what_is_old_reads_no_index_on_the_loop(http: httpx.Client, files: _Watched) -> None:
    http.post("/v1/groups/g/offsets/reset", json={"topic": "t", "to": "earliest"})
    files.threads.clear()
    body = {"topic": "t", "max": 1, "wait_ms": 0, "invisible_ms": 60_000}
    (message,) = http.post("/v1/groups/g/receive", json=body).json()["messages"]
    assert message["queue_offset"] == 0
    assert files.read_aside()


def test_an_old_time_is_looked_up_without_an_index_read_on_the_loop(http: httpx.Client, files: _Watched) -> None:
    middle_ms = files.stored_ms[MESSAGES // 2]
    assert http.get("/v1/log/position", params={"timestamp_ms": middle_ms}).json()["position"] > 0
    assert files.read_aside()
    early_ms = files.stored_ms[MESSAGES // 4]
    reset = {"topic": "t", "to": "timestamp", "timestamp_ms": early_ms}
    (found,) = http.post("/v1/groups/g/offsets/reset", json=reset).json()["offsets"]
    assert 0 < found["offset"] <= MESSAGES // 4
    assert files.read_aside()


def test_an_old_message_is_found_by_its_id_without_an_index_read_on_the_loop(
    http: httpx.Client, files: _Watched
) -> None:
    offset = MESSAGES // 2
    assert http.get(f"/v1/messages/{files.ids[offset]}").json()["queue_offset"] == offset
    assert files.read_aside()
    assert http.get(f"/v1/messages/{files.ids[offset]}").json()["queue_offset"] == offset
    assert not files.read_aside(), "it is in memory"


def test_the_history_of_an_old_message_reads_no_index_on_the_loop(http: httpx.Client, files: _Watched) -> None:
    offset = MESSAGES // 2
    assert http.get(f"/v1/messages/{files.ids[offset]}/history").json()["message"]["queue_offset"] == offset
    assert files.read_aside()


def test_what_is_found_in_many_segments_is_read_without_an_index_read_on_the_loop(
    http: httpx.Client, files: _Watched
) -> None:
    found = http.get("/v1/topics/t/search", params={"max": MESSAGES}).json()["messages"]
    assert [each["message_id"] for each in found] == files.ids[: -len(found) - 1 : -1]
    assert len(found) > 20
    assert files.read_aside()
    query = {"topic": "t", "key": "k", "max": MESSAGES}
    found = http.get("/v1/messages", params=query).json()["messages"]
    assert [each["message_id"] for each in found] == files.ids[: -len(found) - 1 : -1]
    assert len(found) > 20
    assert files.read_aside()


def forget_the_first(http: httpx.Client, files: _Watched) -> None:
    """What the gateway has read as it started is no more in memory."""
    for offset in range(4, MESSAGES, 4):
        assert pull(http, "t", offset=offset, max=1)["messages"]
    files.threads.clear()


def test_an_effect_of_what_is_old_reads_no_index_on_the_loop(http: httpx.Client, files: _Watched) -> None:
    forget_the_first(http, files)
    assert http.delete(f"/v1/messages/{files.scheduled}").status_code == 200
    assert files.read_aside()


def test_a_request_repeated_with_its_key_reads_no_index_on_the_loop(http: httpx.Client, files: _Watched) -> None:
    forget_the_first(http, files)
    assert http.post("/v1/topics/other/messages", content=b"once", headers=KEY).json() == files.keyed
    assert files.read_aside()


def test_how_far_a_part_of_all_topics_goes_is_looked_up_without_an_index_read_on_the_loop(
    http: httpx.Client, files: _Watched
) -> None:
    forget_the_first(http, files)
    found = http.get("/v1/log/end", params={"from": 1, "max": 2}).json()
    assert found["end_position"] == 3, found
    assert files.read_aside()


def metric(answer: httpx.Response, name: str) -> float:
    (value,) = [line.removeprefix(name) for line in answer.text.splitlines() if line.startswith(name)]
    return float(value)


LAGS: dict[str, Callable[[httpx.Response], float]] = {
    "/v1/groups/g": lambda answer: answer.json()["lag_total"],
    "/v1/groups": lambda answer: answer.json()["groups"][0]["lag_total"],
    "/v1/topics/t/clients": lambda answer: answer.json()["consumers"][0]["lag"],
    "/metrics": lambda answer: metric(answer, 'lakemq_group_lag_messages{group="g"}'),
}
"""What says how far group `g` is behind."""


@pytest.mark.parametrize("path", LAGS)
def test_how_far_a_group_is_behind_that_begins_at_an_old_time_is_looked_up_without_an_index_read_on_the_loop(
    http: httpx.Client, files: _Watched, path: str
) -> None:
    early_ms = files.stored_ms[1]
    lag = MESSAGES - files.stored_ms.index(early_ms)
    heartbeat(http, "g", "c1", "t", consume_from="timestamp", consume_timestamp_ms=early_ms)
    forget_the_first(http, files)
    answer = http.get(path)
    assert answer.status_code == 200, answer.text
    assert files.read_aside()
    assert int(LAGS[path](answer)) == lag
    assert view(http, "g")["lag_total"] == lag
    assert not files.read_aside(), "it is in memory"


def test_where_such_a_group_is_with_one_message_is_looked_up_without_an_index_read_on_the_loop(
    http: httpx.Client, files: _Watched
) -> None:
    early_ms = files.stored_ms[1]
    heartbeat(http, "g", "c1", "t", consume_from="timestamp", consume_timestamp_ms=early_ms)
    forget_the_first(http, files)
    (group,) = http.get(f"/v1/messages/{files.ids[-1]}/history").json()["groups"]
    assert group["lag"] == MESSAGES - files.stored_ms.index(early_ms)
    assert files.read_aside()


@pytest.mark.parametrize("path", ["/v1/broker", "/metrics"])
def test_how_far_a_job_is_behind_in_an_old_topic_is_looked_up_once_without_an_index_read_on_the_loop(
    http: httpx.Client, files: _Watched, path: str
) -> None:
    (message,) = pull(http, "other")["messages"]
    beat = {"name": "delay", "position": 0, "topics": ["other"]}
    assert http.put("/v1/jobs", json={"jobs": [beat]}).status_code == 200
    forget_the_first(http, files)
    answer = http.get(path)
    assert answer.status_code == 200, answer.text
    assert files.read_aside()
    lag = message["position"] + 1
    if path == "/metrics":
        assert metric(answer, 'lakemq_job_lag{job="delay"}') == lag
    assert http.get("/v1/broker").json()["jobs"]["delay"]["lag"] == lag
    assert not files.read_aside(), "it is remembered"


def test_an_old_message_is_erased_without_an_index_read_on_the_loop(http: httpx.Client, files: _Watched) -> None:
    (message,) = pull(http, "t", offset=1, max=1)["messages"]
    forget_the_first(http, files)
    done = http.post("/v1/log/erasures", json={"positions": [message["position"]]})
    assert (done.status_code, done.json()["erased"]) == (200, 1), done.text
    assert files.read_aside()
    assert [each["queue_offset"] for each in pull(http, "t", offset=1, max=2)["messages"]] == [2]


def test_others_are_served_while_an_index_is_read_for_who_has_gone(http: httpx.Client, files: _Watched) -> None:
    message_id = files.ids[MESSAGES // 2]
    files.begun.clear()
    files.goes_on.clear()
    url = http.base_url
    with socket.create_connection((url.host, url.port or 0), WAIT_S) as gone:
        gone.sendall(f"GET /v1/messages/{message_id} HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n\r\n".encode())
        assert files.begun.wait(WAIT_S)
    (more,) = produce(http, "t", "more")
    assert more["queue_offset"] == MESSAGES
    files.goes_on.set()
    assert http.get(f"/v1/messages/{message_id}").json()["message_id"] == message_id
    assert files.read_aside()
