"""What waits, listed for people over HTTP: scheduled messages as they are due, and open transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.access.asking import allow, ask_as, make_user
from tests.gateway.http_client import connect, is_problem, produce, put_topic, read_arrow
from tests.gateway.routing.asking import begin, decide, half_id, nack

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def waits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that decides nothing by itself, so what waits goes on waiting."""
    data = tmp_path_factory.mktemp("waiting")
    with start_gateway(data, routing__lead_ms=0, routing__grace_ms=-1) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def http(waits: GatewayProcess) -> Iterator[httpx.Client]:
    with connect(waits) as client:
        yield client


def listed(http: httpx.Client, path: str, rows: str, **query: Any) -> list[dict[str, Any]]:
    """The rows of all pages."""
    found: list[dict[str, Any]] = []
    while True:
        response = http.get(path, params=query)
        assert response.status_code == 200, response.text
        said = response.json()
        assert len(said[rows]) <= query.get("max", 100)
        found += said[rows]
        if said["next_after"] is None:
            return found
        query["after"] = said["next_after"]


@pytest.mark.parametrize("count_max", [1, 3, 100])
def test_scheduled_messages_are_listed_the_soonest_first(http: httpx.Client, topic: str, count_max: int) -> None:
    hours = (5, 2, 9, 1, 7)
    sent = [
        produce(http, topic, {"body": "x", "delay_ms": each * HOUR_MS, "keys": [f"h{each}"], "tag": "T"})[0]
        for each in hours
    ]
    ids = {each: stored["message_id"] for each, stored in zip(hours, sent, strict=True)}
    found = listed(http, "/v1/scheduled", "messages", topic=topic, max=count_max)
    assert [(each["message_id"], each["keys"]) for each in found] == [
        (ids[hour], [f"h{hour}"]) for hour in sorted(hours)
    ]
    assert found == sorted(found, key=lambda each: each["due_ms"])
    assert {(each["topic"], each["tag"], each["recallable"], each["retry_topic"]) for each in found} == {
        (topic, "T", True, None)
    }
    assert http.delete(f"/v1/messages/{found[0]['message_id']}").status_code == 200
    left = listed(http, "/v1/scheduled", "messages", topic=topic, max=count_max)
    assert left == found[1:]


def test_due_times_are_counted_as_long_as_messages_wait(http: httpx.Client, topic: str) -> None:
    begin_ms = http.get("/v1/scheduled/times").json()["now_ms"] + 1_000 * HOUR_MS

    def counts() -> list[int]:
        query = {"begin_ms": begin_ms, "within_ms": 4 * HOUR_MS, "buckets": 4}
        said = http.get("/v1/scheduled/times", params=query).json()
        assert (said["begin_ms"], said["bucket_ms"]) == (begin_ms, HOUR_MS)
        assert said["before"] + sum(said["counts"]) + said["after"] == said["waiting"]
        return said["counts"]

    for_hour = [{"body": "x", "deliver_at_ms": begin_ms + hour * HOUR_MS + 1} for hour in (0, 2, 2, 3)]
    before = counts()
    sent = produce(http, topic, *for_hour)
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [1, 0, 2, 1]
    http.delete(f"/v1/messages/{sent[1]['message_id']}")
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [1, 0, 1, 1]


def test_a_retry_that_waits_is_listed_and_can_not_be_recalled(http: httpx.Client, topic: str) -> None:
    (sent,) = produce(http, topic, "x")
    nack(http, topic, {"message_id": sent["message_id"], "delay_level": 18})
    pending = read_arrow(http.get("/v1/routing/pending", params={"kind": "nack"}).content).to_pylist()
    now_ms = http.get("/v1/scheduled/times").json()["now_ms"]
    decide(http, "retry", [pending[-1]["position"]], now_ms + HOUR_MS)
    (waits,) = listed(http, "/v1/scheduled", "messages", topic=f"%RETRY%{topic}")
    assert (waits["retry_topic"], waits["recallable"]) == (topic, False)
    assert is_problem(http.delete(f"/v1/messages/{waits['message_id']}"), 400, "invalid_request")


