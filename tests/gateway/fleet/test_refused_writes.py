"""Whatever writes is refused at a follower, by one rule: what the contract says of the route."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from lakemq.contract.leader_routes import ELECT
from lakemq.contract.log_level_routes import PUT_LEVELS
from lakemq.contract.route import Reads, Route
from lakemq.contract.routes import ALL, CHECKS
from lakemq.contract.user_routes import ACCESS
from tests.gateway.fleet.following import Pair, broker_of, start_pair, wait_for
from tests.gateway.http_client import Connection, is_problem, put_topic

WRITES = [route for route in ALL if route.writes]
READS = [route for route in ALL if not route.writes]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both have the topic `name`."""
    with start_pair(tmp_path_factory.mktemp("refused")) as running:
        put_topic(running.primary, "name")
        wait_for(running.follower, running.primary)
        yield running


def ask(http: httpx.Client, route: Route) -> httpx.Response:
    """A request of that route, with all that it has to have."""
    segments = ["name" if each.startswith("{") else each for each in route.path.split("/")]
    query = {field.name: field.choices[0] if field.choices else "1" for field in route.query if field.required}
    headers = {"Content-Type": "application/json"} if route.reads is not Reads.NOTHING else {}
    content = b'{"messages": [{"body": "x"}]}' if route.method in ("POST", "PUT") else None
    return http.request(route.method, "/".join(segments), params=query, headers=headers, content=content)


@pytest.mark.parametrize("route", WRITES, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_that_writes_is_refused_and_says_who_leads(pair: Pair, route: Route) -> None:
    before = broker_of(pair.follower)["max_position"]
    answer = ask(pair.follower, route)
    assert is_problem(answer, 421, "not_leader")
    assert answer.json()["leader"] == pair.address
    assert pair.address in answer.json()["detail"]
    assert broker_of(pair.follower)["max_position"] == before


@pytest.mark.parametrize("route", READS, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_that_reads_is_served(pair: Pair, route: Route) -> None:
    assert ask(pair.follower, route).status_code not in (421, 500)


def test_all_but_what_is_got_writes_and_so_does_what_hands_out() -> None:
    assert {route.method for route in READS if not route.of_replica} == {"GET", "HEAD"}
    assert [route for route in READS if route.of_replica] == [PUT_LEVELS, ELECT, ACCESS]
    assert [route for route in WRITES if route.method == "GET"] == [CHECKS]
    assert len(WRITES) > 25


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/topics/name/messages", b"x"),
        ("/v1/topics/name/messages?ack=sync", b"x"),
        ("/v1/topics/new/messages", b"x"),
        ("/v1/topics/name/transactions?producer_group=g", b"x"),
        ("/v1/topics/name/messages", b"x" * 3_000_000),
    ],
)
def test_what_a_primary_serves_quickly_is_refused_too_and_the_connection_goes_on(
    pair: Pair, path: str, body: bytes
) -> None:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {pair.follower.base_url.netloc.decode()}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with Connection(pair.process) as connection:
        for _ in range(2):
            connection.send(head.encode() + body)
            answer = connection.answer()
            assert answer is not None
            assert answer.status == 421
