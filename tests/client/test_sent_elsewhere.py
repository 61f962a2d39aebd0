"""Who asks by https and is sent to an address by http goes nowhere, with its token and its messages."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from lakemq.client import Producer, PullConsumer, SimpleConsumer
from lakemq.client.aio import Producer as AsyncProducer
from lakemq.client.errors import Untrusted
from lakemq.client.http import HttpClient
from lakemq.client.replicas import who_leads
from lakemq.client.route_source import BrokerAddress
from lakemq.client.transport import Transport
from lakemq.contract import routes
from lakemq.jobs.log_client import LogClient, find_brokers
from lakemq.model.errors import InvalidRequest, LakemqError
from lakemq.model.message import Draft
from lakemq.testing import NameServerProcess, start_gateway, start_nameserver
from lakemq.wire.name_servers import NameServers
from lakemq.wire.tls import NotTrusted
from tests.certificates import Authority, Pair
from tests.cli.shell import Run
from tests.client.somebody import Somebody
from tests.gateway.http_client import WAIT_S
from tests.nameserver.asking import hear, wait_until

TOKEN = f"lmq_{'a' * 11}_{'b' * 43}"


class Named(NamedTuple):
    """A name server that speaks TLS, how to tell it of brokers, and with which certificate."""

    server: NameServerProcess
    http: httpx.Client
    pair: Pair
    authority: Authority


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    pair = authority.pair("server")
    trusting = ssl.create_default_context(cafile=str(authority.file))
    with (
        start_nameserver(tls__cert_file=pair.cert, tls__key_file=pair.key, nameserver__probe_ms=0) as server,
        httpx.Client(base_url=server.url, timeout=WAIT_S, trust_env=False, verify=trusting) as http,
    ):
        yield Named(server, http, pair, authority)


@pytest.fixture(autouse=True)
def run(named: Named, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """All tests ask with that token, and trust that authority."""
    run = Run(tmp_path, capsys, monkeypatch)  # without what is in the environment
    monkeypatch.setenv("LAKEMQ_TLS__CA_FILE", str(named.authority.file))
    monkeypatch.setenv("LAKEMQ_TOKEN", TOKEN)
    return run


def test_others_are_found_all_the_same(named: Named, tmp_path: Path) -> None:
    options = {"tls__cert_file": named.pair.cert, "tls__key_file": named.pair.key, "tls__ca_file": named.authority.file}
    url = named.server.url
    with (
        Somebody() as plain,
        start_gateway(tmp_path / "data", fleet__nameservers=url, **options) as gateway,
    ):
        wait_until(lambda: named.http.get("/v1/cluster").json()["brokers"])
        hear(named.http, "broker-a", "orders", replica=7, role="follower", address=plain.url)
        hear(named.http, "broker-x", "orders", address=plain.url)
        wait_until(lambda: find_brokers([url], WAIT_S) == {"broker-a": gateway.url})
        token = (tmp_path / "data" / "admin.token").read_text().strip()
        with Producer(nameservers=url, token=token) as producer:
            assert {producer.send("made", str(each)).broker for each in range(8)} == {"broker-a"}
        with closing(NameServers([url])) as names:
            assert names.primaries() == {"broker-a": gateway.url}
            assert plain.url in [each.address for each in names.replicas()], "a log that is elsewhere is known"
        assert plain.heard == []
        for path in ("broker-x/replicas/0", "broker-a/replicas/7"):
            named.http.delete(f"/v1/brokers/{path}").raise_for_status()


def test_a_broker_that_name_servers_of_https_name_by_http_is_sent_nothing(named: Named, run: Run) -> None:
    """Regression: it was sent the token, and messages."""
    url, said = named.server.url, "is not asked at http://127.0.0.1:.*without TLS, and name servers are asked by https"

    async def send() -> None:
        async with AsyncProducer(nameservers=url) as producer:
            await producer.send("orders", b"secret")

    with Somebody() as plain:
        hear(named.http, "broker-x", "orders", address=plain.url)
        with Producer(nameservers=url) as producer, pytest.raises(Untrusted, match=said):
            producer.send("orders", b"secret")
        with pytest.raises(Untrusted, match=said):
            asyncio.run(send())
        with PullConsumer("pulled", nameservers=url) as consumer, pytest.raises(Untrusted, match=said):
            consumer.queues_of("orders")
        with SimpleConsumer("simple", nameservers=url) as simple, pytest.raises(Untrusted, match=said):
            simple.receive("orders", wait_s=0)
        with pytest.raises(NotTrusted, match=said):
            find_brokers([url], 10 * WAIT_S)
        done = run("topic", "list", "--nameservers", url)
        assert (done.code, "name servers are asked by https" in done.stderr) == (1, True)
        done = run("broker", "list", "--nameservers", url)
        assert (done.code, "name servers are asked by https" in done.stderr) == (0, True)
        assert plain.heard == []
        named.http.delete("/v1/brokers/broker-x/replicas/0").raise_for_status()


def test_whom_a_replica_of_https_follows_is_not_asked_by_http(named: Named) -> None:
    """Regression: who leads was asked there, with the token."""
    with Somebody() as plain:
        said = {"name": "broker-a", "replica": 1, "role": "follower", "epoch": 1, "log_id": "l", "primary": plain.url}
        with Somebody(200, {"Content-Type": "application/json"}, json.dumps(said).encode(), named.pair) as follower:

            async def look() -> BrokerAddress:
                transports: dict[str, Transport] = {}
                found = await who_leads(
                    lambda address: transports.setdefault(address, Transport(address)),
                    BrokerAddress("broker-a", follower.url),
                )
                for each in transports.values():
                    await each.close()
                return found

            assert asyncio.run(look()) == BrokerAddress("broker-a", "", (follower.url,))
            assert [path for _, path, _ in follower.heard] == ["/v1/broker"]
        assert plain.heard == []


def test_an_answer_that_sends_elsewhere_is_an_error_and_not_followed(named: Named) -> None:
    """Regression: asynchronous clients sent the message where it said, by http, and took that answer for a receipt;
    others took it for success, and a message for stored."""
    with Somebody(200, {"Content-Type": "application/json"}, b"{}") as plain:
        for status in (301, 302, 303, 307, 308):
            with Somebody(status, {"Location": f"{plain.url}/login"}, pair=named.pair) as proxy:
                asyncio.run(ask(proxy.url, f"answered {status}, as no lakemq does, and is not followed"))
                with HttpClient(proxy.url) as client:
                    assert not client.is_ready()
                    for question in questions(client):
                        with pytest.raises(LakemqError, match=f"answered {status}, as no lakemq does"):
                            question()
                with closing(LogClient(proxy.url, retry_s=10 * WAIT_S)) as log, pytest.raises(LakemqError):
                    log.put_compacted(1)
                assert {token for _, _, token in proxy.heard} == {f"Bearer {TOKEN}"}, "each has asked there"
        assert plain.heard == []


async def ask(url: str, said: str) -> None:
    transport = Transport(url)
    for target in (routes.PRODUCE.at("orders"), routes.DELETE_TOPIC.at("orders"), routes.BROKER.at()):
        with pytest.raises(LakemqError, match=said):
            await transport.request(target, body=b"secret" if target.method == "POST" else b"")
    await transport.close()


def questions(client: HttpClient) -> list[Callable[[], object]]:
    return [
        lambda: client.produce("orders", [Draft(b"secret")]),
        lambda: client.create_topic("orders", 1),
        lambda: client.delete_topic("orders"),
        lambda: client.delete_group("group"),
        lambda: client.users.delete("ann"),
    ]


def test_a_scheme_of_capitals_is_asked_by_tls(named: Named) -> None:
    """Regression: asynchronous clients didn't trust the authority there, and others' leaders were followed by http."""

    async def is_there(url: str) -> bool:
        transport = Transport(url)
        try:
            return (await transport.request(routes.BROKER.at())).status == 200
        finally:
            await transport.close()

    with Somebody(200, {"Content-Type": "application/json"}, b"{}", named.pair) as server:
        url = server.url.replace("https", "HTTPS")
        assert asyncio.run(is_there(url))
        with HttpClient(url) as client:
            assert client.is_ready()


def test_an_address_that_says_who_asks_is_refused_beside_a_token() -> None:
    """Regression: it was no `LakemqError`, but what the library of HTTP raises."""

    async def ask_as_somebody(url: str) -> None:
        transport = Transport(url.replace("//", "//somebody:secret@"))
        with pytest.raises(InvalidRequest, match="can't be sent: Cannot combine AUTHORIZATION"):
            await transport.request(routes.BROKER.at())
        await transport.close()

    with Somebody() as plain:
        asyncio.run(ask_as_somebody(plain.url))
        assert plain.heard == []
