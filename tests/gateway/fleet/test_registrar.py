"""A broker is known to all name servers for as long as it serves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.gateway.fleet.registrar import Registrar
from lakemq.model.errors import SettingsError
from lakemq.settings import load
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.disk.files import Files
from lakemq.storage.log.commit_log import CommitLog
from lakemq.testing import NameServerProcess, start_gateway, start_nameserver
from tests.gateway.fleet.following import broker_of, degraded, starting_later, wait_for
from tests.gateway.fleet.test_answers import SYNC, Primary
from tests.gateway.http_client import WAIT_S, connect, is_problem, produce, pull_all, put_topic
from tests.gateway.routing.asking import wait_until
from tests.nameserver import asking
from tests.pauses import pause
from tests.ports import free_port

NOBODY = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def nameservers() -> Iterator[list[NameServerProcess]]:
    with ExitStack() as stack:
        yield [stack.enter_context(start_nameserver()) for _ in range(2)]


@pytest.fixture(scope="module")
def asked(nameservers: list[NameServerProcess]) -> Iterator[list[httpx.Client]]:
    with ExitStack() as stack:
        yield [stack.enter_context(asking.connect(each)) for each in nameservers]


def urls(nameservers: list[NameServerProcess], *more: str) -> str:
    return ",".join([*(each.url for each in nameservers), *more])


def until(clients: list[httpx.Client], is_so: Callable[[dict[str, Any]], bool], **query: Any) -> None:
    """Wait until it is so of the routes at all of them."""
    begun_s = time.monotonic()
    for http in clients:
        while not is_so(found := asking.routes(http, **query)):
            assert time.monotonic() < begun_s + WAIT_S, found
            pause(begun_s)


def brokers_in(found: dict[str, Any]) -> dict[str, str]:
    """Their addresses."""
    return {each["broker"]: each["replicas"][0]["address"] for each in found["brokers"]}


def replicas_in(found: dict[str, Any], broker: str) -> list[tuple[int, str, str]]:
    """A broker's replicas, each with its address and what it is."""
    return [
        (each["replica"], each["address"], each["role"])
        for one in found["brokers"]
        if one["broker"] == broker
        for each in one["replicas"]
    ]


def permission_of(broker: str, topic: str) -> Callable[[dict[str, Any]], set[str]]:
    return lambda found: {
        each["permission"] for each in found["topics"] if (each["broker"], each["topic"]) == (broker, topic)
    }


def test_a_broker_is_known_from_its_start_with_each_change_of_a_topic_until_its_end(
    nameservers: list[NameServerProcess], asked: list[httpx.Client], tmp_path: Path
) -> None:
    options = {"broker__name": "comes", "fleet__nameservers": urls(nameservers)}
    permission = permission_of("comes", "orders")
    with start_gateway(tmp_path / "data", **options) as gateway, connect(gateway) as http:
        until(asked, lambda found: brokers_in(found).get("comes") == gateway.url)
        put_topic(http, "orders", queues=3)
        until(asked, lambda found: permission(found) == {"rw"}, topic="orders")
        put_topic(http, "orders", queues=3, permission="r")
        until(asked, lambda found: permission(found) == {"r"}, topic="orders")
        http.delete("/v1/topics/orders").raise_for_status()
        until(asked, lambda found: not permission(found), topic="orders")
    until(asked, lambda found: "comes" not in brokers_in(found))


def test_what_a_group_failed_on_is_found_too_and_nothing_else_of_the_systems(
    nameservers: list[NameServerProcess], asked: list[httpx.Client], tmp_path: Path
) -> None:
    options = {"broker__name": "fails", "fleet__nameservers": urls(nameservers)}
    with start_gateway(tmp_path / "data", **options) as gateway, connect(gateway) as http:
        (message,) = produce(http, "once", "x")
        nacks = {"client_id": "c", "messages": [{"message_id": message["message_id"], "delay_level": -1}]}
        http.post("/v1/groups/g/nacks", json=nacks).raise_for_status()
        until(asked, lambda found: bool(found["topics"]), topic="%DLQ%g")
        named = {each["topic"] for each in asking.routes(asked[0])["topics"] if each["broker"] == "fails"}
        assert named <= {"once", "%DLQ%g", "%RETRY%g"}


def test_a_name_server_that_is_away_delays_no_other_and_is_told_when_it_is_back(tmp_path: Path) -> None:
    port = free_port()
    with start_nameserver() as first, start_nameserver(nameserver__port=port) as second:
        options = {"broker__name": "waits", "fleet__nameservers": urls([first, second], NOBODY)}
        with start_gateway(tmp_path / "data", **options) as gateway, connect(gateway) as http:
            with asking.connect(first) as client, asking.connect(second) as other:
                until([client, other], lambda found: "waits" in brokers_in(found))
            wait_until(lambda: NOBODY in degraded(http))
            second.kill()
            with start_nameserver(nameserver__port=port) as again, asking.connect(again) as client:
                until([client], lambda found: "waits" in brokers_in(found))


