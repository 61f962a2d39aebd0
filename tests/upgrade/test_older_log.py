"""A broker that an older lakemq left, killed, is gone on with: all that was acknowledged there holds here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from lakemq.storage.mend.verify import verify_log
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.access.asking import ask_as, token_of
from tests.gateway.http_client import connect, is_problem, produce, pull_all
from tests.gateway.receive.asking import ack
from tests.gateway.routing.asking import now_ms, wait_until
from tests.gateway.sinks.asking import commit, put_part, sink_of
from tests.upgrade.corpus import NAMES, Older, unpack
from tests.upgrade.fill import IDEMPOTENT, ORDERS, RETRIED


class Scene(NamedTuple):
    """A broker that goes on with an older one's files."""

    older: Older
    gateway: GatewayProcess
    http: httpx.Client

    @property
    def said(self) -> dict[str, Any]:
        """What the older one had answered."""
        return self.older.said


@pytest.fixture(scope="module", params=NAMES)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    older = unpack(request.param, tmp_path_factory.mktemp("older"))
    assert verify_log(older.log).sound
    options = {"lake__dir": older.lake, "routing__grace_ms": 0}  # what is due long since is decided at once
    with start_gateway(older.log, **options) as gateway, connect(gateway) as http:
        yield Scene(older, gateway, http)


def bodies(http: httpx.Client, topic: str) -> list[str]:
    """Of all that can be pulled."""
    return [each["body"] for each in pull_all(http, topic)]


def test_there_is_a_corpus() -> None:
    assert NAMES


def test_it_is_the_same_broker(scene: Scene) -> None:
    now, then = scene.http.get("/v1/broker").json(), scene.said["broker"]
    assert (now["name"], now["log_id"]) == (then["name"], then["log_id"])
    assert now["max_position"] >= then["max_position"]


@pytest.mark.parametrize("topic", ["orders", "large", "work", "sunk", "%DLQ%billing"])
def test_each_message_is_what_and_where_it_was(scene: Scene, topic: str) -> None:
    """Those that have left the log too: the lake's files have them."""
    then = scene.said["topics"][topic]
    now = {each["position"]: each for each in pull_all(scene.http, topic)}
    assert len(then) <= len(now)
    for message in then:
        there = now[message["position"]]
        assert {name: there[name] for name in message} == message
        found = scene.http.get(f"/v1/messages/{message['message_id']}") if len(then) < 100 else None
        assert found is None or found.json() == there
    assert scene.said["erased"]["position"] not in now


def test_a_request_that_was_stored_is_not_stored_again(scene: Scene) -> None:
    content, headers = IDEMPOTENT
    again = scene.http.post(f"/v1/topics/{ORDERS}/messages", json=content, headers=headers).json()
    if now_ms() - scene.said["once"]["messages"][0]["store_time_ms"] < 300_000:  # the window, in which it is known
        assert again == scene.said["once"]
    assert set(again["messages"][0]) >= set(scene.said["once"]["messages"][0])


def test_groups_are_where_they_were(scene: Scene) -> None:
    offsets = scene.http.get("/v1/groups/billing/offsets", params={"topic": ORDERS}).json()["offsets"]
    assert scene.said["offsets"][0] in offsets
    first, *others = scene.said["received"]
    assert ack(scene.http, "workers", first) == ["ok"]
    assert set(ack(scene.http, "workers", *others)) <= {"ok", "receipt_expired"}
    assert scene.said["dead"] in [each["origin_message_id"] for each in pull_all(scene.http, "%DLQ%billing")]


def test_dead_letters_are_open_or_discarded_as_they_were(scene: Scene) -> None:
    then = {scene.said["dead"]: "open"}
    if "discarded" in scene.said:  # not before dead letters could be
        then[scene.said["discarded"]] = "discarded"
    letters: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:  # a page may be empty, as a log that was killed goes on at far larger offsets
        asked = {"after": after} if after else {}
        page = scene.http.get("/v1/groups/billing/dead-letters", params=asked).json()
        letters += page["dead_letters"]
        after = page["next_after"]
    assert {each["origin_message_id"]: each["state"] for each in letters} == then
    redrive = scene.http.post("/v1/groups/billing/dead-letters/redrive", json={"where": "true", "dry_run": True})
    assert redrive.json()["matched"] == 1, "one that was discarded is not sent again"


def test_what_waited_comes(scene: Scene) -> None:
    wait_until(lambda: "soon" in bodies(scene.http, "boarding"))
    if now_ms() < scene.said["late"]["due_ms"]:
        assert "late" not in bodies(scene.http, "boarding")
        recalled = scene.http.delete(f"/v1/messages/{scene.said['late']['message_id']}")
        assert recalled.json()["recalled"] is True
    else:
        wait_until(lambda: "late" in bodies(scene.http, "boarding"))
    if now_ms() - scene.said["soon"]["store_time_ms"] > 2 * 3_600_000:  # of level 18
        wait_until(lambda: len(pull_all(scene.http, RETRIED)) >= 1)


def test_a_transaction_is_resolved_by_its_old_id(scene: Scene) -> None:
    assert "rolled back" not in bodies(scene.http, "paid")
    resolve = {"producer_group": "shop", "resolution": "commit"}
    answer = scene.http.post(f"/v1/transactions/{scene.said['half']}", json=resolve)
    assert answer.status_code == 200, answer.text
    wait_until(lambda: sorted(bodies(scene.http, "paid")) == ["committed", "open"])


def test_a_sink_goes_on(scene: Scene) -> None:
    assert sink_of(scene.http, "exports")["batch"] == 0
    done = commit(scene.http, "exports", 1, "q", progress="to 18")
    age_ms = now_ms() - scene.said["soon"]["store_time_ms"]
    if not done.is_success and age_ms > 23 * 3_600_000:  # a staged part is kept for a day
        assert is_problem(done, 409, "part_not_found")
        assert put_part(scene.http, "exports", 1, "q", ["part three"], topic="sunk").is_success
        done = commit(scene.http, "exports", 1, "q", progress="to 18")
    assert done.is_success, done.text
    wait_until(lambda: "part three" in bodies(scene.http, "sunk"))


def test_users_are_who_they_were_and_may_what_they_might(scene: Scene) -> None:
    with ask_as(scene.gateway, scene.said["token"]) as reader:
        assert reader.get(f"/v1/topics/{ORDERS}/queues/0/messages?offset=0").is_success
        assert is_problem(reader.get("/v1/topics/paid/queues/0/messages?offset=0"), 403, "forbidden")
    with ask_as(scene.gateway, token_of(scene.older.log)) as administrator:
        assert "reader" in administrator.get("/v1/users").text


def test_topics_are_as_they_were(scene: Scene) -> None:
    assert len(scene.http.get(f"/v1/topics/{ORDERS}").json()["queues"]) == 3
    assert scene.http.get("/v1/topics/gone").status_code == 404
    (made,) = produce(scene.http, "made-now", "by this one")
    assert made["position"] >= scene.said["broker"]["max_position"]


def test_the_log_is_sound_after_all_that(tmp_path: Path) -> None:
    for name in NAMES:
        older = unpack(name, tmp_path / name)
        with start_gateway(older.log, lake__dir=older.lake) as gateway, connect(gateway) as http:
            produce(http, ORDERS, "one more", ack="sync")
        assert verify_log(older.log).sound
