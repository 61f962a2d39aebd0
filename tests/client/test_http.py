"""The client against a real gateway."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakemq.client.http import HttpClient
from lakemq.client.message import Nack, encode_message
from lakemq.model.errors import (
    AlreadyDelivered,
    InvalidRequest,
    InvalidTopic,
    MessageNotFound,
    TopicNotFound,
    TransactionResolved,
)
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
    assert (message.body, message.tag, message.keys) == (b"\xff\x00", "tag", ["k1", "k2"])
    assert (message.properties, message.ordering_key) == ({"a": "b"}, "order-1")
    assert (message.topic, message.queue_id, message.queue_offset) == ("http_one", receipt.queue_id, 0)
    assert message.born_time_ms == 1_790_000_000_000
    pulled = client.pull("http_one", receipt.queue_id, 0)
    assert (pulled.status, pulled.next_offset) == ("found", 1)
    assert [encode_message(each) for each in pulled.messages] == [encode_message(message)]


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


def test_a_scheduled_message_is_recalled_and_a_delivered_one_is_not(client: HttpClient) -> None:
    client.create_topic("http_later", 1)
    later, soon = client.produce("http_later", [Draft(b"later", delay_ms=3_600_000), Draft(b"soon", delay_ms=50)])
    client.recall(later.message_id)
    client.recall(later.message_id)
    (delivered,) = client.pull("http_later", 0, 0, wait_ms=10_000).messages
    assert (delivered.body, delivered.origin_message_id) == (b"soon", soon.message_id)
    with pytest.raises(AlreadyDelivered):
        client.recall(soon.message_id)
    with pytest.raises(InvalidRequest):
        client.recall(delivered.message_id)


def test_of_transactions_only_the_committed_are_seen(client: HttpClient) -> None:
    client.create_topic("http_transactions", 1)
    begun = client.begin_transactions("http_transactions", "pg", [Draft(str(each).encode()) for each in range(4)])
    first, second, third, fourth = (each.transaction_id for each in begun)
    client.resolve(first, "pg", "commit")
    assert client.resolve_many("pg", {second: "rollback", third: "commit", fourth: "unknown"}) == {
        second: "ok",
        third: "ok",
        fourth: "ok",
    }
    with pytest.raises(TransactionResolved):
        client.resolve(first, "pg", "rollback")
    messages = client.pull("http_transactions", 0, 0).messages
    assert [(each.body, each.transaction_id) for each in messages] == [(b"0", first), (b"2", third)]
    assert client.checks("another", "c1") == []


def test_a_nacked_message_comes_again_and_a_nack_counts_once(client: HttpClient) -> None:
    (receipt,) = client.produce("http_nack", [Draft(b"x")])
    nack = Nack(receipt.message_id, delay_level=1)
    assert client.nack("http_group", [nack], "c1") == {receipt.message_id: "ok"}
    assert client.nack("http_group", [nack]) == {receipt.message_id: "duplicate"}
    (again,) = client.pull("%RETRY%http_group", 0, 0, wait_ms=10_000).messages
    assert (again.body, again.reconsume_times, again.origin_message_id) == (b"x", 1, receipt.message_id)
    client.nack("http_group", [Nack(again.message_id, delay_level=-1, reason={"class": "KeyError", "text": "k"})])
    (dead,) = client.pull("%DLQ%http_group", 0, 0, wait_ms=10_000).messages
    assert (dead.real_topic, dead.origin_message_id) == ("http_nack", receipt.message_id)
    assert (dead.failure_class, dead.failure_text) == ("KeyError", "k")
