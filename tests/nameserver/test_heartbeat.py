"""Bodies of heartbeats: what is read, and what is refused."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.errors import InvalidRequest, InvalidTopic, LakemqError
from lakemq.nameserver.heartbeat import parse_key, parse_registration
from lakemq.nameserver.registration import Registration, Share
from lakemq.nameserver.registry import Key
from tests.nameserver.asking import body_of, told

TOPIC = {"topic": "t", "queues": 4, "permission": "rw"}


def parse(**fields: Any) -> Registration:
    return parse_registration(orjson.dumps({**body_of(told()), **fields}))


def test_a_heartbeat_says_what_its_body_says() -> None:
    topics = [TOPIC, {"topic": "%RETRY%g", "queues": 1, "permission": "r"}]
    found = parse(role="follower", epoch=7, log_id="0f-1", permission="r", address="http://[::1]:80", topics=topics)
    assert found == told(role="follower", epoch=7, log_id="0f-1", permission="r", address="http://[::1]:80")._replace(
        topics={"t": Share(4, "rw"), "%RETRY%g": Share(1, "r")}
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cluster": ""}, "cluster"),
        ({"cluster": "a b"}, "cluster"),
        ({"cluster": "a\n"}, "cluster"),
        ({"cluster": None}, "cluster"),
        ({"address": "nowhere at all"}, "is no address"),
        ({"address": "10.0.0.5:8080"}, "is no address"),
        ({"address": "ftp://a:1"}, "is no address"),
        ({"address": "http://a:99999"}, "is no address"),
        ({"address": ""}, "is no address"),
        ({"address": "http://somebody:secret@a:1"}, "address says who asks there"),
        ({"address": f"http://{'a.' * 200}a:1"}, "address"),
        ({"role": "leader"}, "role"),
        ({"epoch": -1}, "epoch"),
        ({"epoch": 1.5}, "epoch"),
        ({"epoch": "1"}, "epoch"),
        ({"epoch": 2**60}, "epoch"),
        ({"log_id": "a/b"}, "log_id"),
        ({"permission": "x"}, "permission"),
        ({"permission": "wr"}, "permission"),
        ({"topics": {}}, "topics"),
        ({"topics": [{**TOPIC, "more": 1}]}, "topics.0.more"),
        ({"topics": [{**TOPIC, "queues": 0}]}, "topics.0.queues"),
        ({"topics": [{**TOPIC, "queues": 65_536}]}, "topics.0.queues"),
        ({"topics": [{**TOPIC, "permission": ""}]}, "topics.0.permission"),
        ({"topics": [{"topic": "t"}]}, "topics.0.queues"),
        ({"topics": [TOPIC, TOPIC]}, "twice"),
        ({"extra": 1}, "extra"),
    ],
)
def test_what_is_wrong_in_a_body_is_named(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        parse(**fields)
    assert said in error.value.detail


def test_a_topic_is_named_as_topics_are() -> None:
    with pytest.raises(InvalidTopic):
        parse(topics=[{**TOPIC, "topic": "a b"}])


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"null", b"\xff", b'{"cluster": "\\ud800"}', b"[" * 100_000])
def test_a_body_that_is_no_heartbeat_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_registration(body)


@given(
    st.binary(max_size=200) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(repr).map(str.encode)
)
def test_any_body_is_a_heartbeat_or_an_error(body: bytes) -> None:
    with pytest.raises(LakemqError):
        parse_registration(body)


@pytest.mark.parametrize("broker", ["", "a b", "a" * 64, "ä", "%"])
def test_a_broker_is_named_as_brokers_are(broker: str) -> None:
    with pytest.raises(InvalidRequest, match="broker"):
        parse_key(broker, "0")


@pytest.mark.parametrize("replica", ["", "-1", "01", "1.0", "²", "65536", "100000", "a", " 1"])
def test_a_replica_is_a_number(replica: str) -> None:
    with pytest.raises(InvalidRequest, match="replica"):
        parse_key("a", replica)


def test_a_path_names_one_replica() -> None:
    assert parse_key("broker-a", "10") == Key("broker-a", 10)
