"""Consumers far behind the end of the log read at a follower, and nobody sees a difference in what they get."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import orjson
import pytest

from lakemq.client import MessageQueue, PullConsumer, PushConsumer, far_reads
from lakemq.client.transport import Answer
from lakemq.testing import GatewayProcess, start_gateway
from tests.client.consuming import Seen, make_topic, numbered, offsets, put, wait_until
from tests.gateway.fleet.electing import LASTING, replicas
from tests.gateway.fleet.following import SMALL, broker_of, start_follower, wait_for
from tests.gateway.http_client import ARROW, connect

KIB = 1024
FAR: dict[str, Any] = {"replication__far_behind_bytes": 100 * KIB, "gateway__pull_bytes_max": 64 * KIB}
"""A pull gets one frame, which has a hundred messages here."""
WAITS: dict[str, Any] = {"replication__silent_ms": 90_000, "replication__confirm_ms_max": 200_000}
"""However long a replica is held up, it stays in sync."""
TEXTS = [f"{text} {'x' * KIB}" for text in numbered(1_000)]
READ_AT = "lakemq-read-at"


def fill(url: str, topic: str) -> None:
    """About a MiB of messages in the topic's only queue."""
    make_topic(url, topic, 1)
    for begin in range(0, len(TEXTS), 100):
        put(url, topic, TEXTS[begin : begin + 100])


class Fleet(NamedTuple):
    """A leader and its follower, which are in sync, and how to ask each."""

    leader: GatewayProcess
    follower: GatewayProcess
    leads: httpx.Client
    follows: httpx.Client

    def put(self, topic: str) -> None:
        """About a MiB of messages in the topic's only queue, which both have."""
        fill(self.leader.url, topic)
        end = wait_for(self.follows, self.leads)
        wait_until(lambda: broker_of(self.follows)["confirmed_position"] >= end)


@contextmanager
def fleet(
    directory: Path,
    at_follower: dict[str, Any] | None = None,
    *,
    first: Callable[[httpx.Client], None] = lambda leads: None,
    **options: Any,
) -> Generator[Fleet]:
    """`first` is done at the leader before there is a follower."""
    with ExitStack() as stack:
        leader = stack.enter_context(start_gateway(directory / "leader", **SMALL, **options))
        leads = stack.enter_context(connect(leader))
        first(leads)
        settings = options if at_follower is None else at_follower
        follower = stack.enter_context(start_follower(directory / "follower", leader.url, **settings))
        follows = stack.enter_context(connect(follower))
        wait_until(lambda: broker_of(leads)["in_sync"] == [0, 1])
        yield Fleet(leader, follower, leads, follows)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that is held up is no reason to ask another."""
    monkeypatch.setattr(far_reads, "ANSWER_S", 90.0)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("far"), **FAR, **WAITS, replication__ack="sync") as found:
        yield found


def pull(http: httpx.Client, topic: str, offset: int, accept: str = "application/json") -> httpx.Response:
    params = {"offset": offset, "max": 10}
    answer = http.get(f"/v1/topics/{topic}/queues/0/messages", params=params, headers={"Accept": accept})
    assert answer.status_code == 200, answer.text
    return answer


def given(http: httpx.Client, topic: str) -> int:
    """How many of the topic's messages it has handed out."""
    name = f'lakemq_topic_messages_out_total{{topic="{topic}"}} '
    lines = [line for line in http.get("/metrics").text.splitlines() if line.startswith(name)]
    return int(float(lines[0].removeprefix(name))) if lines else 0


def read_all(consumer: PullConsumer, queue: MessageQueue, count: int = len(TEXTS)) -> list[str]:
    consumer.assign([queue])
    consumer.seek_to_begin(queue)
    found: list[str] = []
    while len(found) < count:
        found += [message.text() for message in consumer.poll()]
    return found


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson", ARROW])
def test_who_is_far_behind_is_told_of_the_follower_until_he_is_not(both: Fleet, topic: str, accept: str) -> None:
    both.put(topic)
    for http in (both.leads, both.follows):
        assert pull(http, topic, 0, accept).headers[READ_AT] == both.follower.url
        assert READ_AT not in pull(http, topic, len(TEXTS) - 20, accept).headers
        assert READ_AT not in pull(http, topic, len(TEXTS), accept).headers