def test_a_drained_broker_takes_nothing_and_its_topics_are_shown_so(
    nameservers: list[NameServerProcess], asked: list[httpx.Client], tmp_path: Path
) -> None:
    options = {"broker__name": "drains", "fleet__nameservers": urls(nameservers)}
    with start_gateway(tmp_path / "data", **options) as gateway, connect(gateway) as http:
        produce(http, "kept", "x")
    with start_gateway(tmp_path / "data", broker__permission="r", **options) as gateway, connect(gateway) as http:
        until(asked, lambda found: permission_of("drains", "kept")(found) == {"r"}, topic="kept")
        for topic in ("kept", "new"):
            assert is_problem(http.post(f"/v1/topics/{topic}/messages", content=b"x"), 403, "read_only_topic")
        found = http.get("/v1/topics/kept/queues/0/messages", params={"offset": 0}).json()
        assert [each["body"] for each in found["messages"]] == ["x"]


def test_the_advertised_address_is_registered_and_is_a_name_of_the_gateways(
    nameservers: list[NameServerProcess], asked: list[httpx.Client], tmp_path: Path
) -> None:
    address = "http://mq.example:8443"
    options = {"broker__name": "named", "fleet__nameservers": urls(nameservers)}
    with start_gateway(tmp_path / "data", gateway__advertise=address, **options) as gateway, connect(gateway) as http:
        until(asked, lambda found: brokers_in(found).get("named") == address)
        assert http.get("/healthz", headers={"Host": "mq.example:8443"}).status_code == 200
        assert http.get("/healthz", headers={"Host": "mq.example:1"}).status_code == 421


def test_a_follower_finds_its_primary_by_the_name_servers_and_is_registered_as_what_it_is(
    nameservers: list[NameServerProcess], asked: list[httpx.Client], tmp_path: Path
) -> None:
    options = {"broker__name": "pair", "fleet__nameservers": urls(nameservers)}
    with start_gateway(tmp_path / "primary", **options) as primary, connect(primary) as http:
        produce(http, "orders", "x")
        with (
            start_gateway(tmp_path / "follower", broker__replica=3, **options) as follower,
            connect(follower) as follows,
        ):
            replicas = [(0, primary.url, "primary"), (3, follower.url, "follower")]
            until(asked, lambda found: replicas_in(found, "pair") == replicas)
            assert [each["queues"] for each in asking.routes(asked[0], topic="orders")["topics"]] == [4]
            wait_for(follows, http)
            assert [each["body"] for each in pull_all(follows, "orders")] == ["x"]
            primary.stop()
            until(asked, lambda found: replicas_in(found, "pair") == replicas[1:])
            wait_until(lambda: "can't be followed now" in degraded(follows))
            assert follows.post("/v1/topics/orders/messages", content=b"x").json()["leader"] == primary.url
            with start_gateway(tmp_path / "primary", **options) as again, connect(again) as http:  # elsewhere
                produce(http, "orders", "y")
                wait_for(follows, http)
                assert follows.post("/v1/topics/orders/messages", content=b"x").json()["leader"] == again.url


def test_no_thread_for_a_heartbeat_is_no_reason_to_say_nothing_ever_after(
    nameservers: list[NameServerProcess],
    asked: list[httpx.Client],
    tmp_path: Path,
) -> None:
    options: dict[str, dict[str, Any]] = {
        "storage": {"data_dir": str(tmp_path)},
        "broker": {"name": "threadless"},
        "fleet": {"nameservers": nameservers[0].url},
    }

    async def scene() -> None:
        log = CommitLog((settings := load(environment={}, options=options)).storage, Files(), SystemClock())
        log.files.make_dirs(log.directory)
        log.open(loop=asyncio.get_running_loop())
        registrar = Registrar(settings, log, settings.broker.role)
        registrar.start(asking.NOWHERE)
        await asyncio.to_thread(until, asked[:1], lambda found: "threadless" in brokers_in(found))
        await registrar.close()
        await log.close()

    with starting_later("registrar"):
        asyncio.run(scene())


