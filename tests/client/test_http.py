"""The client against a real gateway."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakemq.client.http import HttpClient
from lakemq.model.errors import InvalidTopic, MessageNotFound, TopicNotFound
from lakemq.model.message import Draft
from lakemq.testing import start_gateway


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_gateway(tmp_path_factory.mktemp("log")) as gateway:
        yield gateway.url


@pytest.fixture
def client(url: str) -> Iterator[HttpClient]:
    with HttpClient(url) as opened:
        yield opened


def test_a_draft_comes_back_with_all_its_fields(client: HttpClient) -> None:
    draft = Draft(b"\xff\x00", "tag", ["k1", "k2"], {"a": "b"}, "order-1", None, 1_790_000_000_000)
    (receipt,) = client.produce("http_one", [draft])
    message = client.message(receipt.message_id)
    assert (message.body, message.tag, message.keys) == (b"\xff\x00", "tag", ("k1", "k2"))
    assert (message.properties, message.ordering_key) == ({"a": "b"}, "order-1")
    assert (message.topic, message.queue_id, message.queue_offset) == ("http_one", receipt.queue_id, 0)
    assert message.born_time_ms == 1_790_000_000_000
    pulled = client.pull("http_one", receipt.queue_id, 0)
    assert (pulled.status, pulled.next_offset, pulled.messages) == ("found", 1, (message,))


def test_receipts_are_in_the_order_of_the_drafts(client: HttpClient) -> None:
    receipts = client.produce("http_order", [Draft(str(number).encode(), queue_id=0) for number in range(5)])
    assert [receipt.queue_offset for receipt in receipts] == [0, 1, 2, 3, 4]


def test_a_one_way_produce_has_no_receipts(client: HttpClient) -> None:
    assert client.produce("http_one_way", [Draft(b"x", queue_id=0)], ack="none") == []
    assert client.pull("http_one_way", 0, 0, wait_ms=10_000).messages[0].body == b"x"


def test_the_same_idempotency_key_stores_once(client: HttpClient) -> None:
    first = client.produce("http_once", [Draft(b"x")], idempotency_key="k")
    assert client.produce("http_once", [Draft(b"x")], idempotency_key="k") == first


def test_a_table_goes_in_and_comes_out_as_a_table(client: HttpClient) -> None:
    client.create_topic("http_table", 1)
    table = pa.table({"body": pa.array([b"a", b"b"], pa.binary()), "tag": ["t", None]})
    stored = client.produce_table("http_table", table, ack="sync")
    assert (stored.count, sum(part.count for part in stored.ranges)) == (2, 2)
    pulled = client.pull_table("http_table", 0, 0)
    assert (pulled.status, pulled.next_offset, pulled.max_offset) == ("found", 2, 2)
    assert pulled.table["body"].to_pylist() == [b"a", b"b"]
    assert pulled.table["tag"].to_pylist() == ["t", None]


def test_an_empty_pull_says_where_to_go_on(client: HttpClient) -> None:
    client.create_topic("http_empty", 1)
    pulled = client.pull_table("http_empty", 0, 0, wait_ms=10)
    assert (pulled.status, pulled.next_offset, pulled.table.num_rows) == ("no_new_message", 0, 0)
    assert client.pull("http_empty", 0, 7).status == "offset_out_of_range"


def test_pull_takes_only_the_tags_that_are_asked_for(client: HttpClient) -> None:
    client.produce("http_tags", [Draft(b"1", "a", queue_id=0), Draft(b"2", "b", queue_id=0)])
    assert [message.body for message in client.pull("http_tags", 0, 0, tags="b||c").messages] == [b"2"]


def test_a_topic_is_made_once_and_deleted(client: HttpClient) -> None:
    assert client.create_topic("http_topic", 2)
    assert not client.create_topic("http_topic", 3)
    assert len(client.topic("http_topic")["queues"]) == 3
    assert "http_topic" in [topic["topic"] for topic in client.topics()]
    client.delete_topic("http_topic")
    with pytest.raises(TopicNotFound):
        client.topic("http_topic")


def test_what_is_wrong_is_raised_as_its_own_error(client: HttpClient) -> None:
    with pytest.raises(InvalidTopic):
        client.produce("no topic?", [Draft(b"x")])
    with pytest.raises(MessageNotFound):
        client.message("broker-a.999999999")


def test_the_broker_tells_its_name_and_positions(client: HttpClient) -> None:
    assert client.is_ready()
    broker = client.broker()
    assert broker["name"] == "broker-a"
    assert broker["min_position"] <= broker["flushed_position"] <= broker["max_position"]
