"""No route answers before what it says is confirmed, by one rule: what the contract says of the route."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx

from lakemq.contract import (
    client_routes,
    dead_letter_routes,
    find_routes,
    leader_routes,
    log_level_routes,
    routes,
    schema_routes,
    sql_routes,
    user_routes,
    waiting_routes,
)
from lakemq.contract.route import Route
from lakemq.contract.routes import ALL
from lakemq.testing import start_gateway
from tests.gateway.fleet.following import SMALL, broker_of, start_follower, stopped
from tests.gateway.http_client import ARROW, connect, is_problem, produce, pull, put_topic, write_arrow
from tests.gateway.receive.asking import receive
from tests.gateway.routing.asking import begin, half_id, log_of, position, wait_until
from tests.gateway.sinks.asking import commit, put_part

SYNC = {"replication__ack": "sync", "replication__silent_ms": 500, "replication__confirm_ms_max": 501}
HOUR_MS = 3_600_000
AT_ONCE = {
    # They show what is confirmed, and nothing else.
    routes.PULL, routes.MESSAGES_BY_KEY, routes.MESSAGE, routes.LOG_END, routes.LOG_MESSAGES, routes.LOG_FRAMES,
    find_routes.SEARCH,
    # They say how the broker is, or are told how somebody else is.
    routes.HEAR_JOBS, routes.COMPACTED, routes.BROKER,
    client_routes.PRODUCER_CLIENTS, client_routes.PUT_CLIENT, client_routes.DELETE_CLIENT,
    routes.HEALTH, routes.READY, routes.METRICS,
    routes.DOCS, routes.DOCS_HEAD, routes.OPENAPI, routes.OPENAPI_HEAD,
    log_level_routes.LEVELS, log_level_routes.PUT_LEVELS,
    # They are told what others do.
    sql_routes.USAGE, sql_routes.REFUSALS,
}  # fmt: skip


class Primary(NamedTuple):
    """A primary with a follower in sync that is played by the test: it says once how far it has the log on its disk."""

    http: httpx.Client
    directory: Path

    def follow(self) -> None:
        """Have all that there is on that follower's disk."""
        said = broker_of(self.http)
        self._ask(said["epoch"], said["flushed_position"])

    def _ask(self, epoch: int, durable: int) -> None:
        query = {"from": durable, "replica": 1, "incarnation": "played", "durable": durable, "epoch": epoch}
        self.http.get("/v1/log/frames", params=query).raise_for_status()

    def keep_in_sync(self) -> bool:
        """Have it in sync for good, as who is can't be written down any more; False: not yet."""
        obstacle = self.directory / "IN_SYNC.tmp"
        self.follow()
        try:
            obstacle.mkdir()
        except FileExistsError:
            return False  # one is being written
        record = self.directory / "IN_SYNC"
        if record.exists() and b'"played"' in record.read_bytes() and broker_of(self.http)["in_sync"] == [0, 1]:
            return True
        obstacle.rmdir()
        return False


class Asked(NamedTuple):
    """A request of a route: what stands for its names, its query, and its body."""

    values: tuple[str | int, ...] = ()
    query: Mapping[str, Any] = MappingProxyType({})
    body: Any = None
    content: bytes = b""


