"""Rows made of the log's frames are those that the gateway makes, whatever the log holds and whatever arrives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from lakemq.jobs.log_client import PAGE_BYTES_MAX, LogClient, Subscription
from lakemq.jobs.source.data_source import read_partition
from lakemq.jobs.source.frames import read_frames
from lakemq.jobs.source.options import SourceOptions
from lakemq.jobs.source.plan import LogPartition
from lakemq.model.columns import READABLE
from lakemq.model.errors import LakemqError, LogReplaced
from lakemq.storage.segment.frame import KIND_STATE, Meta, decode_meta
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import connect, produce, produce_arrow, put_topic

OPTIONS: dict[str, Any] = {
    "storage__memory_survives": False,
    "storage__segment_bytes": 1024 * 1024,
    "storage__compression": "zstd",
}
COLUMNS = list(READABLE)
FULL: dict[str, Any] = {
    "body": "héllo",
    "tag": "T",
    "keys": ["k1", "k2"],
    "properties": {"a": "b", "c": ""},
    "ordering_key": "order-42",
    "born_time_ms": 1_234_567,
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """Its log has several segments, topics and epochs, holes, and frames with all kinds of columns."""
    data_dir = tmp_path_factory.mktemp("log")
    with start_gateway(data_dir, **OPTIONS) as gateway, connect(gateway) as http:
        fill(http, 20)
        assert http.post("/v1/log/erasures", json={"positions": [5, 11, 12]}).status_code == 200
        gateway.kill()
    with start_gateway(data_dir, **OPTIONS) as gateway, connect(gateway) as http:
        fill(http, 40)
        assert http.get("/v1/broker").json()["epoch"] == 2
        assert len(list((data_dir / "commitlog").glob("*.log"))) > 2
        yield gateway


def fill(http: httpx.Client, count: int) -> None:
    for topic in ("red", "green"):
        put_topic(http, topic, 2)
    rng = random.Random(count)
    for number in range(count):
        topic = rng.choice(("red", "green"))
        produce(http, topic, FULL, {"body": rng.randbytes(40_000).hex(), "tag": f"t{number}"})
        produce_arrow(http, topic, {"body": [b"plain"] * rng.randrange(1, 5)})
        http.post(f"/v1/topics/{topic}/messages", content=b"raw", headers={"Content-Type": "text/plain"})
        produce(http, topic, {"body": "later", "delay_ms": 3_600_000})


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[LogClient]:
    client = LogClient(gateway.url, retry_s=0)
    yield client
    client.close()


def by_frames(client: LogClient, begin: int, end: int, log_id: str = "") -> pa.Table:
    """All pages of the range, by frames."""
    tables: list[pa.Table] = []
    while begin < end:
        for table, following in read_frames(client, "broker-a", begin, end, COLUMNS, log_id):
            assert begin < following <= end
            begin = following
            tables.append(table)
    return pa.concat_tables(tables)


def by_rows(client: LogClient, begin: int, end: int) -> pa.Table:
    """The same, as the gateway makes rows."""
    tables: list[pa.Table] = []
    while begin < end:
        table, begin = client.messages(begin, end, Subscription(), COLUMNS)
        tables.append(table)
    return pa.concat_tables(tables)


def test_the_whole_log_is_the_same_on_both_roads(client: LogClient) -> None:
    end = client.end()
    rows = by_rows(client, 0, end.end_position)
    assert len(set(rows.column("message_id").to_pylist())) == rows.num_rows < end.end_position
    found = by_frames(client, 0, end.end_position, end.log_id)
    assert found.schema == rows.schema
    assert found.to_pylist() == rows.to_pylist()


def test_a_range_begins_and_ends_within_frames(client: LogClient) -> None:
    end = client.end().end_position
    rng = random.Random(3)
    for _ in range(40):
        low = rng.randrange(end)
        high = min(end, low + rng.randrange(1, 12))
        assert by_frames(client, low, high).to_pylist() == by_rows(client, low, high).to_pylist(), (low, high)


class Altered(LogClient):
    """A client on whose way something happens to frames."""

    def __init__(self, address: str, alter: Callable[[bytes], bytes]) -> None:
        super().__init__(address, retry_s=0)
        self._alter = alter

    def frames(self, begin: int, end: int, log_id: str = "") -> bytes:
        return self._alter(super().frames(begin, end, log_id))


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


def without_frame(data: bytes, number: int) -> bytes:
    """The frames without that one; states don't count."""
    at = 0
    while at < len(data):
        meta: Meta = decode_meta(data, at)
        if meta.kind != KIND_STATE:
            if number == 0:
                return data[:at] + data[at + meta.frame_bytes :]
            number -= 1
        at += meta.frame_bytes
    return data


