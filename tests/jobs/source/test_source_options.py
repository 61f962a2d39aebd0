from __future__ import annotations

import pytest

from lakemq.jobs.errors import InvalidOption
from lakemq.jobs.log_client import Subscription
from lakemq.jobs.sink.options import parse_sink_options
from lakemq.jobs.source.options import TICK_MS_MAX, Positions, QueueOffsets, parse_options
from lakemq.model.token import make_token
from lakemq.model.wheel import LISTED_MS

TOKEN = make_token(bytes(40)).text
BROKER = {"broker": "http://127.0.0.1:1"}


def test_names_of_options_are_compared_without_case() -> None:
    options = parse_options(BROKER | {"STARTINGOFFSETS": "earliest", "maxmessagespertrigger": "7"})
    assert options.starting == "earliest"
    assert options.messages_per_trigger_max == 7


def test_without_a_subscription_everything_is_read() -> None:
    assert parse_options(BROKER).subscription == Subscription()


def test_a_timer_needs_ticks_and_has_them_by_default() -> None:
    assert parse_options(BROKER).tick_ms is None
    assert parse_options(BROKER | {"timer": "delay"}).tick_ms == 500
    assert parse_options(BROKER | {"timer": "delay", "tickMs": "20"}).tick_ms == 20
    assert parse_options(BROKER | {"timer": "any", "pending": "nack,receipt"}).pending == ("nack", "receipt")


def test_queue_offsets_and_positions_are_told_apart() -> None:
    queues = parse_options(BROKER | {"startingOffsets": '{"a": {"0": 23, "1": -2}}'})
    assert queues.starting == QueueOffsets({"a": {0: 23, 1: -2}})
    positions = parse_options(BROKER | {"startingOffsets": '{"positions": {"broker-a": 5}}'})
    assert positions.starting == Positions({"broker-a": 5})
    topic = parse_options(BROKER | {"startingOffsets": '{"positions": {"0": 5}}'})
    assert topic.starting == QueueOffsets({"positions": {0: 5}})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "broker"),
        (BROKER | {"subscrib": "a"}, "subscrib"),
        (BROKER | {"subscribe": "a,,b"}, "subscribe"),
        (BROKER | {"subscribe": "a", "subscribePattern": "a.*"}, "subscribePattern"),
        (BROKER | {"subscribePattern": "("}, "subscribePattern"),
        (BROKER | {"startingOffsets": "first"}, "startingOffsets"),
        (BROKER | {"timer": "retry"}, "timer"),
        (BROKER | {"tickMs": "0"}, "tickMs"),
        (BROKER | {"timer": "any", "pending": "delay,retry"}, "pending"),
        (BROKER | {"pending": "delay"}, "pending"),
        (BROKER | {"waitMs": "30001"}, "waitMs"),
        (BROKER | {"startingOffsets": '{"a": {"0": -3}}'}, "startingOffsets"),
        (BROKER | {"startingOffsets": '{"a": {"x": 1}}'}, "startingOffsets"),
        (BROKER | {"startingOffsets": '{"a": 1}'}, "startingOffsets"),
        (BROKER | {"startingOffsets": '{"positions": {"broker-a": -1}}'}, "startingOffsets"),
        (BROKER | {"startingOffsets": "earliest", "startingTimestamp": "1"}, "startingTimestamp"),
        (BROKER | {"startingTimestamp": "yesterday"}, "startingTimestamp"),
        (BROKER | {"maxMessagesPerTrigger": "0"}, "maxMessagesPerTrigger"),
        (BROKER | {"columns": "topic,nope"}, "nope"),
        (BROKER | {"columns": "topic,topic"}, "columns"),
        (BROKER | {"partitions": "0"}, "partitions"),
    ],
)
def test_a_fault_names_its_option(options: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidOption, match=named):
        parse_options(options)


def test_a_token_is_shown_neither_by_options_nor_by_an_error() -> None:
    options = parse_options(BROKER | {"token": TOKEN})
    assert options.token == TOKEN
    assert TOKEN not in repr(options)
    written = parse_sink_options(BROKER | {"topic": "t", "Token": TOKEN}, streaming=True)
    assert written.token == TOKEN
    assert TOKEN not in repr(written)
    with pytest.raises(InvalidOption, match="option 'token' can't be that") as refused:
        parse_options(BROKER | {"token": "my-secret"})
    assert "my-secret" not in str(refused.value)
    with pytest.raises(InvalidOption, match="option 'token' can't be that") as refused:
        parse_sink_options(BROKER | {"topic": "t", "token": "my-secret"}, streaming=False)
    assert "my-secret" not in str(refused.value)


def test_what_is_listed_is_not_due_before_the_next_batch_of_an_idle_stream() -> None:
    assert LISTED_MS >= 2 * TICK_MS_MAX
