"""Clients of a user that has taken what its quotas let it: they wait, each within its time, and storm nobody."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from typing import NamedTuple

import httpx
import pytest

from lakemq.client import Producer, PullConsumer, Resolution, SimpleConsumer, TransactionProducer
from lakemq.client.http import HttpClient
from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.log_client import LogClient
from lakemq.model.errors import OverQuota
from lakemq.model.message import Draft
from lakemq.testing import GatewayProcess
from tests.gateway.access.asking import allow, make_user
from tests.gateway.http_client import connect

ALL = (allow("Topic:*", *("Pub", "Sub", "Get", "List", "Create")), allow("Group:*", "Pub", "Sub", "Get", "Update"))
SELDOM = 0.001
FEW, RATE = 4, 10_000
SEVERAL = 8
"""So often at most a client asks that is told to wait, by all that it does at once."""
WAIT_S = 60

_numbers = count()


class Users(NamedTuple):
    """A user of the same name and token at several brokers."""

    name: str
    token: str
    brokers: tuple[httpx.Client, ...]

    def limit(self, **quotas: float) -> None:
        for each in self.brokers:
            answer = each.put(f"/v1/users/{self.name}", json={"quotas": quotas})
            assert answer.status_code == 200, answer.text

    @property
    def held_up(self) -> int:
        """Requests that quotas held up, at all of them together."""
        found = [
            re.findall(r"^lakemq_over_quota_total\S+ (\S+)$", each.get("/metrics").text, re.M) for each in self.brokers
        ]
        return sum(int(float(number)) for each in found for number in each)


@pytest.fixture
def user(gateway: GatewayProcess) -> Iterator[Users]:
    name = f"held-{next(_numbers)}"
    with connect(gateway) as http:
        yield Users(name, make_user(http, name, *ALL), (http,))


def send_thrice(producer: Producer, topic: str) -> None:
    for _ in range(3):
        producer.send(topic, b"x")


class Commits:
    """Has every local transaction succeed."""

    def execute_local_transaction(self, message: object, transaction_id: str, argument: object) -> Resolution:
        return Resolution.COMMIT

    def check_local_transaction(self, message: object) -> Resolution:
        return Resolution.COMMIT


def test_who_is_in_debt_waits_until_it_is_paid(gateway: GatewayProcess, user: Users, topic: str) -> None:
    with Producer(gateway.url, token=user.token) as producer:
        producer.send(topic, b"first")
        user.limit(bytes_per_s=RATE)
        before = user.held_up
        while user.held_up == before:  # once, unless the machine stands still for the seconds that there are to pay
            producer.send(topic, os.urandom(4 * RATE))
            assert producer.send(topic, b"second").message_id
        assert user.held_up <= before + SEVERAL


def test_who_may_ask_seldom_gets_it_all_done(gateway: GatewayProcess, user: Users, topic: str, group: str) -> None:
    user.limit(requests_per_s=FEW)
    with (
        TransactionProducer(group, Commits(), gateway.url, token=user.token, timeout_s=WAIT_S) as halves,
        PullConsumer(group, brokers=gateway.url, consume_from="first", token=user.token) as consumer,
    ):
        consumer.subscribe(topic)
        assert halves.send(topic, b"first").message_id
        assert halves.send_in_transaction(topic, b"second").resolution is Resolution.COMMIT
        bodies: set[bytes] = set()
        while len(bodies) < 2:
            bodies |= {each.body for each in consumer.poll(wait_s=WAIT_S)}
        user.limit(requests_per_s=0)


def test_who_would_wait_for_longer_than_it_may_is_told_at_once(
    gateway: GatewayProcess, user: Users, topic: str, group: str
) -> None:
    with (
        Producer(gateway.url, token=user.token) as producer,
        SimpleConsumer(group, brokers=gateway.url, token=user.token) as consumer,
    ):
        producer.send(topic, b"first")
        user.limit(requests_per_s=SELDOM)
        before = user.held_up
        with pytest.raises(OverQuota, match=f"user {user.name} has taken all") as refused:
            send_thrice(producer, topic)
        assert (refused.value.code, refused.value.quota) == ("flow_control", "requests")
        assert refused.value.retry_after_s > 100
        with pytest.raises(OverQuota):
            consumer.receive(topic, wait_s=0)
        assert user.held_up <= before + SEVERAL


def test_all_brokers_hold_a_user_up_and_none_is_stormed(
    two_brokers: tuple[GatewayProcess, GatewayProcess], topic: str
) -> None:
    first, second = two_brokers
    with connect(first) as one, connect(second) as other:
        name = f"held-{next(_numbers)}"
        token = make_user(one, name, *ALL)
        kept = one.get("/v1/topics/RMQ_SYS_ACCESS_TOPIC/queues/0/messages", params={"offset": 0, "max": 10_000}).json()
        (hashed,) = [each for each in kept["messages"] if f'"{token.split("_")[1]}"' in each["body"]]
        make_user(other, name, *ALL)
        said = httpx.Response(200, content=hashed["body"]).json()
        given = {"token_id": said["id"], "secret_hash": said["secret_hash"]}
        assert other.post(f"/v1/users/{name}/tokens", json=given).status_code == 201
        user = Users(name, token, (one, other))
        with Producer([first.url, second.url], token=token) as producer:
            producer.send(topic, b"x")
            user.limit(requests_per_s=SELDOM)
            before = user.held_up
            with pytest.raises(OverQuota):
                send_thrice(producer, topic)
            assert user.held_up <= before + SEVERAL


def test_plain_clients_say_when_to_ask_again_and_jobs_wait_no_longer_than_for_a_broker(
    gateway: GatewayProcess, user: Users, topic: str
) -> None:
    with HttpClient(gateway.url, token=user.token) as client:
        client.produce(topic, [Draft(b"x")])
        user.limit(requests_per_s=SELDOM)
        client.produce(topic, [Draft(b"x")])
        with pytest.raises(OverQuota) as refused:
            client.produce(topic, [Draft(b"x")])
        assert refused.value.retry_after_s > 100
    before = user.held_up
    log = LogClient(gateway.url, retry_s=30, token=user.token)
    with closing(log), pytest.raises(BrokerUnavailable, match=f"user {user.name} has taken all"):
        log.end()
    assert user.held_up == before + 1
