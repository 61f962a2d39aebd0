"""A group that consumes from its start on skips nothing at brokers that come later, and gets nothing from before it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from lakemq.client import MessageQueue, PullConsumer, PushConsumer
from lakemq.client.consume import offset_store
from lakemq.client.consume.offset_store import Kept, read_offsets
from lakemq.client.consume.start_offset import ALWAYS, CLOCKS_DIFFER_MS
from lakemq.testing import ManualClock, MemoryBroker
from tests.client.consuming import Seen, make_topic, put, wait_until
from tests.ports import free_port

HOUR_MS = 3_600_000


class Fleet:
    """Two brokers of one clock."""

    def __init__(self, clock: ManualClock, brokers: dict[str, str], topic: str) -> None:
        self.clock = clock
        self.urls = brokers
        self.topic = topic

    def put(self, text: str, broker: str) -> None:
        """A message at that broker; what is done next is done an hour later."""
        put(self.urls[broker], self.topic, [text])
        self.clock.time_ms += HOUR_MS

    def begin(self, group: str, brokers: str, **options: Any) -> None:
        """Have the group begin while these brokers can be reached."""
        with PushConsumer(group, lambda message: None, brokers=self.some(brokers), **options) as consumer:
            consumer.subscribe(self.topic)
            consumer.start()
        self.clock.time_ms += HOUR_MS

    def some(self, brokers: str) -> list[str]:
        """The addresses of these."""
        return [self.urls[each] for each in brokers]


@pytest.fixture
def fleet(topic: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    with ExitStack() as stack:
        clock = ManualClock()
        # The file system's time is not the brokers' here.
        monkeypatch.setattr(offset_store, "touch", lambda path: clock.time_ms)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
        brokers = {name: stack.enter_context(MemoryBroker(clock, broker__name=name)).url for name in "ab"}
        for url in brokers.values():
            make_topic(url, topic, 2)
        yield Fleet(clock, brokers, topic)


@pytest.mark.parametrize("model", ["clustering", "broadcasting"])
def test_at_a_broker_that_comes_later_a_group_has_what_was_stored_since_it_began(
    fleet: Fleet, group: str, model: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"model": model, "offset_file": tmp_path / "offsets"} if model == "broadcasting" else {}
    fleet.put("before", "b")
    fleet.begin(group, "a", **options)
    fleet.put("since", "b")
    seen = Seen()
    with PushConsumer(group, seen.add, brokers=fleet.some("ab"), **options) as consumer:
        consumer.subscribe(fleet.topic)
        consumer.start()
        fleet.put("now", "b")
        seen.wait(["since", "now"])
    assert "before" not in seen.texts


def test_a_pull_consumer_has_it_too(fleet: Fleet, group: str) -> None:
    fleet.put("before", "b")
    fleet.begin(group, "a")
    fleet.put("since", "b")
    with PullConsumer(group, brokers=fleet.some("ab")) as consumer:
        consumer.subscribe(fleet.topic)
        heard: list[str] = []
        wait_until(lambda: heard.extend(message.text() for message in consumer.poll(wait_s=0.2)) or "since" in heard)
    assert heard == ["since"]
    with PullConsumer(f"{group}-assigned", brokers=fleet.some("ab")) as consumer:
        consumer.assign(queue for queue in consumer.queues_of(fleet.topic) if queue.broker == "a")
        fleet.clock.time_ms += HOUR_MS
        fleet.put("assigned", "b")
        consumer.assign(consumer.queues_of(fleet.topic))
        heard = []
        wait_until(lambda: heard.extend(message.text() for message in consumer.poll(wait_s=0.2)) or bool(heard))
    assert heard == ["assigned"]


def test_a_new_group_gets_nothing_from_before_it_though_it_begins_at_one_broker_after_the_other(
    fleet: Fleet, group: str
) -> None:
    put(fleet.urls["a"], fleet.topic, ["before"])
    put(fleet.urls["b"], fleet.topic, ["before"])
    seen = Seen()
    dead = f"http://127.0.0.1:{free_port()}"
    with PushConsumer(group, seen.add, brokers=[*fleet.some("ab"), dead]) as consumer:
        consumer.subscribe(fleet.topic)
        consumer.start()
        for broker in "ab":
            fleet.put(f"now at {broker}", broker)
        seen.wait(["now at a", "now at b"])
    assert sorted(seen.texts) == ["now at a", "now at b"]


def test_what_a_clock_that_is_behind_stored_before_is_consumed_rather_than_skipped(fleet: Fleet, group: str) -> None:
    fleet.put("long before", "b")
    put(fleet.urls["b"], fleet.topic, ["maybe since"])
    fleet.clock.time_ms += CLOCKS_DIFFER_MS // 2
    fleet.begin(group, "a")
    seen = Seen()
    with PushConsumer(group, seen.add, brokers=fleet.some("ab")) as consumer:
        consumer.subscribe(fleet.topic)
        consumer.start()
        seen.wait(["maybe since"])
    assert seen.texts == ["maybe since"]


def test_a_file_from_before_it_was_kept_says_not_since_when(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    old = MessageQueue("t", "a", 0)
    path.write_bytes(orjson.dumps({"offsets": [{**old._asdict(), "offset": 3}]}))
    kept = read_offsets(path)
    assert kept == Kept({old: 3}, {})
    assert kept.since(MessageQueue("t", "b", 0), new=False) == ALWAYS
    assert kept.since(MessageQueue("u", "a", 0), new=False) is None