_OFFSET = {"topic": "t", "queue_id": 0, "offset": 0}
_LOCK = {"client_id": "m", "queues": [{"topic": "t", "queue_id": 0}]}
_MESSAGES = {"messages": [{"body": "x"}]}
_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def of_messages(http: httpx.Client) -> dict[Route, Asked]:
    """A sound request of each route of topics, messages and transactions, of what is there."""
    put_topic(http, "t")
    put_topic(http, "deleted")
    stored = produce(http, "t", {"body": "0", "keys": ["k"]}, "1", "2", "3")
    for topic in ("deleted", "t"):
        http.put(f"/v1/topics/{topic}/schema", json={"schema": _SCHEMA}).raise_for_status()
    recalled = produce(http, "t", {"body": "later", "delay_ms": HOUR_MS})[0]["message_id"]
    first, second, third = begin(http, "t", "0", "1", "2")
    rolled_back = {"producer_group": "pg", "resolutions": [{"transaction_id": second, "resolution": "rollback"}]}
    return {
        routes.PUT_TOPIC: Asked(("made",), body={}),
        routes.DELETE_TOPIC: Asked(("deleted",)),
        routes.TOPICS: Asked(),
        routes.TOPIC: Asked(("t",)),
        routes.OFFSET_BY_TIME: Asked(("t", 0), {"timestamp_ms": 0}),
        routes.PRODUCE: Asked(("t",), body=_MESSAGES),
        routes.PULL: Asked(("t", 0), {"offset": 0}),
        routes.MESSAGES_BY_KEY: Asked((), {"topic": "t", "key": "k"}),
        routes.MESSAGE: Asked((stored[0]["message_id"],)),
        schema_routes.SCHEMAS: Asked(),
        schema_routes.SCHEMA: Asked(("t",)),
        schema_routes.PUT_SCHEMA: Asked(("made",), body={"schema": _SCHEMA}),
        schema_routes.DELETE_SCHEMA: Asked(("t",)),
        waiting_routes.SCHEDULED: Asked(),
        waiting_routes.SCHEDULED_TIMES: Asked(),
        waiting_routes.TRANSACTIONS: Asked(),
        find_routes.SEARCH: Asked(("t",), {"key": "k"}),
        find_routes.HISTORY: Asked((stored[0]["message_id"],)),
        find_routes.TOPIC_CLIENTS: Asked(("t",)),
        routes.RECALL: Asked((recalled,)),
        routes.BEGIN: Asked(("t",), {"producer_group": "pg"}, _MESSAGES),
        routes.RESOLVE: Asked((first,), body={"producer_group": "pg", "resolution": "commit"}),
        routes.RESOLVE_MANY: Asked(body=rolled_back),
        waiting_routes.RESOLVE_OPEN: Asked(("pg", half_id(third)), body={"resolution": "commit"}),
        routes.CHECKS: Asked(("pg",)),
        routes.REQUEST: Asked(("t",), {"timeout_ms": 60_000}, {"body": "x"}),
        routes.REPLY: Asked(("nobody",), body={"body": "x"}),
        routes.NACKS: Asked(("g",), body={"messages": [{"message_id": stored[3]["message_id"]}]}),
    }


def of_groups(http: httpx.Client) -> dict[Route, Asked]:
    """One of each route of groups."""
    acknowledged, changed = (each["receipt"] for each in receive(http, "r", "t", max=2))
    http.post("/v1/groups/g/members/m/heartbeat", json={}).raise_for_status()
    http.post("/v1/groups/left/members/m/heartbeat", json={}).raise_for_status()
    http.put("/v1/groups/deleted/offsets", json={"offsets": [_OFFSET]}).raise_for_status()
    redriven = http.post("/v1/groups/g/dead-letters/redrive", json={"dry_run": True}).json()["redrive_id"]
    return {
        routes.RECEIVE: Asked(("r",), body={"topic": "t", "invisible_ms": HOUR_MS, "wait_ms": 0, "max": 1}),
        routes.ACKS: Asked(("r",), body={"receipts": [acknowledged]}),
        routes.INVISIBILITY: Asked(("r",), body={"receipt": changed, "invisible_ms": HOUR_MS}),
        dead_letter_routes.REDRIVE: Asked(("g",), body={}),
        dead_letter_routes.REDRIVEN: Asked((redriven,)),
        routes.GROUPS: Asked(),
        routes.GROUP: Asked(("g",)),
        client_routes.PUT_GROUP: Asked(("p",), body={"consume_enabled": False}),
        client_routes.CLIENTS: Asked(),
        client_routes.GROUP_CLIENTS: Asked(("g",)),
        client_routes.PUT_MEMBER: Asked(("g", "m"), body={"consume_enabled": True}),
        dead_letter_routes.DEAD_LETTERS: Asked(("g",)),
        dead_letter_routes.DISCARD: Asked(("g",), body={}),
        client_routes.PRODUCER_CLIENTS: Asked(("pg",)),
        client_routes.PUT_CLIENT: Asked(("c",), body={}),
        client_routes.DELETE_CLIENT: Asked(("c",)),
        routes.DELETE_GROUP: Asked(("deleted",)),
        routes.HEARTBEAT: Asked(("g", "m"), body={}),
        routes.LEAVE: Asked(("left", "m")),
        routes.MEMBERS: Asked(("g",)),
        routes.OFFSETS: Asked(("g",)),
        routes.COMMIT_OFFSETS: Asked(("g",), body={"offsets": [_OFFSET]}),
        routes.RESET_OFFSETS: Asked(("new",), body={"topic": "t", "to": "latest"}),
        routes.LOCK: Asked(("g",), body=_LOCK),
        routes.UNLOCK: Asked(("g",), body=_LOCK),
    }