def test_by_default_all_read_at_the_leader(tmp_path: Path) -> None:
    with fleet(tmp_path, **WAITS) as both:
        both.put("orders")
        for http in (both.leads, both.follows):
            assert READ_AT not in pull(http, "orders", 0).headers


def test_a_pull_consumer_far_behind_reads_at_the_follower_and_the_rest_at_the_leader(
    both: Fleet, topic: str, group: str
) -> None:
    both.put(topic)
    with PullConsumer(group, brokers=both.leader.url, auto_commit=False) as consumer:
        (queue,) = consumer.queues_of(topic)
        assert read_all(consumer, queue) == TEXTS
        consumer.commit()
        assert given(both.leads, topic) + given(both.follows, topic) == len(TEXTS), "each is handed out once"
        assert given(both.follows, topic) >= len(TEXTS) // 2
        assert given(both.leads, topic) >= 100, "the first, by which it is told, and the last"
        before = given(both.follows, topic)
        put(both.leader.url, topic, ["new"])
        assert [message.text() for message in consumer.poll(wait_s=60)] == ["new"]
        assert given(both.follows, topic) == before
    assert offsets(both.leader.url, group, topic) == {0: len(TEXTS)}


def test_a_push_consumer_too_in_order_and_with_its_locks_at_the_leader(both: Fleet, topic: str, group: str) -> None:
    both.put(topic)
    seen = Seen()
    with PushConsumer(group, seen.add, brokers=both.leader.url, orderly=True, consume_from="first") as consumer:
        consumer.subscribe(topic)
        seen.wait(TEXTS)
    assert seen.texts == TEXTS
    assert given(both.follows, topic) >= len(TEXTS) // 4
    assert offsets(both.leader.url, group, topic) == {0: len(TEXTS)}


def test_who_passes_over_all_by_a_filter_has_come_to_the_end(both: Fleet, topic: str) -> None:
    both.put(topic)
    params = {"offset": 0, "max": 10, "tags": "none-has-it"}
    answer = both.leads.get(f"/v1/topics/{topic}/queues/0/messages", params=params)
    assert (answer.json()["status"], answer.json()["next_offset"]) == ("no_matched_message", len(TEXTS))
    assert READ_AT not in answer.headers


