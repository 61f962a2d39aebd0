"""What a user takes of a broker is held against its quotas, whichever way its requests go."""

from __future__ import annotations

import gzip
import re
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pyarrow as pa
import pytest

from lakemq.contract.forms import ARROW
from lakemq.contract.sql_routes import ASKED_BY
from lakemq.jobs.served.who import Who
from lakemq.model.errors import SettingsError
from lakemq.model.quota import BURST_S, UNSAID
from lakemq.settings import load
from lakemq.testing import GatewayProcess, start_gateway
from lakemq.wire.credentials import TOKEN
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.fleet.following import start_pair, wait_for
from tests.gateway.http_client import TLS, WAIT_S, Answer, Connection, is_problem, produce, put_topic
from tests.gateway.routing.asking import wait_until

_numbers = count()
ALL = (allow("Topic:*", "Pub", "Sub", "Get", "List"), allow("Group:*", "Pub", "Sub", "Get"), allow("Sink:*", "Pub"))
SELDOM = 0.001
"""Requests a second: one goes, and the next after a quarter of an hour."""
LONG_S = 100
"""The wait for less than that is no test's."""


class Taker(NamedTuple):
    """A user, and how it asks."""

    name: str
    token: str
    topic: str

    def head(self, method: str, path: str, *headers: str) -> bytes:
        lines = (f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self.token}", *headers)
        return "\r\n".join([*lines, "", ""]).encode()

    def produces(self, size: int = 1) -> bytes:
        """A request that goes the quick way."""
        path = f"/v1/topics/{self.topic}/messages"
        return self.head("POST", path, "Content-Type: text/plain", f"Content-Length: {size}") + b"x" * size

    def looks(self) -> bytes:
        """One that goes the long way."""
        return self.head("GET", f"/v1/topics/{self.topic}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("requests_per_s", "-1"),
        ("requests_per_s", "nan"),
        ("bytes_per_s", "1e13"),
        ("bytes_per_s", "0.0001"),
        ("connections", "1.5"),
        ("connections", "-1"),
        ("topics", "-1"),
        ("queues", "1.5"),
    ],
)
def test_a_default_that_makes_no_sense_is_no_setting(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=rf"auth\.user_{name}_max"):
        load(environment={f"LAKEMQ_AUTH__USER_{name.upper()}_MAX": value})
    assert repr(load(environment={"LAKEMQ_AUTH__USER_BYTES_PER_S_MAX": "1e6"}).auth.user_bytes_per_s_max) == "1000000"


@pytest.fixture
def taker(http: httpx.Client) -> Taker:
    """A user without a quota that no other test has, and a topic."""
    return new_taker(http)


def new_taker(http: httpx.Client, **fields: Any) -> Taker:
    number = next(_numbers)
    name, topic = f"taker-{number}", f"taken-{number}"
    put_topic(http, topic)
    return Taker(name, make_user(http, name, *ALL, **fields), topic)


def limit(http: httpx.Client, taker: Taker, **quotas: float | None) -> None:
    """Change these quotas of the user, and no other."""
    answer = http.put(f"/v1/users/{taker.name}", json={"quotas": quotas})
    assert answer.status_code == 200, answer.text


def ask(connection: Connection, request: bytes) -> Answer:
    connection.send(request)
    answer = connection.answer()
    assert answer is not None
    return answer


def is_held_up(answer: Answer, taker: Taker, quota: str) -> bool:
    """Assert that the answer says so, and after how long to ask again."""
    problem = httpx.Response(answer.status, headers=answer.headers, content=answer.body)
    assert is_problem(problem, 429, "flow_control")
    assert problem.json()["quota"] == quota
    assert f"user {taker.name} " in problem.json()["detail"]
    assert int(answer.headers["retry-after"]) >= (1 if quota == "connections" else LONG_S)
    return True


def held_up(http: httpx.Client) -> dict[str, int]:
    """How many requests each kind of quota held up."""
    found = re.findall(r'^lakemq_over_quota_total\{quota="(\w+)"\} (\S+)$', http.get("/metrics").text, re.MULTILINE)
    return {quota: int(float(number)) for quota, number in found}


# Requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["quick", "long"])
def test_one_request_too_many_waits_on_a_connection_that_stays_open(
    gateway: GatewayProcess, http: httpx.Client, taker: Taker, way: str
) -> None:
    request = taker.produces() if way == "quick" else taker.looks()
    with Connection(gateway) as connection, Connection(gateway) as other:
        assert [ask(connection, request).status for _ in range(3)] == [200, 200, 200]
        limit(http, taker, requests_per_s=SELDOM)
        before = held_up(http)["requests"]
        assert ask(connection, request).status == 200, "it is full at first"
        assert is_held_up(ask(connection, request), taker, "requests")
        assert is_held_up(ask(connection, request), taker, "requests")
        for asks in (taker.looks(), taker.produces()):
            assert is_held_up(ask(other, asks), taker, "requests")
        assert held_up(http)["requests"] >= before + 4
        assert ask(other, taker.head("GET", "/healthz")).status == 200, "who asks for that is nobody"
        limit(http, taker, requests_per_s=0)
        assert [ask(connection, request).status for _ in range(3)] == [200, 200, 200]
        limit(http, taker, requests_per_s=None)
        assert ask(other, request).status == 200


def test_others_are_served_on_the_same_connection(gateway: GatewayProcess, http: httpx.Client, taker: Taker) -> None:
    other = new_taker(http)
    limit(http, taker, requests_per_s=SELDOM)
    with Connection(gateway) as connection:
        assert ask(connection, taker.produces()).status == 200
        for _ in range(2):
            assert is_held_up(ask(connection, taker.produces()), taker, "requests")
            assert [ask(connection, other.produces()).status for _ in range(2)] == [200, 200]
            assert is_held_up(ask(connection, taker.looks()), taker, "requests")
            assert ask(connection, b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200


def test_requests_that_are_sent_ahead_are_counted_each(
    gateway: GatewayProcess, http: httpx.Client, taker: Taker
) -> None:
    other = new_taker(http)
    for each, request in ((taker, taker.produces()), (other, other.looks())):
        limit(http, each, requests_per_s=SELDOM)
        with Connection(gateway) as connection:
            connection.send(request * 20)
            answers = [connection.answer() for _ in range(20)]
            assert [answer and answer.status for answer in answers] == [200] + [429] * 19
            assert ask(connection, b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200


def test_all_tokens_and_addresses_of_a_user_are_one(gateway: GatewayProcess, http: httpx.Client, taker: Taker) -> None:
    limit(http, taker, requests_per_s=SELDOM)
    second = taker._replace(token=http.post(f"/v1/users/{taker.name}/tokens", json={}).json()["token"])
    with Connection(gateway) as connection, Connection(gateway, "127.0.0.5") as elsewhere:
        assert ask(connection, taker.produces()).status == 200
        assert is_held_up(ask(elsewhere, second.produces()), taker, "requests")


def test_what_changes_of_others_gives_nothing_back(gateway: GatewayProcess, http: httpx.Client, taker: Taker) -> None:
    limit(http, taker, requests_per_s=SELDOM)
    with Connection(gateway) as connection:
        assert ask(connection, taker.produces()).status == 200
        new_taker(http)
        limit(http, taker, connections=5)
        assert is_held_up(ask(connection, taker.produces()), taker, "requests")


def test_a_long_poll_is_one_request_however_long_it_waits(
    gateway: GatewayProcess, http: httpx.Client, taker: Taker
) -> None:
    limit(http, taker, requests_per_s=SELDOM)
    path = f"/v1/topics/{taker.topic}/queues/0/messages?offset=0&wait_ms=60000"
    with Connection(gateway) as connection:
        connection.send(taker.head("GET", path))
        produce(http, taker.topic, "x")
        answer = connection.answer()
        assert answer is not None
        assert answer.status == 200
        assert is_held_up(ask(connection, taker.head("GET", path)), taker, "requests")


# Bytes ---------------------------------------------------------------------------------------


def test_a_body_puts_into_debt_and_a_refused_one_is_not_read(
    gateway: GatewayProcess, http: httpx.Client, taker: Taker
) -> None:
    limit(http, taker, bytes_per_s=1)
    with Connection(gateway) as connection:
        assert ask(connection, taker.produces(5_000)).status == 200
        refused = ask(connection, taker.produces(5_000))
        assert is_held_up(refused, taker, "bytes")
        assert int(refused.headers["retry-after"]) > 5_000 - BURST_S - LONG_S
        # The head alone is enough to be refused.
        head = taker.produces(5_000)[:-5_000]
        assert is_held_up(ask(connection, head), taker, "bytes")
        connection.send(b"x" * 5_000)
        assert is_held_up(ask(connection, taker.looks()), taker, "bytes")


def test_a_body_in_chunks_is_counted_as_it_comes(gateway: GatewayProcess, http: httpx.Client, taker: Taker) -> None:
    limit(http, taker, bytes_per_s=1)
    path = f"/v1/topics/{taker.topic}/messages"
    head = taker.head("POST", path, "Content-Type: text/plain", "Transfer-Encoding: chunked")
    with Connection(gateway) as connection:
        assert ask(connection, head + b"3e8\r\n" + b"x" * 1000 + b"\r\n0\r\n\r\n").status == 200
        refused = ask(connection, taker.looks())
        assert is_held_up(refused, taker, "bytes")
        assert int(refused.headers["retry-after"]) > 1000 - BURST_S - LONG_S


LARGE = 1_000_000
RAW = "Content-Type: text/plain", "Content-Encoding: gzip"
SQUEEZED = gzip.compress(b"x" * LARGE)


def arrow(compression: str | None) -> bytes:
    """A stream with one message of so many bytes."""
    batch = pa.record_batch({"body": pa.array([b"x" * LARGE])})
    options, sink = pa.ipc.IpcWriteOptions(compression=compression), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


ARROWS = f"Content-Type: {ARROW}"
MESSAGES, REQUESTS = "POST /v1/topics/{0}/messages", "POST /v1/topics/{0}/requests?timeout_ms=1"
PART = "PUT /v1/sinks/{0}/batches/0/parts/p?topic={0}"


@pytest.mark.parametrize(
    ("target", "headers", "body", "status"),
    [
        (MESSAGES, RAW, SQUEEZED, 200),
        (MESSAGES, (ARROWS,), arrow("zstd"), 200),
        (REQUESTS, RAW, SQUEEZED, 504),
        (PART, (ARROWS,), arrow("zstd"), 200),
        (PART, (ARROWS, "Content-Encoding: gzip"), gzip.compress(arrow(None)), 200),
    ],
    ids=["gzip", "zstd of Arrow", "gzip of a request", "zstd of a part", "gzip of a part"],
)
def test_a_compressed_body_is_counted_as_what_is_stored(
    gateway: GatewayProcess,
    http: httpx.Client,
    taker: Taker,
    target: str,
    headers: tuple[str, ...],
    body: bytes,
    status: int,
) -> None:
    limit(http, taker, bytes_per_s=1_000)
    method, path = target.format(taker.topic).split()
    with Connection(gateway) as connection:
        head = taker.head(method, path, *headers, f"Content-Length: {len(body)}")
        assert ask(connection, head + body).status == status
        refused = ask(connection, taker.looks())
        assert is_held_up(refused, taker, "bytes")
        assert 1_000 - BURST_S - LONG_S < int(refused.headers["retry-after"]) < 1_100, "once"


def test_a_size_that_is_only_said_is_counted_up_to_the_largest_that_is_read(
    gateway: GatewayProcess, http: httpx.Client, taker: Taker
) -> None:
    limit(http, taker, bytes_per_s=10**6)
    with Connection(gateway) as connection:
        head = taker.head("POST", f"/v1/topics/{taker.topic}/messages", f"Content-Length: {10**15}")
        connection.send(head)
    with Connection(gateway) as connection:
        wait_until(lambda: ask(connection, taker.looks()).status == 429)
        assert int(ask(connection, taker.looks()).headers["retry-after"]) <= 68


@pytest.mark.parametrize("large", [True, False])
def test_what_is_answered_is_counted(gateway: GatewayProcess, http: httpx.Client, taker: Taker, large: bool) -> None:
    size = 200_000 if large else 1_000
    produce(http, taker.topic, "y" * size)
    limit(http, taker, bytes_per_s=1)
    with Connection(gateway) as connection:
        path = f"/v1/topics/{taker.topic}/queues/0/messages?offset=0"
        assert len(ask(connection, taker.head("GET", path)).body) > size
        refused = ask(connection, taker.produces())
        assert is_held_up(refused, taker, "bytes")
        assert int(refused.headers["retry-after"]) > size - BURST_S - LONG_S


def test_what_is_answered_the_quick_way_is_counted(gateway: GatewayProcess, http: httpx.Client, taker: Taker) -> None:
    with Connection(gateway) as connection:
        assert ask(connection, taker.produces()).status == 200, "the first of a topic goes the long way"
        limit(http, taker, bytes_per_s=0.5 * BURST_S)
        answered = ask(connection, taker.produces())
        assert answered.status == 200
        refused = ask(connection, taker.produces())
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) > len(answered.body) / 2, "one byte alone would leave one"


# Connections ---------------------------------------------------------------------------------


def test_one_connection_too_many_is_answered_and_closed(
    gateway: GatewayProcess, http: httpx.Client, taker: Taker
) -> None:
    limit(http, taker, connections=2)
    with Connection(gateway) as first:
        assert ask(first, taker.produces()).status == 200
        with Connection(gateway) as second:
            assert ask(second, taker.looks()).status == 200
            for request in (taker.produces(), taker.looks(), taker.looks() * 3):
                with Connection(gateway) as third:
                    third.send(request)
                    answer = third.answer()
                    assert answer is not None
                    assert is_held_up(answer, taker, "connections")
                    assert answer.headers["connection"] == "close"
                    assert third.answer() is None
            assert [ask(each, taker.produces()).status for each in (first, second)] == [200, 200]

        def let_in() -> bool:
            with Connection(gateway) as connection:
                return ask(connection, taker.produces()).status == 200

        wait_until(let_in, "one has gone")


def test_a_connection_is_one_of_whom_it_showed_last(gateway: GatewayProcess, http: httpx.Client, taker: Taker) -> None:
    other = new_taker(http)
    for each in (taker, other):
        limit(http, each, connections=1)
    nobodys = b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Connection(gateway) as first, Connection(gateway) as second, Connection(gateway) as third:
        assert ask(first, taker.produces()).status == 200
        assert ask(first, other.produces()).status == 200
        assert ask(second, taker.produces()).status == 200
        assert is_held_up(ask(first, taker.produces()), taker, "connections")
        assert first.answer() is None
        assert ask(second, nobodys).status == 200
        assert ask(third, taker.looks()).status == 200


def test_who_is_asked_for_by_the_jobs_has_none_of_their_connections(
    gateway: GatewayProcess, http: httpx.Client, taker: Taker, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs_token = make_user(http, f"jobs-of-{taker.name}", allow("Cluster:*", "Compact"))
    limit(http, taker, connections=1)
    by_jobs = taker.head("GET", "/v1/access", f"{ASKED_BY}: Bearer {jobs_token}")
    monkeypatch.setenv(TOKEN, jobs_token)
    with Connection(gateway) as jobs, Connection(gateway) as own, closing(Who(lambda: gateway.url)) as who:
        assert ask(jobs, by_jobs).status == 200
        assert ask(own, taker.produces()).status == 200
        assert ask(jobs, by_jobs).status == 200
        assert who.asks(f"Bearer {taker.token}", None).name == taker.name
        assert is_held_up(ask(jobs, taker.produces()), taker, "connections")


def test_who_only_asks_who_it_is_takes_a_connection_like_anyone(
    gateway: GatewayProcess, http: httpx.Client, taker: Taker
) -> None:
    limit(http, taker, connections=1)
    with Connection(gateway) as first:
        assert ask(first, taker.head("GET", "/v1/access")).status == 200
        for token in (taker.token, "lmq_0123456789abcdef_" + "0" * 64, ""):
            with Connection(gateway) as second:
                asked = taker.head("GET", "/v1/access", f"{ASKED_BY}: Bearer {token}")
                assert is_held_up(ask(second, asked), taker, "connections")


def test_a_connection_is_nobodys_once_it_shows_one_without_a_quota(
    gateway: GatewayProcess, http: httpx.Client, taker: Taker
) -> None:
    other, third = new_taker(http), new_taker(http)
    for each, request in ((taker, other.produces()), (third, other.looks())):
        with Connection(gateway) as first, Connection(gateway) as second:
            assert ask(first, other.produces()).status == 200, "the first of a topic goes the long way"
            limit(http, each, connections=1)
            assert ask(first, each.produces()).status == 200
            assert ask(first, request).status == 200
            assert ask(second, each.produces()).status == 200


def test_a_quota_that_comes_holds_of_connections_that_are_open_as_they_ask(
    gateway: GatewayProcess, http: httpx.Client, taker: Taker
) -> None:
    with Connection(gateway) as first, Connection(gateway) as second:
        assert [ask(each, taker.produces()).status for each in (first, second)] == [200, 200]
        limit(http, taker, connections=1)
        assert ask(second, taker.produces()).status == 200
        assert is_held_up(ask(first, taker.produces()), taker, "connections")
        limit(http, taker, connections=0)
        with Connection(gateway) as third:
            assert [ask(each, taker.produces()).status for each in (third, second)] == [200, 200]


# Whose ---------------------------------------------------------------------------------------


def statuses(url: str, token: str) -> list[int]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with httpx.Client(base_url=url, timeout=WAIT_S, trust_env=False, verify=TLS, headers=headers) as client:
        return [client.get("/v1/topics").status_code for _ in range(2)]


def test_the_default_is_everybodys_but_super_users_and_those_of_ones_own_come_first(tmp_path: Path) -> None:
    data = tmp_path / "data"
    options = {"auth__user_requests_per_s_max": SELDOM, "auth__user_connections_max": 100}
    with start_gateway(data, **options) as gateway, ask_as(gateway, token_of(data)) as admin:
        normal, root = new_taker(admin), new_taker(admin, type="super")
        free = new_taker(admin, quotas={"requests_per_s": 0})
        held = new_taker(admin, type="super", quotas={"requests_per_s": SELDOM})
        said = {each.name: admin.get(f"/v1/users/{each.name}").json()["quotas"] for each in (normal, free)}
        assert said[normal.name] == UNSAID.fields()
        assert said[free.name] == UNSAID.fields() | {"requests_per_s": 0}
        for again in (False, True):
            if again:
                gateway.stop()
                gateway = start_gateway(data, **options)
            assert statuses(gateway.url, token_of(data)) == statuses(gateway.url, "") == [200, 200]
            assert statuses(gateway.url, root.token) == statuses(gateway.url, free.token) == [200, 200]
            assert statuses(gateway.url, normal.token) == statuses(gateway.url, held.token) == [200, 429]
        gateway.stop()


def test_a_follower_holds_them_too_each_by_itself(tmp_path: Path) -> None:
    with start_pair(tmp_path) as pair:
        taker = new_taker(pair.primary, quotas={"requests_per_s": SELDOM})
        wait_for(pair.follower, pair.primary)
        assert [statuses(each, taker.token) for each in (pair.address, pair.process.url)] == [[200, 429]] * 2
        limit(pair.primary, taker, requests_per_s=0)
        wait_for(pair.follower, pair.primary)
        assert statuses(pair.process.url, taker.token) == [200, 200]