def test_a_topic_that_is_not_confirmed_is_told_to_no_name_server(
    nameservers: list[NameServerProcess], asked: list[httpx.Client], tmp_path: Path
) -> None:
    options = {"broker__name": "sure", "fleet__nameservers": urls(nameservers)}
    with start_gateway(tmp_path, **SYNC, **options) as gateway, connect(gateway) as http:
        put_topic(http, "before")
        until(asked, lambda found: bool(permission_of("sure", "before")(found)))
        primary = Primary(http, tmp_path)
        wait_until(primary.keep_in_sync)
        assert is_problem(http.put("/v1/topics/new", json={}), 504, "not_confirmed")
        assert is_problem(http.put("/v1/topics/before", json={"permission": "r"}), 504, "not_confirmed")
        for each in asked:
            assert permission_of("sure", "new")(asking.routes(each)) == set()
            assert permission_of("sure", "before")(asking.routes(each)) == {"rw"}
        primary.follow()
        until(asked, lambda found: permission_of("sure", "new")(found) == {"rw"})
        until(asked, lambda found: permission_of("sure", "before")(found) == {"r"})


def test_while_nothing_is_confirmed_name_servers_are_told_what_was_before(tmp_path: Path) -> None:
    """Also one that is started meanwhile, and knows nobody."""
    port = free_port()
    options = {"broker__name": "sure", "fleet__nameservers": f"http://127.0.0.1:{port}"}
    with start_gateway(tmp_path, **SYNC, **options) as gateway, connect(gateway) as http:
        with start_nameserver(nameserver__port=port) as first, asking.connect(first) as client:
            put_topic(http, "before")
            until([client], lambda found: bool(permission_of("sure", "before")(found)))
            primary = Primary(http, tmp_path)
            wait_until(primary.keep_in_sync)
            assert is_problem(http.put("/v1/topics/new", json={}), 504, "not_confirmed")
        with start_nameserver(nameserver__port=port) as again, asking.connect(again) as client:
            until([client], lambda found: bool(permission_of("sure", "before")(found)))
            assert permission_of("sure", "new")(asking.routes(client)) == set()
            primary.follow()
            until([client], lambda found: bool(permission_of("sure", "new")(found)))


def test_while_a_write_waits_to_be_confirmed_name_servers_are_told_what_was_before(tmp_path: Path) -> None:
    """It may wait for longer than they remember a broker that says nothing."""
    port = free_port()
    options = {"broker__name": "sure", "fleet__nameservers": f"http://127.0.0.1:{port}"}
    patient = SYNC | {"replication__confirm_ms_max": 7_200_000, "replication__silent_ms": 3_600_000}
    with (
        start_gateway(tmp_path, **patient, **options) as gateway,
        connect(gateway) as http,
        ThreadPoolExecutor(1) as pool,
    ):
        primary = Primary(http, tmp_path)
        with start_nameserver(nameserver__port=port) as first, asking.connect(first) as client:
            put_topic(http, "before")
            until([client], lambda found: bool(permission_of("sure", "before")(found)))
            wait_until(primary.keep_in_sync)
            end = broker_of(http)["max_position"]
            waiting = pool.submit(http.put, "/v1/topics/new", json={})
            wait_until(lambda: broker_of(http)["max_position"] > end)
        with start_nameserver(nameserver__port=port) as again, asking.connect(again) as client:
            until([client], lambda found: bool(permission_of("sure", "before")(found)))
            assert permission_of("sure", "new")(asking.routes(client)) == set()
            wait_until(lambda: primary.follow() is None and waiting.done())
            until([client], lambda found: bool(permission_of("sure", "new")(found)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"broker": {"replica": 1}}, "a follower: set fleet.primary to its primary"),
        ({"fleet": {"leader": "etcd"}}, "fleet.leader is etcd: fleet.store"),
        ({"fleet": {"primary": "10.0.0.1:8080"}}, "fleet.primary"),
        ({"fleet": {"nameservers": "nowhere"}}, "nameservers"),
        ({"gateway": {"advertise": "10.0.0.1"}}, "advertise"),
        ({"broker": {"cluster": "a b"}}, "cluster"),
        ({"broker": {"permission": "w"}}, "permission"),
        (
            {"gateway": {"host": "0.0.0.0"}, "auth": {"insecure": True}, "fleet": {"nameservers": NOBODY}},
            "set gateway.advertise to the address",
        ),
        (
            {"gateway": {"host": "0.0.0.0"}, "auth": {"insecure": True}, "replication": {"far_behind_bytes": 1}},
            "set gateway.advertise to the address",
        ),
    ],
)
def test_what_nobody_could_find_is_refused_before_anything_starts(options: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load(environment={}, options=options)


def test_a_name_server_is_named_once() -> None:
    settings = load(environment={"LAKEMQ_FLEET__NAMESERVERS": f"{NOBODY}/, {NOBODY}"})
    assert settings.fleet.nameservers == (NOBODY,)