def of_jobs(http: httpx.Client) -> dict[Route, Asked]:
    """One of each route of sinks, of the log and of jobs."""
    (half,) = begin(http, "t", "erased")
    for sink in ("s", "committed", "forgotten"):
        put_part(http, sink, 0, "p", ["part"], topic="t").raise_for_status()
    for sink in ("s", "forgotten"):
        commit(http, sink, 0, "p").raise_for_status()
    end = broker_of(http)["max_position"]
    return {
        routes.SINKS: Asked(),
        routes.SINK: Asked(("s",)),
        routes.FORGET_SINK: Asked(("forgotten",)),
        routes.STAGE_PART: Asked(("s", 0, "p"), {"topic": "t"}, content=write_arrow({"body": [b"part"]})),
        routes.COMMIT_BATCH: Asked(("committed", 0), body={"parts": ["p"]}),
        routes.ABORT_BATCH: Asked(("s", 0), body={}),
        routes.LOG_END: Asked(),
        routes.LOG_MESSAGES: Asked((), {"from": 0, "to": end}),
        routes.LOG_FRAMES: Asked((), {"from": 0}),
        routes.LOG_POSITION: Asked((), {"timestamp_ms": 0}),
        routes.ERASE: Asked(body={"positions": [position(half_id(half))]}),
        routes.ROUTING: Asked(),
        routes.PENDING: Asked((), {"kind": "delay"}),
        routes.DECIDE: Asked(body={"cause": [end + 1_000], "action": ["deliver"], "due_ms": [None]} | log_of(http)),
        routes.HEAR_JOBS: Asked(body={"jobs": []}),
        log_level_routes.PUT_LEVELS: Asked(body={"levels": {"lakemq": "INFO"}}),
        routes.COMPACTED: Asked(body={"compacted_position": 0}),
    }


def of_users(http: httpx.Client) -> dict[Route, Asked]:
    """One of each route of users."""
    for name in ("u", "deleted"):
        assert http.put(f"/v1/users/{name}", json={}).is_success
    token_id = http.post("/v1/users/u/tokens", json={}).json()["token_id"]
    return {
        user_routes.USERS: Asked(),
        user_routes.USER: Asked(("u",)),
        user_routes.PUT_USER: Asked(("made",), body={}),
        user_routes.DELETE_USER: Asked(("deleted",)),
        user_routes.TOKENS: Asked(("u",)),
        user_routes.ADD_TOKEN: Asked(("u",), body={}),
        user_routes.DELETE_TOKEN: Asked(("u", token_id)),
        user_routes.POLICIES: Asked(("u",)),
        user_routes.PUT_POLICIES: Asked(("u",), body={"policies": []}),
        sql_routes.USAGE: Asked(("u",), body={"requests": 1}),
        sql_routes.REFUSALS: Asked(body={"refusals": []}),
        sql_routes.CHANGES: Asked(body={"user": "u", "of": "run", "job": "stats"}),
        user_routes.ACCESS: Asked(body={"user": "u", "action": "Pub", "resource": "Topic:t"}),
    }


def send(http: httpx.Client, route: Route, asked: Asked) -> httpx.Response:
    method, path = route.at(*asked.values)
    if asked.body is not None:
        return http.request(method, path, params=asked.query, json=asked.body)
    headers = {"Content-Type": ARROW} if asked.content else {}
    return http.request(method, path, params=asked.query, content=asked.content or None, headers=headers)


MEANT = set(ALL) - {*leader_routes.ALL, routes.LOG_PART, routes.TOPIC}
"""Those left out say nothing of the log: there is nobody here to switch to, and no part. Or they are answered at once
while no topic changes."""
_GONE = {"topic": "deleted", "key": "k"}
REFUSED = {
    routes.PRODUCE: (Asked(("closed",), body=_MESSAGES), 403, "read_only_topic"),
    routes.BEGIN: (Asked(("closed",), {"producer_group": "pg"}, _MESSAGES), 403, "read_only_topic"),
    routes.REQUEST: (Asked(("closed",), {"timeout_ms": 60_000}, {"body": "x"}), 403, "read_only_topic"),
    routes.PULL: (Asked(("deleted", 0), {"offset": 0}), 404, "topic_not_found"),
    routes.MESSAGES_BY_KEY: (Asked((), _GONE), 404, "topic_not_found"),
    routes.TOPIC: (Asked(("deleted",)), 404, "topic_not_found"),
    routes.DELETE_TOPIC: (Asked(("deleted",)), 404, "topic_not_found"),
    routes.OFFSET_BY_TIME: (Asked(("deleted", 0), {"timestamp_ms": 0}), 404, "topic_not_found"),
    routes.RECEIVE: (Asked(("r",), body={"topic": "deleted", "wait_ms": 0}), 404, "topic_not_found"),
    routes.SINK: (Asked(("nobody's",)), 404, "sink_not_found"),
    dead_letter_routes.REDRIVEN: (Asked(("nobody's",)), 404, "redrive_not_found"),
}
"""What is refused once topics have changed: by these the client knows that they have."""


