"""Every client asks by TLS, and finds the token of this machine's administrator by it too."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from lakemq.client import Producer, PullConsumer, PushConsumer, SimpleConsumer, address_list, replicas
from lakemq.client.aio import Producer as AsyncProducer
from lakemq.client.aio import PullConsumer as AsyncPullConsumer
from lakemq.client.aio import SimpleConsumer as AsyncSimpleConsumer
from lakemq.client.errors import Unreachable
from lakemq.client.http import HttpClient
from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.log_client import LogClient, find_brokers
from lakemq.model.errors import LakemqError
from lakemq.model.message import Draft
from lakemq.testing import GatewayProcess, start_gateway, start_nameserver
from lakemq.testing.nameserver_process import NameServerProcess
from tests.certificates import Authority

WAIT_S = 60


class Secured(NamedTuple):
    """A broker and its name server, which both ask everybody for a certificate. `environment`: of who may ask."""

    gateway: GatewayProcess
    nameserver: NameServerProcess
    environment: dict[str, str]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder / "authority")
    server, client = authority.pair("server"), authority.pair("client")
    files = {"cert_file": server.cert, "key_file": server.key, "client_ca_file": authority.file}
    asking = {"ca_file": authority.file, "client_cert_file": client.cert, "client_key_file": client.key}
    options = {f"tls__{name}": file for name, file in (files | asking).items()}
    environment = {f"LAKEMQ_TLS__{name.upper()}": str(file) for name, file in asking.items()}
    with (
        start_nameserver(**options) as names,
        start_gateway(folder / "data", auth__required=True, fleet__nameservers=names.url, **options) as gateway,
    ):
        assert (gateway.url[:8], names.url[:8]) == ("https://", "https://")
        yield Secured(gateway, names, environment)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAKEMQ_TOKEN", "LAKEMQ_TOKEN_FILE", "LAKEMQ_BROKER", "LAKEMQ_NAMESERVERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def trusting(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> Secured:
    for name, file in secured.environment.items():
        monkeypatch.setenv(name, file)
    return secured


def wait_for(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_every_client_asks_by_tls(trusting: Secured) -> None:
    url, heard = trusting.gateway.url, threading.Event()
    with (
        Producer(url) as producer,
        PushConsumer("pushed", lambda message: heard.set(), brokers=url, consume_from="first") as push,
    ):
        push.subscribe("secured")
        producer.send("secured", "one")
        assert heard.wait(WAIT_S)
    with PullConsumer("pulled", brokers=url) as consumer:
        consumer.assign(consumer.queues_of("secured"))
        consumer.seek_to_begin()
        bodies: list[str] = []
        wait_for(lambda: bool(bodies.extend(each.text() for each in consumer.poll())) or len(bodies) == 1)
    with HttpClient(url) as client:
        assert client.is_ready()
        client.create_topic("one-queue", 1)
        client.produce("one-queue", [Draft(bytes(3_000_000))])
        assert [len(each.body) for each in client.pull("one-queue", 0, 0).messages] == [3_000_000]
    with closing(LogClient(url)) as log:
        assert log.end().end_position > 0

    async def receive() -> int:
        async with AsyncProducer(url) as producer, AsyncSimpleConsumer("received", brokers=url) as simple:
            await producer.send("received", b"x" * 2_000_000)
            return len(await simple.receive("received", wait_s=30))

    assert asyncio.run(receive()) == 1


class Held:
    """In front of a gateway: takes connections, and passes nothing on before `goes_on`."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._port = int(gateway.url.rpartition(":")[2])
        self.taken, self.goes_on = 0, asyncio.Event()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        await self.goes_on.wait()
        answers, asks = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(_pass_on(reader, asks), _pass_on(answers, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
    writer.close()


def test_a_program_that_starts_while_its_broker_shakes_no_hands_waits_for_it(
    trusting: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "LOOK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(address_list, "FIRST_TIMEOUT_S", WAIT_S)

    async def queues() -> int:
        held = Held(trusting.gateway)
        async with await asyncio.start_server(held.take, "127.0.0.1") as server:
            url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with AsyncPullConsumer("begun", brokers=url) as consumer:
                asked = asyncio.create_task(consumer.queues_of("begun"))
                while held.taken < 2:
                    await asyncio.wait([asked], timeout=0.01)
                    assert not asked.done() or asked.result() is None
                held.goes_on.set()
                return len(await asked)

    with HttpClient(trusting.gateway.url) as client:
        client.create_topic("begun", 3)
    assert asyncio.run(queues()) == 3


def test_brokers_are_found_by_a_name_server_that_speaks_tls(trusting: Secured) -> None:
    names = trusting.nameserver.url
    wait_for(lambda: find_brokers([names], WAIT_S) == {"broker-a": trusting.gateway.url})
    with Producer(nameservers=names) as producer:
        assert producer.send("found", "one").broker == "broker-a"


def test_who_does_not_trust_the_gateway_is_told_at_once(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEMQ_TLS__CA_FILE", str(Authority(tmp_path, "strangers").file))
    url, said = secured.gateway.url, r"its certificate is not trusted: .*tls\.ca_file \(LAKEMQ_TLS__CA_FILE\)"
    begun_s = time.monotonic()
    with HttpClient(url) as client:
        with pytest.raises(LakemqError, match=said):
            client.is_ready()
        with pytest.raises(Unreachable, match=said) as refused:
            client.topics()
        assert (refused.value.code, refused.value.sent) == ("not_trusted", False)
    with Producer(url) as producer, pytest.raises(Unreachable, match=said):
        producer.send("secured", "one")
    with SimpleConsumer("group", brokers=url) as simple, pytest.raises(Unreachable, match=said):
        simple.receive("secured", wait_s=0)
    with closing(LogClient(url, retry_s=10 * WAIT_S)) as log, pytest.raises(LakemqError, match=said):
        log.end()
    with pytest.raises(LakemqError, match=said):
        find_brokers([secured.nameserver.url], 10 * WAIT_S)
    assert time.monotonic() - begun_s < 10 * WAIT_S, "nobody waited for what doesn't come"


def test_who_has_no_certificate_is_refused(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEMQ_TLS__CA_FILE", secured.environment["LAKEMQ_TLS__CA_FILE"])
    with HttpClient(secured.gateway.url) as client, pytest.raises(Unreachable):
        client.topics()
    with closing(LogClient(secured.gateway.url, retry_s=0)) as log, pytest.raises(BrokerUnavailable):
        log.end()