@pytest.mark.parametrize(
    "alter",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: flipped(data, len(data) // 2),
        lambda data: flipped(data, len(data) - 3),
        lambda data: without_frame(data, 0),
        lambda data: without_frame(data, 7),
        lambda data: data + data,
        lambda data: b"nonsense" + data,
    ],
    ids=["none", "cut", "half", "middle", "end", "first-missing", "one-missing", "twice", "before"],
)
def test_frames_that_are_not_sound_are_read_as_messages(
    gateway: GatewayProcess, client: LogClient, alter: Callable[[bytes], bytes]
) -> None:
    end = client.end().end_position
    with closing(Altered(gateway.url, alter)) as altered:
        found = by_frames(altered, 0, end)
    assert found.to_pylist() == by_rows(client, 0, end).to_pylist()


def test_frames_of_another_log_are_not_taken(client: LogClient) -> None:
    with pytest.raises(LogReplaced):
        by_frames(client, 0, 10, "5b1f3c6e-0d0a-4a9b-9d52-7f0c2a9be641")


def test_what_was_packed_small_comes_in_pieces(tmp_path: Path) -> None:
    with start_gateway(tmp_path, storage__compression="zstd") as gateway, connect(gateway) as http:
        for _ in range(6):
            produce_arrow(http, "t", {"body": [b"x" * 1_000_000] * 8})
        with closing(LogClient(gateway.url)) as client:
            end = client.end().end_position
            pieces = list(read_frames(client, "broker-a", 0, end, ["position", "body"]))
        assert len(pieces) > 1, "one answer holds it all, and it is more than a table may"
        assert all(table.nbytes < PAGE_BYTES_MAX + 8_100_000 for table, _ in pieces)
        assert (sum(table.num_rows for table, _ in pieces), pieces[-1][1]) == (end, end)


def test_only_who_wants_whole_messages_of_all_topics_gets_frames(
    gateway: GatewayProcess, client: LogClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    roads: set[str] = set()

    def note(name: str) -> None:
        real = getattr(LogClient, name)

        def noting(*given: Any) -> Any:
            roads.add(name)
            return real(*given)

        monkeypatch.setattr(LogClient, name, noting)

    end = client.end().end_position
    note("frames")
    note("messages")

    def read(columns: list[str], **options: Any) -> tuple[int, set[str]]:
        roads.clear()
        part = LogPartition("broker-a", gateway.url, 0, end, 1, {}, {})
        found = read_partition(part, SourceOptions(brokers=(gateway.url,), **options), columns)
        return sum(batch.num_rows for batch in found), set(roads)

    rows, road = read(["position", "body"])
    assert (0 < rows < end, road) == (True, {"frames"})
    assert read(["position"]) == (rows, {"messages"})
    some, road = read(["body"], subscription=Subscription(("red",)))
    assert (0 < some < rows, road) == (True, {"messages"})


def test_positions_that_the_log_has_not_are_an_error(client: LogClient) -> None:
    end = client.end().end_position
    with pytest.raises(LakemqError, match=f"answered {end} as next of {end} to {end + 1}"):
        by_frames(client, end, end + 1)