@pytest.mark.parametrize("count_max", [1, 2, 100])
def test_open_transactions_are_listed_without_their_secret_ids(http: httpx.Client, topic: str, count_max: int) -> None:
    opened = begin(http, topic, "a", "b", "c")
    found = listed(http, "/v1/transactions", "transactions", topic=topic, max=count_max)
    assert [each["half_id"] for each in found] == list(map(half_id, opened))
    assert not any(each in str(found) for each in opened)
    assert {(each["topic"], each["checks"], each["resolution"]) for each in found} == {(topic, 0, None)}
    assert all(0 < each["next_check_ms"] - each["born_time_ms"] <= 6_000 for each in found)
    assert listed(http, "/v1/transactions", "transactions", topic=topic, group="no-such-group") == []
    assert len(listed(http, "/v1/transactions", "transactions", group=found[0]["group"], topic=topic)) == 3


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/v1/scheduled", {"after": "x"}),
        ("/v1/scheduled", {"after": "1-" + "9" * 20}),
        ("/v1/scheduled", {"max": 0}),
        ("/v1/scheduled", {"max": 501}),
        ("/v1/scheduled", {"topic": "no topic"}),
        ("/v1/scheduled/times", {"buckets": 501}),
        ("/v1/scheduled/times", {"within_ms": 0}),
        ("/v1/transactions", {"after": "x"}),
        ("/v1/transactions", {"group": "no group"}),
        ("/v1/transactions", {"kind": "any"}),
    ],
)
def test_what_makes_no_sense_is_refused(http: httpx.Client, path: str, query: dict[str, Any]) -> None:
    response = http.get(path, params=query)
    assert response.status_code == 400
    assert response.json()["code"].startswith("invalid_")


def test_a_user_sees_what_waits_for_topics_of_his_own(waits: GatewayProcess, http: httpx.Client, topic: str) -> None:
    other = f"{topic}-other"
    for each in (topic, other):
        put_topic(http, each)
        produce(http, each, {"body": "x", "delay_ms": HOUR_MS})
        begin(http, each, "half")
    group = listed(http, "/v1/transactions", "transactions", topic=topic)[0]["group"]
    with connect(waits) as admin:
        reader = make_user(admin, f"{topic}-reader", allow(f"Topic:{topic}", "Sub"))
        sender = make_user(admin, f"{topic}-sender", allow(f"Topic:{topic}", "Pub"), allow(f"Group:{group}", "Pub"))
    for token, transactions in ((reader, set[str]()), (sender, {topic})):
        with ask_as(waits, token) as user:
            assert {each["topic"] for each in listed(user, "/v1/scheduled", "messages")} == {topic}
            assert {each["topic"] for each in listed(user, "/v1/transactions", "transactions")} == transactions
            assert is_problem(user.get("/v1/scheduled/times"), 403, "forbidden")


def test_scheduled_messages_are_listed_by_a_predicate_over_all_of_a_message(http: httpx.Client, topic: str) -> None:
    shapes = [{"tag": "a" if number % 2 else "b", "properties": {"n": str(number)}} for number in range(6)]
    sent = produce(
        http,
        topic,
        *[{"body": f"body {at}", "delay_ms": HOUR_MS + at} | each for at, each in enumerate(shapes)],
    )
    ids = [each["message_id"] for each in sent]

    def found(where: str) -> list[int]:
        rows = listed(http, "/v1/scheduled", "messages", topic=topic, where=where, max=1)
        return [ids.index(each["message_id"]) for each in rows]

    assert found("tag = 'a'") == [1, 3, 5]
    assert found("properties['n'] > 3 OR body LIKE '% 1'") == [1, 4, 5]
    assert found(f"real_topic = '{topic}' AND deliver_at > timestamp '2026-01-01 00:00:00' AND NOT tag = 'a'") == [
        0,
        2,
        4,
    ]
    assert found("tag = 'c'") == []
    for wrong in ("tag =", "nothing = 1", "x" * 2_001, ""):
        response = http.get("/v1/scheduled", params={"where": wrong})
        assert response.status_code == 400, wrong
        assert response.json()["code"].startswith("invalid_")


