"""Clients say who they are: each with the token that it was given, or has found."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lakemq.client import LakemqError, Producer, PullConsumer, PushConsumer, SimpleConsumer
from lakemq.client.aio import Producer as AsyncProducer
from lakemq.client.consume.member import MemberOptions
from lakemq.client.errors import Unreachable
from lakemq.client.http import HttpClient
from lakemq.client.transport import Transport
from lakemq.contract import routes
from lakemq.jobs.log_client import LogClient, find_brokers
from lakemq.model.errors import InvalidRequest, Unauthenticated
from lakemq.wire.credentials import Credentials
from tests.wire.guarded import OTHER, SECRETS, TOKEN, Guarded, guarded, write_token
from tests.wire.test_credentials import STRANGER, listening


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAKEMQ_TOKEN", "LAKEMQ_TOKEN_FILE", "LAKEMQ_BROKER", "LAKEMQ_NAMESERVERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def peer() -> Iterator[Guarded]:
    with guarded() as begun:
        yield begun


async def _use(transport: Transport, times: int = 1) -> None:
    try:
        for _ in range(times):
            await transport.get(routes.BROKER.at(), timeout_s=60)
    finally:
        await transport.close()


def test_a_client_on_an_event_loop_finds_the_token_of_this_machine_and_keeps_it(peer: Guarded, tmp_path: Path) -> None:
    peer.token_file = write_token(tmp_path)
    asyncio.run(_use(Transport(peer.url), times=2))
    assert peer.heard == [None, f"Bearer {TOKEN}", f"Bearer {TOKEN}"]


def test_what_was_asked_without_the_token_is_asked_whole_once_more(peer: Guarded, tmp_path: Path) -> None:
    peer.token_file = write_token(tmp_path)

    async def send() -> None:
        transport = Transport(peer.url)
        await transport.request(routes.COMPACTED.at(), body=[b"in ", memoryview(b"pieces")], timeout_s=60)
        await transport.close()

    asyncio.run(send())
    assert peer.bodies == [b"in pieces", b"in pieces"]


def test_a_client_on_an_event_loop_says_why_it_took_no_token(peer: Guarded, tmp_path: Path) -> None:
    peer.token_file = write_token(tmp_path, mode=0o644)
    with pytest.raises(Unauthenticated, match=r"may be read or written by others \(mode 0644\)"):
        asyncio.run(_use(Transport(peer.url)))
    with pytest.raises(Unauthenticated, match=r"who asks\? \(it is the token that was given\)"):
        asyncio.run(_use(Transport(peer.url, credentials=Credentials(OTHER))))
    assert peer.heard == [None, f"Bearer {OTHER}"]


def test_a_client_on_an_event_loop_sends_a_found_token_to_nobody_who_takes_the_port(
    peer: Guarded, tmp_path: Path
) -> None:
    peer.token_file = write_token(tmp_path / "data")
    port = int(peer.url.rpartition(":")[2])

    async def use() -> None:
        transport = Transport(
            peer.url, credentials=Credentials(net=listening(tmp_path, os.geteuid(), port=port)), connections_max=2
        )
        first = asyncio.ensure_future(transport.get(routes.BROKER.at(), timeout_s=60))
        await first
        listening(tmp_path, STRANGER, port=port)
        try:
            # Three at a time: one of them needs a connection of its own.
            await asyncio.gather(*(transport.get(routes.BROKER.at(), timeout_s=60) for _ in range(3)))
        finally:
            await transport.close()

    with pytest.raises(Unreachable, match="another user") as refused:
        asyncio.run(use())
    assert not refused.value.sent


def test_every_client_sends_the_token_that_it_is_given(peer: Guarded) -> None:
    with HttpClient(peer.url, token=TOKEN) as client:
        client.broker()
    with closing(LogClient(peer.url, token=TOKEN)) as log:
        log.ask(routes.BROKER.at())
    assert set(peer.heard) == {f"Bearer {TOKEN}"}
    with Producer(peer.url, token=OTHER) as producer, pytest.raises(Unauthenticated, match="who asks"):
        producer.send("topic", "body")
    with SimpleConsumer("group", brokers=peer.url, token=OTHER) as simple, pytest.raises(Unauthenticated):
        simple.receive("topic", wait_s=0)
    with PullConsumer("group", brokers=peer.url, token=OTHER) as pull, pytest.raises(Unauthenticated):
        pull.queues_of("topic")
    push = PushConsumer("group", lambda message: None, brokers=peer.url, token=OTHER)
    push.subscribe("topic")
    with closing(push), pytest.raises(Unauthenticated):
        push.start()

    async def send() -> None:
        async with AsyncProducer(peer.url, token=OTHER) as another:
            await another.send("topic", "body")

    with pytest.raises(Unauthenticated):
        asyncio.run(send())
    assert set(peer.heard) == {f"Bearer {TOKEN}", f"Bearer {OTHER}"}


def _by_log_client(url: str, token: str | None) -> None:
    with closing(LogClient(url, token=token)) as log:
        log.put_compacted(1)


def _by_http_client(url: str, token: str | None) -> None:
    with HttpClient(url, token=token) as client:
        client.create_topic("topic", 1)


@pytest.mark.parametrize("ask", [_by_log_client, _by_http_client])
def test_a_token_that_was_given_goes_along_to_the_leader_and_one_that_was_found_is_found_anew(
    peer: Guarded, tmp_path: Path, ask: Callable[[str, str | None], None]
) -> None:
    with guarded() as leader:
        peer.leader = leader.url
        ask(peer.url, TOKEN)
        assert (peer.heard, leader.heard) == ([f"Bearer {TOKEN}"], [f"Bearer {TOKEN}"])
        peer.heard.clear()
        leader.heard.clear()
        peer.token_file = write_token(tmp_path / "follower")
        leader.token_file, leader.valid = write_token(tmp_path / "leader", OTHER), OTHER
        ask(peer.url, None)
        assert peer.heard == [None, f"Bearer {TOKEN}"]
        assert leader.heard == [None, f"Bearer {OTHER}"]


def test_no_token_goes_to_name_servers_and_those_that_refuse_are_not_said_to_be_silent(
    peer: Guarded, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setenv("LAKEMQ_TOKEN", TOKEN)
    for token in (OTHER, None):
        with Producer(nameservers=peer.url, token=token) as producer, pytest.raises(Unauthenticated, match="who asks"):
            producer.send("topic", "body")
    with pytest.raises(Unauthenticated, match="who asks"):
        find_brokers([peer.url], 60)
    assert set(peer.heard) == {None}
    assert not [record for record in caplog.records if "no name server answers" in record.getMessage()]


@pytest.mark.parametrize(
    "make",
    [
        lambda: HttpClient("http://127.0.0.1:1", token="not-one"),
        lambda: Producer("http://127.0.0.1:1", token="not-one"),
        lambda: PullConsumer("group", token="not-one"),
        lambda: PushConsumer("group", lambda message: None, token="not-one"),
        lambda: SimpleConsumer("group", token="not-one"),
        lambda: LogClient("http://127.0.0.1:1", token="not-one"),
    ],
)
def test_what_is_no_token_is_refused_where_it_is_given(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidRequest, match="token is no token") as refused:
        make()
    assert "not-one" not in str(refused.value)


def test_no_option_shows_the_token(peer: Guarded) -> None:
    assert not any(secret in repr(MemberOptions(token=TOKEN)) for secret in SECRETS)
    with Producer(peer.url, token=TOKEN) as producer:
        with pytest.raises(LakemqError) as failed:
            producer.send("topic", "body")
        assert not any(secret in f"{producer!r} {failed.value!r} {vars(producer)!r}" for secret in SECRETS)
