"""What name servers answer is read, or refused: whatever it is."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.client.nameserver_answers import NamedTopic, read_cluster, read_routes
from lakemq.client.route_source import BrokerAddress, TopicRoute
from lakemq.model.errors import LakemqError
from lakemq.model.message_queue import MessageQueue

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["version", "brokers", "topics", "broker", "cluster", "replicas", "address", "role", "epoch", "queues", "topic"]
)
LIKE_AN_ANSWER = st.recursive(
    JSON | st.sampled_from(["primary", "follower", "http://a:1", "rw", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=12,
)


def replica(address: str, role: str = "primary", epoch: int = 0, replica: int = 0, **more: str) -> dict[str, Any]:
    return {"replica": replica, "address": address, "role": role, "epoch": epoch, **more}


def answer(*brokers: dict[str, Any], topics: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"version": "v", "brokers": list(brokers), "topics": topics or []}


def broker(name: str, *replicas: dict[str, Any]) -> dict[str, Any]:
    return {"broker": name, "cluster": "default", "replicas": list(replicas)}


@given(LIKE_AN_ANSWER)
def test_whatever_is_answered_is_read_or_refused(content: object) -> None:
    with suppress(LakemqError):
        read_routes(content, ("a",))
    with suppress(LakemqError):
        assert all(isinstance(broker, BrokerAddress) for broker in read_cluster(content))


def test_of_two_that_call_themselves_primary_the_higher_epoch_is_it() -> None:
    old, new = replica("http://a:1/", epoch=3), replica("http://a:2/", epoch=4)
    assert read_cluster({"brokers": [broker("a", old, new)]}) == [BrokerAddress("a", "http://a:2", ("http://a:1",))]


def test_of_two_of_one_epoch_the_lower_number_is_it_as_everywhere() -> None:
    """Regression: it was the one that was named first."""
    second, first = replica("http://a:2", replica=10), replica("http://a:1", replica=9)
    assert read_cluster({"brokers": [broker("a", second, first)]}) == [
        BrokerAddress("a", "http://a:1", ("http://a:2",))
    ]


def test_a_broker_without_a_primary_has_its_followers_only() -> None:
    named = read_routes(answer(broker("a", replica("http://a:1", "follower"))), ())
    assert named.brokers == {"a": BrokerAddress("a", "", ("http://a:1",))}


def test_an_address_that_is_none_is_left_out() -> None:
    bad, good = replica("localhost:1", epoch=9), replica("http://a:1", permission="r")
    assert read_cluster({"brokers": [broker("a", bad, good)]}) == [BrokerAddress("a", "http://a:1", (), "r")]


def test_an_address_that_says_who_asks_there_is_left_out() -> None:
    """Regression: with a token beside it each request to there failed by what is no `LakemqError`."""
    bad, good = replica("http://somebody:secret@a:1", epoch=9), replica("HTTP://A:1", permission="r")
    assert read_cluster({"brokers": [broker("a", bad, good)]}) == [BrokerAddress("a", "http://a:1", (), "r")]


def test_only_topics_that_are_wanted_are_read() -> None:
    topics = [
        {"topic": topic, "broker": "a", "queues": 2, "permission": "rw"} for topic in ("orders", "readings", "parcels")
    ]
    named = read_routes(answer(broker("a", replica("http://a:1")), topics=topics), {"orders", "nothing"})
    assert named.topics == {"orders": {"a": NamedTopic(2, "rw")}}


@pytest.mark.parametrize(
    ("queues", "permission"), [(10**9, "rw"), (-1, "rw"), (2, "x"), (True, "rw"), (2, None), ("2", "r")]
)
def test_what_no_topic_can_be_is_refused(queues: Any, permission: Any) -> None:
    entry = {"topic": "orders", "broker": "a", "queues": queues, "permission": permission}
    with pytest.raises(LakemqError, match="name server"):
        read_routes(answer(broker("a", replica("http://a:1")), topics=[entry]), ("orders",))


def test_a_route_parts_what_may_be_read_from_what_may_be_written() -> None:
    queues = [MessageQueue("orders", name, 0) for name in ("r", "rw", "w")]
    queues += [MessageQueue("orders", "neither", 0)]
    route = TopicRoute("orders", queues, {"r": "r", "w": "w", "neither": ""})
    assert [queue.broker for queue in route.readable] == ["r", "rw"]
    assert [queue.broker for queue in route.writable] == route.writers == ["rw", "w"]
    assert TopicRoute("orders", queues[:1], {"r": "r"}).writers == ["r"], "so that the broker says why not"