def test_a_predicate_finds_only_what_one_may_read(waits: GatewayProcess, http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    produce(http, topic, {"body": "secret", "delay_ms": HOUR_MS})
    with connect(waits) as admin:
        sender = make_user(admin, f"{topic}-sender", allow(f"Topic:{topic}", "Pub"))
        reader = make_user(admin, f"{topic}-reader", allow(f"Topic:{topic}", "Sub"))
    for token, count in ((sender, 0), (reader, 1)):
        with ask_as(waits, token) as user:
            assert len(listed(user, "/v1/scheduled", "messages", topic=topic)) == 1
            assert len(listed(user, "/v1/scheduled", "messages", topic=topic, where="body = 'secret'")) == count


def test_a_predicate_does_not_fail_by_what_one_may_not_read(
    waits: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    other = f"{topic}-other"
    for each, size in ((topic, 1), (other, 3_000_000)):
        put_topic(http, each)
        produce(http, each, {"body": "x" * size, "delay_ms": HOUR_MS})
    where = f"concat({', '.join(['body'] * 25)}) = 'y'"  # 64 MiB of a batch at most
    with connect(waits) as admin:
        reader = make_user(admin, f"{topic}-reader", allow(f"Topic:{topic}", "Sub"))
    assert is_problem(http.get("/v1/scheduled", params={"topic": other, "where": where}), 400, "invalid_filter")
    with ask_as(waits, reader) as user:
        assert listed(user, "/v1/scheduled", "messages", where=where) == []
    assert listed(http, "/v1/scheduled", "messages", topic=topic, where=where) == []


@pytest.mark.parametrize("count_max", [1, 100])
def test_a_key_is_compared_whole_with_all_keys_of_what_waits(http: httpx.Client, topic: str, count_max: int) -> None:
    put_topic(http, topic)
    long = "k" * 300
    many = [f"n{number}" for number in range(30)]
    drafts = [{"body": "x", "keys": keys} for keys in ([long + "a"], [long + "b"], [long[:200]], many, [])]
    sent = [produce(http, topic, each | {"delay_ms": HOUR_MS})[0]["message_id"] for each in drafts]
    path = f"/v1/topics/{topic}/transactions?producer_group=pg"
    begun = http.post(path, json={"messages": drafts}).json()["transactions"]
    halves = [each["message_id"] for each in begun]
    for key, wanted in ((long + "a", [0]), (long[:200], [2]), (long, []), ("n29", [3])):
        asked: dict[str, Any] = {"topic": topic, "key": key, "max": count_max}
        found = listed(http, "/v1/scheduled", "messages", **asked)
        assert [each["message_id"] for each in found] == [sent[number] for number in wanted]
        found = listed(http, "/v1/transactions", "transactions", **asked)
        assert [each["half_id"] for each in found] == [halves[number] for number in wanted]
    assert http.get("/v1/scheduled", params={"key": ""}).status_code == 400


def end(http: httpx.Client, half: str, resolution: str, group: str = "pg") -> httpx.Response:
    return http.post(f"/v1/producer-groups/{group}/transactions/{half}", json={"resolution": resolution})


def test_an_open_transaction_is_ended_by_its_half_once(http: httpx.Client, topic: str) -> None:
    for resolution, other in (("rollback", "commit"), ("commit", "rollback")):
        half = half_id(begin(http, topic, resolution)[0])
        assert is_problem(end(http, half, resolution, "other"), 400, "invalid_request")
        assert is_problem(end(http, half, "unknown"), 400, "invalid_request")
        for _ in range(2):
            assert end(http, half, resolution).json() == {"half_id": half, "resolution": resolution}
        found = listed(http, "/v1/transactions", "transactions", topic=topic)
        assert [each["resolution"] for each in found if each["half_id"] == half] == [resolution]
        assert is_problem(end(http, half, other), 409, "transaction_resolved")
    (sent,) = produce(http, topic, "no half")
    assert is_problem(end(http, sent["message_id"], "commit"), 404, "transaction_not_found")
    assert end(http, "nothing", "commit").status_code in (400, 404)


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that carries out a commit or rollback at once."""
    with start_gateway(tmp_path_factory.mktemp("at_once")) as gateway:
        yield gateway


@pytest.mark.parametrize(("resolution", "other"), [("rollback", "commit"), ("commit", "rollback")])
def test_the_same_resolution_of_a_half_is_taken_again_after_it_took_effect(
    at_once: GatewayProcess, topic: str, resolution: str, other: str
) -> None:
    """Regression: the second was 404, so a client could not ask again where an answer was lost."""
    with connect(at_once) as http:
        put_topic(http, topic)
        half = half_id(begin(http, topic, "x")[0])
        for _ in range(2):
            response = end(http, half, resolution)
            assert (response.status_code, response.json()) == (200, {"half_id": half, "resolution": resolution})
            assert listed(http, "/v1/transactions", "transactions", topic=topic) == []
        assert is_problem(end(http, half, other), 409, "transaction_resolved")
        assert is_problem(end(http, half, resolution, "other"), 400, "invalid_request")
        with connect(at_once) as admin:
            token = make_user(admin, f"{topic}-group-only", allow("Group:pg", "Pub"))
        with ask_as(at_once, token) as user:
            assert is_problem(end(user, half, resolution), 403, "forbidden")
        assert is_problem(end(http, f"{half}0000", resolution), 404, "transaction_not_found")


def test_who_may_not_send_as_the_producer_ends_no_transaction(
    waits: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    put_topic(http, topic)
    (opened,) = begin(http, topic, "half")
    group, of_topic = allow("Group:pg", "Pub"), allow(f"Topic:{topic}", "Pub")
    with connect(waits) as admin:
        tokens = [
            make_user(admin, f"{topic}-{number}", *policies)
            for number, policies in enumerate(([group], [of_topic], [group, allow(f"Topic:{topic}", "Sub", "Get")]))
        ]
        both = make_user(admin, f"{topic}-both", group, of_topic)
    for token in tokens:
        with ask_as(waits, token) as user:
            assert is_problem(end(user, half_id(opened), "commit"), 403, "forbidden")
    (found,) = listed(http, "/v1/transactions", "transactions", topic=topic)
    assert found["resolution"] is None
    with ask_as(waits, both) as user:
        assert end(user, half_id(opened), "commit").status_code == 200
