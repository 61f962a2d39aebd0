"""A real name server on a real socket."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import orjson
import pytest

from lakemq.nameserver import intake, name_server
from lakemq.nameserver.name_server import NameServer
from lakemq.nameserver.registry import Key
from lakemq.settings import NameServer as Limits
from lakemq.testing import NameServerProcess, start_gateway, start_nameserver
from tests.gateway.http_client import JSON, is_problem
from tests.nameserver.asking import NOWHERE, body_of, connect, hear, hold, metric, path_of, routes, told, wait_until
from tests.ports import free_port

REPLICA = {"replica": 0, "address": NOWHERE, "role": "primary", "epoch": 1}


def test_a_broker_is_found_by_its_topics_until_it_says_goodbye(http: httpx.Client, broker: str) -> None:
    answer = http.put(path_of(broker), json=body_of(told(broker, "other")))
    assert (answer.status_code, answer.json()) == (200, {"expires_ms": 120_000})
    found = routes(http, topic=broker)
    assert found["brokers"] == [{"broker": broker, "cluster": "default", "replicas": [REPLICA]}]
    assert found["topics"] == [{"topic": broker, "broker": broker, "queues": 4, "permission": "rw"}]
    assert broker in [each["broker"] for each in routes(http)["brokers"]]
    for _ in range(2):
        assert http.delete(path_of(broker)).json() == {}
        assert routes(http, topic=broker) == routes(http, topic="nobody-has-it")
    assert broker not in [each["broker"] for each in routes(http)["brokers"]]


def test_what_a_replica_says_replaces_all_that_it_said_before(http: httpx.Client, broker: str) -> None:
    hear(http, broker, broker, "gone")
    hear(http, broker, broker, queues=8, permission="r", epoch=2)
    assert routes(http, topic=broker)["topics"] == [{"topic": broker, "broker": broker, "queues": 8, "permission": "r"}]
    assert broker not in [each["broker"] for each in routes(http, topic="gone")["brokers"]]


def test_an_older_epoch_is_never_shown_as_the_primary(http: httpx.Client, broker: str) -> None:
    hear(http, broker, broker, epoch=2, replica=1)
    hear(http, broker, broker, epoch=1)
    (shown,) = routes(http, topic=broker)["brokers"]
    assert [(each["replica"], each["role"]) for each in shown["replicas"]] == [(0, "follower"), (1, "primary")]
    (kept,) = [each for each in http.get("/v1/cluster").json()["brokers"] if each["broker"] == broker]
    assert [each | shown for each, shown in zip(kept["replicas"], shown["replicas"], strict=True)] == kept["replicas"]


def test_the_cluster_is_all_that_was_said_and_when(http: httpx.Client, broker: str) -> None:
    hear(http, broker, "t", "u", log_id="l-1")
    (found,) = [each for each in http.get("/v1/cluster").json()["brokers"] if each["broker"] == broker]
    (replica,) = found["replicas"]
    assert 0 <= replica.pop("seen_ms_ago") < 60_000
    assert (found["cluster"], replica) == ("default", {**REPLICA, "log_id": "l-1", "permission": "rw", "topics": 2})


def test_a_change_answers_who_waits_for_it(http: httpx.Client, broker: str) -> None:
    hear(http, broker, broker)
    with ThreadPoolExecutor() as pool:
        waits = [hold(http, pool, topic=broker), hold(http, pool, 1)]
        other = hold(http, pool, 2, topic="nobody-has-it")
        hear(http, broker, broker, queues=5)
        assert [wait.result()["topics"][-1]["queues"] for wait in waits[:1]] == [5]
        assert 5 in [each["queues"] for each in waits[1].result()["topics"]]
        hear(http, broker, broker, queues=5)  # changes nothing
        assert not other.done()
        hear(http, broker, broker, "nobody-has-it")
        assert other.result()["topics"] != []
        http.delete(path_of(broker))


def test_who_has_another_version_or_none_is_answered_at_once(http: httpx.Client, broker: str) -> None:
    hear(http, broker, broker)
    now = routes(http, topic=broker)
    assert routes(http, topic=broker, version="old", wait_ms=60_000) == now
    assert routes(http, topic=broker, wait_ms=60_000) == now
    assert routes(http, topic=broker, version=now["version"]) == now
    assert routes(http, topic=broker, version=now["version"], wait_ms=1) == now


def test_who_goes_away_waits_no_more(nameserver: NameServerProcess, http: httpx.Client) -> None:
    host, _, port = nameserver.url.removeprefix("http://").rpartition(":")
    version = routes(http, topic="nobody-has-it")["version"]
    wait_until(lambda: metric(http, "watchers") == 0)  # those of tests before are gone
    with socket.create_connection((host, int(port))) as client:
        path = f"/v1/routes?topic=nobody-has-it&version={version}&wait_ms=60000"
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        wait_until(lambda: metric(http, "watchers") == 1)
    wait_until(lambda: metric(http, "watchers") == 0)


def test_two_that_are_told_the_same_have_the_same_versions() -> None:
    said = [("b", ("t", "u")), ("a", ("u",))]
    with start_nameserver() as one, start_nameserver() as two, connect(one) as first, connect(two) as second:
        for http, order in ((first, said), (second, reversed(said))):
            for broker, topics in order:
                hear(http, broker, *topics)
        hear(second, "c", "t")
        second.delete(path_of("c"))
        for query in ({}, {"topic": "t"}, {"topic": "u"}):
            assert routes(first, **query) == routes(second, **query)


def test_what_is_not_of_the_contract_is_a_problem(http: httpx.Client, broker: str) -> None:
    good = orjson.dumps(body_of(told(broker)))
    headers = {"Content-Type": JSON}
    assert is_problem(http.put(path_of(broker), content=good), 415, "unsupported_media_type")
    assert is_problem(http.put(path_of(broker), content=b"{}", headers=headers), 400, "invalid_request")
    assert is_problem(http.put(f"/v1/brokers/{broker}/replicas/x", json={}), 400, "invalid_request")
    assert is_problem(http.put(path_of("a b"), content=good, headers=headers), 400, "invalid_request")
    large = http.put(path_of(broker), content=b" " * 5_000_000, headers=headers)
    assert is_problem(large, 413, "message_too_large")
    assert is_problem(http.get("/v1/routes?topic=a%20b"), 400, "invalid_topic")
    assert is_problem(http.get("/v1/routes?wait_ms=60001"), 400, "invalid_request")
    assert is_problem(http.get("/v1/routes?wait_ms=x"), 400, "invalid_request")
    assert is_problem(http.get("/v1/routes?more=1"), 400, "invalid_request")
    assert is_problem(http.get("/v1/topics"), 404, "not_found")
    assert is_problem(http.post("/v1/routes"), 405, "method_not_allowed")
    assert is_problem(http.get("/v1/routes", headers={"Host": "evil.example"}), 421, "wrong_host")
    assert is_problem(http.get("/v1/routes", headers={"Origin": "http://evil.example"}), 403, "wrong_origin")
    assert routes(http, topic=broker)["brokers"] == []


def test_it_says_how_it_is() -> None:
    with start_nameserver() as server, connect(server) as http:
        for broker in "ab":
            hear(http, broker, "t", broker)
        assert http.get("/healthz").json() == {"status": "up"}
        assert metric(http, "heartbeats_total") == 2
        assert metric(http, "brokers") == len(http.get("/v1/cluster").json()["brokers"]) == 2
        assert (metric(http, "entries"), metric(http, "topics")) == (4, 3)


def test_who_is_not_heard_of_is_gone() -> None:
    with start_nameserver(nameserver__expiry_ms=1_000) as server, connect(server) as http:
        while not (now := routes(http, topic="t"))["brokers"]:
            hear(http, "a", "t")
        assert routes(http, topic="t", version=now["version"], wait_ms=60_000)["brokers"] == []
        assert http.get("/v1/cluster").json() == {"brokers": []}
        assert metric(http, "expired_total") >= 1


def test_nobody_expires_while_the_name_server_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        server = NameServer(Limits(expiry_ms=1_000, probe_ms=0))
        server.start()
        await asyncio.sleep(0)
        await server.hear(Key("a", 0), orjson.dumps(body_of(told())), None, asyncio.get_running_loop().create_future)
        time.sleep(1.3)  # noqa: ASYNC251  nothing goes on meanwhile
        await asyncio.sleep(0.05)
        assert len(server.registry) == 1
        await server.close()

    monkeypatch.setattr(name_server, "TICK_S", 0.02)
    monkeypatch.setattr(name_server, "LATE_S", 0.1)
    asyncio.run(scene())


def test_what_waits_for_its_turn_is_nothing_once_its_sender_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        server, gone = NameServer(Limits()), asyncio.get_running_loop().create_future()
        bodies = [orjson.dumps(body_of(told(*(f"t{number}" for number in range(count))))) for count in (15_000, 1)]
        first = asyncio.ensure_future(server.hear(Key("a", 0), bodies[0], None, lambda: gone))
        await asyncio.sleep(0)  # it was read, and rests
        second = asyncio.ensure_future(server.hear(Key("b", 0), bodies[1], None, lambda: gone))
        await asyncio.sleep(0)
        gone.set_result(None)
        await asyncio.gather(first, second)
        assert list(server.registry.shown) == ["a"]

    # However fast it is read, it rests, and for longer than a busy machine needs to get on with this.
    monkeypatch.setattr(intake.Pace, "rest_s", lambda *_: 1.0)
    asyncio.run(scene())


def test_whose_machine_refuses_connections_is_gone_at_once() -> None:
    with start_nameserver(nameserver__probe_ms=1) as server, connect(server) as http:
        with socket.create_server(("127.0.0.1", free_port())) as listener:
            address = f"http://127.1:{listener.getsockname()[1]}"  # looked up as a name is; `localhost` may be ::1 too
            hear(http, "a", "t", address=address)
            hear(http, "far-away", "t")
            for _ in range(2):
                listener.accept()[0].close()  # it was probed, and listens
            with ThreadPoolExecutor() as pool:
                wait = hold(http, pool, topic="t")
                assert len(routes(http)["brokers"]) == 2
                listener.close()
                assert [each["broker"] for each in wait.result()["brokers"]] == ["far-away"]
        wait_until(lambda: metric(http, "unreachable_total") == 1)
        said = f"refuse connections, the first is a/0 at {address}"
        wait_until(lambda: any(said in line for line in server.log))


def test_a_gateway_that_was_killed_is_gone_and_is_back_as_it_starts_again(tmp_path: Path) -> None:
    with start_nameserver(nameserver__probe_ms=100) as server, connect(server) as http:
        options = {"broker__name": "killed", "fleet__nameservers": server.url}
        options["gateway__port"] = str(free_port())
        gateway = start_gateway(tmp_path, **options)
        wait_until(lambda: routes(http)["brokers"])
        with ThreadPoolExecutor() as pool:
            wait = hold(http, pool)
            gateway.kill()
            assert wait.result()["brokers"] == []
        with start_gateway(tmp_path, **options):
            wait_until(lambda: routes(http)["brokers"])
            assert metric(http, "unreachable_total") == 1  # a probe that comes as it stops may count one more
        assert routes(http)["brokers"] == []


def test_a_flood_takes_no_room_from_who_is_known() -> None:
    bounds = {"brokers_max": 4, "topics_max": 3, "all_topics_max": 8, "waiters_max": 1, "request_bytes_max": 2_000}
    options = {f"nameserver__{name}": value for name, value in bounds.items()}
    with start_nameserver(**options) as server, connect(server) as http, ThreadPoolExecutor() as pool:
        hear(http, "known", "t")
        answers = [http.put(path_of(f"flood-{number}"), json=body_of(told("f"))) for number in range(50)]
        assert [answer.status_code for answer in answers] == [200] * 3 + [429] * 47
        assert is_problem(answers[-1], 429, "flow_control")
        assert "retry-after" in answers[-1].headers
        hear(http, "known", "t", "u")
        for topics in (["t", "u", "v", "w"], [f"{'x' * 120}{number}" for number in range(20)]):
            assert http.put(path_of("known"), json=body_of(told(*topics))).status_code in (413, 429)
        assert routes(http, topic="u")["brokers"] != []
        hold(http, pool, topic="t")
        watch = {"topic": "t", "version": routes(http, topic="t")["version"], "wait_ms": "60000"}
        refused = http.get("/v1/routes", params=watch)
        assert is_problem(refused, 503, "busy")
        assert metric(http, "refused_total") >= 48
        http.delete(path_of("known"))


def test_a_stop_answers_who_waits_and_exits_with_0() -> None:
    with start_nameserver() as server, connect(server) as http, ThreadPoolExecutor() as pool:
        hear(http, "a", "t")
        now = routes(http, topic="t")
        wait = hold(http, pool, topic="t")
        assert server.stop() == 0
        assert wait.result() == now
        assert server.log[0] == f"nameserver: listening on {server.url}\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"nameserver__host": "0.0.0.0"}, "auth.insecure = true"),
        ({"nameserver__port": "x"}, "nameserver.port"),
        ({"nameserver__probe": "1"}, "nameserver.probe"),
        ({"nameserver__host": "192.0.2.1", "auth__insecure": "true"}, "192.0.2.1"),
    ],
)
def test_what_can_not_be_is_said_in_one_line(options: dict[str, str], said: str) -> None:
    with pytest.raises(RuntimeError, match=said) as error:
        start_nameserver(**options)
    assert str(error.value).count("\n") == 1


def test_a_name_server_that_is_asked_to_stop_says_that_it_is_not_ready_and_serves_on() -> None:
    with start_nameserver(nameserver__drain_ms=3_600_000) as server, connect(server) as http:
        assert http.get("/readyz").json() == {"status": "ready"}
        os.kill(server.pid, signal.SIGTERM)
        wait_until(lambda: http.get("/readyz").status_code == 503)
        assert is_problem(http.get("/readyz"), 503, "busy")
        assert http.get("/healthz").status_code == 200
        hear(http, "late")
        assert [each["broker"] for each in routes(http)["brokers"]] == ["late"]
        assert metric(http, "refused_total") == 0

        def is_over() -> bool:
            if server.poll() is None:
                os.kill(server.pid, signal.SIGTERM)  # the first may be taken for the one before
            return server.poll() is not None

        wait_until(is_over)
        assert server.stop() == 0