def test_no_route_answers_before_what_it_says_is_confirmed(tmp_path: Path) -> None:
    with start_gateway(tmp_path, **SMALL, **SYNC) as gateway, connect(gateway) as http:
        asked = of_messages(http) | of_groups(http) | of_jobs(http) | of_users(http)  # of a lone broker yet
        primary = Primary(http, tmp_path)
        wait_until(primary.keep_in_sync)
        before, topic = broker_of(http)["confirmed_position"], http.get("/v1/topics/t").json()
        http.post("/v1/topics/t/messages", content=b"unseen", params={"ack": "none"}).raise_for_status()
        wait_until(lambda: broker_of(http)["flushed_position"] > before)
        assert http.get("/v1/topics/t").json() == topic
        with ThreadPoolExecutor(len(MEANT)) as pool:
            answers = {route: pool.submit(send, http, route, asked.get(route, Asked())) for route in MEANT}
        at_once = {route for route, answer in answers.items() if answer.result().is_success}
        assert {f"{each.method} {each.path}" for each in at_once ^ AT_ONCE} == set()
        for route in MEANT - AT_ONCE:
            assert is_problem(answers[route].result(), 504, "not_confirmed"), route
        assert broker_of(http)["confirmed_position"] == before
        for queue in topic["queues"]:
            beyond = pull(http, "t", queue["queue_id"], 1_000_000)
            assert (beyond["status"], beyond["next_offset"]) == ("offset_out_of_range", queue["max_offset"])
        assert is_problem(http.put("/v1/topics/closed", json={"permission": "r"}), 504, "not_confirmed")
        with ThreadPoolExecutor(len(REFUSED)) as pool:
            refusals = {route: pool.submit(send, http, route, each) for route, (each, _, _) in REFUSED.items()}
        for route, refusal in refusals.items():
            assert is_problem(refusal.result(), 504, "not_confirmed"), route

        def is_refused(route: Route, each: Asked, status: int, code: str) -> bool:
            primary.follow()
            return (answer := send(http, route, each)).status_code == status and answer.json()["code"] == code

        for route, refused in REFUSED.items():
            wait_until(partial(is_refused, route, *refused))


def test_no_follower_shows_a_change_of_a_topic_that_is_not_confirmed(tmp_path: Path) -> None:
    patient = {**SMALL, "replication__ack": "sync", "replication__silent_ms": 90_000}
    short = {"replication__silent_ms": 500, "replication__confirm_ms_max": 501}
    with (
        start_gateway(tmp_path / "0", replication__confirm_ms_max=100_000, **patient) as primary,
        start_follower(tmp_path / "1", primary.url, **short) as follower,
        start_gateway(tmp_path / "2", broker__replica=2, fleet__primary=primary.url, **SMALL) as other,
        connect(primary) as leads,
        connect(follower) as follows,
        ThreadPoolExecutor(1) as pool,
    ):
        put_topic(leads, "t", queues=2)
        wait_until(lambda: broker_of(leads)["in_sync"] == [0, 1, 2])
        wait_until(lambda: [len(follows.get("/v1/topics/t").json().get("queues", []))] == [2])
        ways = ("/v1/topics/t", "/v1/topics", "/v1/topics/t/queues/0/messages?offset=0", "/v1/messages?topic=t&key=k")
        end = broker_of(leads)["max_position"]
        wait_until(lambda: broker_of(follows)["max_position"] == end)
        with stopped(other):
            deleted = pool.submit(leads.delete, "/v1/topics/t")
            wait_until(lambda: broker_of(follows)["max_position"] > end or deleted.done())
            for way in ways:
                assert is_problem(follows.get(way), 504, "not_confirmed"), way
            assert not deleted.done()
        wait_until(lambda: is_problem(follows.get("/v1/topics/t"), 404, "topic_not_found"))