def test_a_follower_that_stands_still_or_is_gone_is_left_at_once(
    tmp_path: Path, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fleet(tmp_path, **FAR, **WAITS) as both:
        both.put("orders")
        with PullConsumer(group, brokers=both.leader.url, auto_commit=False) as consumer:
            (queue,) = consumer.queues_of("orders")
            consumer.assign([queue])
            consumer.seek_to_begin(queue)
            found = [message.text() for message in consumer.poll(wait_s=60)]
            wait_until(lambda: given(both.follows, "orders") > 0)
            monkeypatch.setattr(far_reads, "ANSWER_S", 0.5)
            os.kill(both.follower.pid, signal.SIGSTOP)
            try:
                while len(found) < len(TEXTS):
                    found += [message.text() for message in consumer.poll()]
            finally:
                os.kill(both.follower.pid, signal.SIGCONT)
            assert found == TEXTS
        assert given(both.leads, "orders") > len(TEXTS) // 2
        both.follower.kill()
        with PullConsumer(group, brokers=both.leader.url, auto_commit=False) as consumer:
            assert read_all(consumer, queue) == TEXTS


def test_an_address_that_means_another_broker_to_the_client_is_not_read(
    tmp_path: Path, gateway: GatewayProcess, group: str
) -> None:
    at_follower = {**FAR, **WAITS, "gateway__advertise": gateway.url}
    make_topic(gateway.url, "elsewhere", 1)
    put(gateway.url, "elsewhere", ["another broker's"] * len(TEXTS))
    with fleet(tmp_path, at_follower, **FAR, **WAITS) as both:
        both.put("elsewhere")
        assert pull(both.leads, "elsewhere", 0).headers[READ_AT] == gateway.url
        with PullConsumer(group, brokers=both.leader.url, auto_commit=False) as consumer:
            (queue,) = consumer.queues_of("elsewhere")
            assert read_all(consumer, queue) == TEXTS
    with connect(gateway) as http:
        assert given(http, "elsewhere") == 0


@pytest.mark.parametrize(
    ("said", "goes_on"),
    [
        ({"status": "found"}, True),
        ({"status": "found", "holes": []}, True),
        ({"status": "no_matched_message"}, True),
        ({"status": "found", "holes": [[3, 4]]}, False),
        ({"status": "no_new_message"}, False),
        ({"status": "offset_out_of_range"}, False),
    ],
)
def test_where_a_follower_lacks_a_message_the_leader_is_asked(said: dict[str, Any], goes_on: bool) -> None:
    """A follower that has mended its log from the lake has holes that the leader hasn't."""
    assert far_reads.goes_on(Answer(200, {}, orjson.dumps(said))) == goes_on
    headers = {"Lakemq-Status": said["status"]} | ({"Lakemq-Holes": "3-3"} if said.get("holes") else {})
    assert far_reads.goes_on(Answer(200, headers, b"")) == goes_on


def test_nothing_is_read_at_a_follower_that_is_no_longer_in_sync(tmp_path: Path) -> None:
    with fleet(tmp_path, **FAR, replication__silent_ms=1_000) as both:
        both.put("orders")
        names_it = lambda http: pull(http, "orders", 0).headers.get(READ_AT) == both.follower.url  # noqa: E731
        for http in (both.leads, both.follows):
            wait_until(lambda: names_it(http))  # noqa: B023
        os.kill(both.leader.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: not names_it(both.follows))  # it may lack what was done since, such as an erasure
        finally:
            os.kill(both.leader.pid, signal.SIGCONT)
        wait_until(lambda: names_it(both.follows))
        both.follower.kill()
        wait_until(lambda: broker_of(both.leads)["in_sync"] == [0])
        assert not names_it(both.leads)


def test_where_leaders_are_elected_each_names_the_replica_that_follows_it(tmp_path: Path, group: str) -> None:
    with replicas(tmp_path, **LASTING, **FAR) as fleet:
        urls = [fleet.running[each].url for each in (0, 1)]
        fill(urls[0], "orders")
        wait_until(lambda: pull(fleet.http(0), "orders", 0).headers.get(READ_AT) == urls[1])
        with PullConsumer(group, brokers=urls, auto_commit=False) as consumer:
            (queue,) = consumer.queues_of("orders")
            consumer.assign([queue])
            consumer.seek_to_begin(queue)
            found = [message.text() for message in consumer.poll(wait_s=60)]
            fleet.http(0).post("/v1/broker/switch", json={"replica": 1}).raise_for_status()
            assert fleet.leader([1]) == 1
            while len(found) < len(TEXTS):
                found += [message.text() for message in consumer.poll()]
            assert found == TEXTS
        wait_until(lambda: pull(fleet.http(1), "orders", 0).headers.get(READ_AT) == urls[0])


def test_what_has_left_the_followers_log_is_read_at_the_leader(tmp_path: Path, group: str) -> None:
    """A follower deletes old segments by its own settings. It would answer that these offsets are out of range."""
    forgets: dict[str, Any] = {"storage__retention_ms": 0, "storage__compacted_grace_ms": 0, "lake__verify": 0}

    def fills(leads: httpx.Client) -> None:
        """All is in the lake before the follower first asks, as it asks again for that after some time only."""
        fill(str(leads.base_url), "orders")
        fill(str(leads.base_url), "orders")
        told = leads.put("/v1/broker/compacted", json={"compacted_position": broker_of(leads)["max_position"]})
        assert told.status_code == 200, told.text

    with fleet(tmp_path, {**FAR, **WAITS, **forgets}, first=fills, **FAR, **WAITS, lake__verify=0) as both:
        sent = TEXTS * 2
        wait_until(lambda: broker_of(both.follows)["min_position"] > 0)
        assert broker_of(both.leads)["min_position"] == 0
        make_topic(both.leader.url, "others")  # the follower has it, and so says where its log begins now
        wait_until(lambda: READ_AT not in pull(both.leads, "orders", 0).headers)
        assert pull(both.leads, "orders", len(TEXTS) + 400).headers[READ_AT] == both.follower.url
        with PullConsumer(group, brokers=both.leader.url, auto_commit=False) as consumer:
            (queue,) = consumer.queues_of("orders")
            assert read_all(consumer, queue, len(sent)) == sent
