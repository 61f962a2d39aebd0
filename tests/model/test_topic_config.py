"""What a topic is configured to be."""

from __future__ import annotations

from typing import Any

import pytest

from lakemq.model.errors import InvalidRequest, MessageTooLarge, WrongMessageType
from lakemq.model.message_columns import TTL_MS_MAX
from lakemq.model.topic_config import (
    DELAYED,
    HALF,
    KEY,
    MESSAGE_TYPES,
    NOTHING_SAID,
    PRIORITISED,
    QUEUE,
    TopicConfig,
    changed,
    check,
)

TRAITS = (KEY, QUEUE, DELAYED, HALF, PRIORITISED)


def takes(message_type: str, *traits: str) -> bool:
    said = frozenset(traits)
    try:
        check(TopicConfig(message_type), "t", said, said, 1)
    except WrongMessageType:
        return False
    return True


@pytest.mark.parametrize(
    ("message_type", "taken"),
    [
        ("any", {None, KEY, QUEUE, DELAYED, HALF}),
        ("normal", {None, QUEUE}),
        ("fifo", {KEY, QUEUE}),
        ("delay", {DELAYED}),
        ("transaction", {HALF}),
        ("priority", {None, QUEUE, PRIORITISED}),
        ("of a later version", {None, KEY, QUEUE, DELAYED, HALF}),
    ],
)
def test_a_topic_takes_messages_of_its_type(message_type: str, taken: set[str | None]) -> None:
    assert {trait for trait in (None, *TRAITS) if takes(message_type, *([trait] if trait else []))} == taken


def test_each_of_many_messages_has_what_its_topic_asks_for() -> None:
    with pytest.raises(WrongMessageType):
        check(TopicConfig("fifo"), "t", frozenset(), frozenset({KEY}), 1)
    check(TopicConfig("fifo"), "t", frozenset({KEY}), frozenset({KEY, QUEUE}), 1)


def test_a_body_is_no_larger_than_its_topic_allows() -> None:
    config = TopicConfig(message_bytes_max=10)
    check(config, "t", frozenset(), frozenset(), 10)
    with pytest.raises(MessageTooLarge):
        check(config, "t", frozenset(), frozenset(), 11)


def test_what_is_not_given_stays() -> None:
    config = TopicConfig("fifo", 5, 6)
    assert changed(config, {"message_type": None, "ttl_ms": None, "message_bytes_max": None}, 1) == config
    assert changed(config, {"ttl_ms": 0, "message_bytes_max": 0}, 1) == TopicConfig("fifo")


@pytest.mark.parametrize(
    "given",
    [{"message_type": "x"}, {"ttl_ms": -1}, {"ttl_ms": TTL_MS_MAX + 1}]
    + [{"message_bytes_max": wrong} for wrong in (-1, 101)],
)
def test_what_can_not_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        changed(NOTHING_SAID, given, 100)


def test_a_record_says_what_differs_from_the_default() -> None:
    assert NOTHING_SAID.stored() == {}
    for config in (NOTHING_SAID, TopicConfig("fifo"), TopicConfig(ttl_ms=9), TopicConfig(message_bytes_max=1)):
        assert TopicConfig.of(config.stored() | {"of_a_later_version": 1}) == config


def test_only_what_asks_something_of_messages_costs_a_look_at_them() -> None:
    assert not TopicConfig(ttl_ms=9).restricts
    assert TopicConfig(message_bytes_max=1).restricts
    assert [each for each in MESSAGE_TYPES if not TopicConfig(each).restricts] == ["any"]
