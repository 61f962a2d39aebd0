"""What is answered of a registry."""

from __future__ import annotations

import orjson
import pytest

from lakemq.nameserver import answers
from lakemq.nameserver.answers import Answers
from lakemq.nameserver.registry import EVERYTHING, Key, Registry
from lakemq.settings import NameServer
from tests.nameserver.asking import NOWHERE, told


def make() -> tuple[Registry, Answers]:
    registry = Registry(NameServer())
    return registry, Answers(registry)


def test_a_topic_has_its_brokers_and_no_others() -> None:
    registry, found = make()
    registry.hear(Key("b", 0), told("t", "u", queues=2, epoch=3), b"", None, 0.0)
    registry.hear(Key("b", 1), told("t", role="follower", epoch=3), b"", None, 0.0)
    registry.hear(Key("a", 0), told("t", cluster="c"), b"", None, 0.0)
    answer = orjson.loads(found.of("u").body)
    shown = [
        {"replica": 0, "address": NOWHERE, "role": "primary", "epoch": 3},
        {"replica": 1, "address": NOWHERE, "role": "follower", "epoch": 3},
    ]
    assert answer == {
        "version": found.of("u").version,
        "brokers": [{"broker": "b", "cluster": "default", "replicas": shown}],
        "topics": [{"topic": "u", "broker": "b", "queues": 2, "permission": "rw"}],
    }
    both = orjson.loads(found.of("t").body)
    assert [each["broker"] for each in both["brokers"]] == [each["broker"] for each in both["topics"]] == ["a", "b"]
    everything = orjson.loads(found.of(EVERYTHING).body)
    assert [(each["topic"], each["broker"]) for each in everything["topics"]] == [("t", "a"), ("t", "b"), ("u", "b")]


def test_a_topic_that_nobody_has_is_an_empty_answer() -> None:
    _, found = make()
    answer = orjson.loads(found.of("t").body)
    assert (answer["brokers"], answer["topics"]) == ([], [])
    assert found.of("t") is found.of("u")


def test_who_asks_again_gets_the_same_bytes() -> None:
    registry, found = make()
    registry.hear(Key("a", 0), told("t"), b"", None, 0.0)
    for topic in ("t", EVERYTHING):
        assert found.of(topic).body is found.of(topic).body


def test_answers_for_many_topics_are_not_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "KEPT_BYTES_MAX", 1_000)
    registry, found = make()
    registry.hear(Key("a", 0), told(*(f"t{number}" for number in range(100))), b"", None, 0.0)
    first = found.of("t0")
    for number in range(100):
        assert orjson.loads(found.of(f"t{number}").body)["topics"][0]["topic"] == f"t{number}"
    assert found.of("t0").body is not first.body
    assert found.of("t0") == first
