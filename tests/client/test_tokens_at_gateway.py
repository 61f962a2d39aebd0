"""Clients at a real gateway where all takes a token."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from lakemq.client import Producer, PullConsumer, PushConsumer, Resolution, SimpleConsumer, TransactionProducer
from lakemq.client.aio import SimpleConsumer as AsyncSimpleConsumer
from lakemq.client.http import HttpClient
from lakemq.jobs.log_client import LogClient
from lakemq.model.errors import Forbidden, Unauthenticated
from lakemq.model.message import Draft
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.access.asking import allow, ask_as, make_user, token_of

WAIT_S = 60


@dataclass
class Strict:
    """`folder` has the administrator's token."""

    gateway: GatewayProcess
    folder: Path

    @property
    def url(self) -> str:
        return self.gateway.url

    @property
    def admin(self) -> httpx.Client:
        return ask_as(self.gateway, token_of(self.folder))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAKEMQ_TOKEN", "LAKEMQ_TOKEN_FILE", "LAKEMQ_BROKER", "LAKEMQ_NAMESERVERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strict]:
    folder = tmp_path_factory.mktemp("strict")
    with start_gateway(folder, auth__required=True) as gateway:
        yield Strict(gateway, folder)


@pytest.fixture
def unreadable(strict: Strict) -> Iterator[Strict]:
    """The administrator's token is found by nobody."""
    file = strict.folder / "admin.token"
    file.chmod(0o644)
    yield strict
    file.chmod(0o600)


def wait_for(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.02)


class Transfers:
    def execute_local_transaction(self, message: object, transaction_id: str, argument: object) -> Resolution:
        return Resolution.COMMIT

    def check_local_transaction(self, message: object) -> Resolution:
        return Resolution.COMMIT


def test_every_client_finds_the_administrator_s_token(strict: Strict) -> None:
    heard = threading.Event()
    with (
        Producer(strict.url) as producer,
        PushConsumer("pushed", lambda message: heard.set(), brokers=strict.url, consume_from="first") as push,
    ):
        push.subscribe("found")
        producer.send("found", "one")
        assert heard.wait(WAIT_S)
    with TransactionProducer("transfers", Transfers(), strict.url) as transfers:
        assert transfers.send_in_transaction("found", "two").resolution is Resolution.COMMIT
    with PullConsumer("pulled", brokers=strict.url) as pull:
        pull.assign(pull.queues_of("found"))
        pull.seek_to_begin()
        bodies: list[str] = []
        wait_for(lambda: bool(bodies.extend(each.text() for each in pull.poll())) or len(bodies) == 2)
    with closing(LogClient(strict.url)) as log:
        assert log.end().end_position > 0

    async def receive() -> int:
        async with AsyncSimpleConsumer("received", brokers=strict.url) as simple:
            return len(await simple.receive("found", wait_s=0))

    asyncio.run(receive())


def test_without_a_token_that_may_be_taken_clients_say_how_to_get_on(unreadable: Strict) -> None:
    how = r"admin\.token may be read or written by others \(mode 0644\); put a token into LAKEMQ_TOKEN"
    with HttpClient(unreadable.url) as client, pytest.raises(Unauthenticated, match=how):
        client.topics()
    with Producer(unreadable.url) as producer, pytest.raises(Unauthenticated, match=how):
        producer.send("found", "one")
    with SimpleConsumer("group", brokers=unreadable.url) as simple, pytest.raises(Unauthenticated, match=how):
        simple.receive("found", wait_s=0)


def test_a_user_s_token_is_used_and_no_other_is_looked_for(strict: Strict) -> None:
    with strict.admin as admin:
        token = make_user(
            admin, "writer", allow("Topic:mine*", "Pub", "Create", "Get", "List"), allow("Cluster:*", "Get")
        )
    with Producer(strict.url, token=token) as producer:
        producer.send("mine", "one")
        with pytest.raises(Forbidden, match="user writer may not"):
            producer.send("theirs", "one")
    with HttpClient(strict.url, token=token) as client, pytest.raises(Forbidden):
        client.delete_topic("mine")


def test_clients_find_the_token_of_a_gateway_that_began_anew(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "one", auth__required=True) as gateway:
        port = gateway.url.rpartition(":")[2]
        client, producer = HttpClient(gateway.url), Producer(gateway.url)
        client.create_topic("orders", 1)
        producer.send("orders", "one")
    with start_gateway(tmp_path / "two", auth__required=True, gateway__port=port), client, producer:
        client.create_topic("orders", 1)
        producer.send("orders", "two")
        assert [each.text() for each in client.pull("orders", 0, 0).messages] == ["two"]


def test_a_consumer_whose_token_is_over_goes_on_when_its_file_has_another(
    unreadable: Strict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "lakemq.client")
    rights = (allow("Topic:*", "Sub", "Get", "List"), allow("Group:*", "Sub", "Get", "List", "Create", "Update"))
    file = tmp_path / "token"
    heard: list[str] = []
    with unreadable.admin as admin, HttpClient(unreadable.url, token=token_of(unreadable.folder)) as client:
        first = make_user(admin, "reader", *rights, allow("Cluster:*", "Get"))
        file.write_text(first)
        monkeypatch.setenv("LAKEMQ_TOKEN_FILE", str(file))
        client.create_topic("lasting", 1)
        consumer = PushConsumer(
            "lasting", lambda message: heard.append(message.text()), brokers=unreadable.url, consume_from="first"
        )
        consumer.subscribe("lasting")
        with consumer:
            client.produce("lasting", [Draft(b"one")])
            wait_for(lambda: heard == ["one"])
            (known,) = admin.get("/v1/users/reader").json()["tokens"]
            answer = admin.delete(f"/v1/users/reader/tokens/{known['token_id']}")
            assert answer.status_code < 300, answer.text
            client.produce("lasting", [Draft(b"two")])
            wait_for(lambda: any("can't pull from" in each.getMessage() for each in caplog.records))
            given = admin.post("/v1/users/reader/tokens", json={}).json()["token"]
            file.write_text(given)
            client.produce("lasting", [Draft(b"three")])
            wait_for(lambda: heard[-1] == "three")
    assert heard == ["one", "two", "three"]
    assert not any(each.rpartition("_")[2] in caplog.text for each in (first, given))
