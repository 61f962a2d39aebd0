from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from lakemq.testing import start_gateway
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.http_client import ARROW, JSON, connect, is_problem, pull_all, put_topic, write_arrow

BODIES = {
    "text/plain": b"hello",
    JSON: b'{"messages": [{"body": "a", "queue_id": 1}, {"body": "b"}, {"body": "c", "ordering_key": "k"}]}',
    ARROW: write_arrow(
        {"body": pa.array([b"a", b"b", b"c"], pa.binary()), "queue_id": pa.array([2, 0, 2], pa.int32())}
    ),
}
OTHERS = {
    "text/plain": b"other",
    JSON: b'{"messages": [{"body": "a"}]}',
    ARROW: write_arrow({"body": pa.array([b"a"], pa.binary())}),
}


def post(http: httpx.Client, topic: str, key: str, content_type: str, body: bytes, **query: str) -> httpx.Response:
    headers = {"Idempotency-Key": key, "Content-Type": content_type}
    return http.post(f"/v1/topics/{topic}/messages", content=body, headers=headers, params=query)


@pytest.mark.parametrize("form", BODIES)
def test_the_same_key_and_payload_give_the_first_result_and_store_nothing(
    http: httpx.Client, topic: str, form: str
) -> None:
    first = post(http, topic, '"k"', form, BODIES[form])
    assert first.status_code == 200, first.text
    stored = pull_all(http, topic)
    for query in ({}, {"ack": "sync"}):
        again = post(http, topic, '"k"', form, BODIES[form], **query)
        assert (again.status_code, again.json()) == (200, first.json())
    assert pull_all(http, topic) == stored


@pytest.mark.parametrize("form", BODIES)
def test_the_same_key_with_another_payload_is_a_mismatch(http: httpx.Client, topic: str, form: str) -> None:
    assert post(http, topic, "k", form, BODIES[form]).status_code == 200
    stored = pull_all(http, topic)
    assert is_problem(post(http, topic, "k", form, OTHERS[form]), 422, "idempotency_mismatch")
    assert pull_all(http, topic) == stored


def test_what_the_headers_say_is_payload(http: httpx.Client, topic: str) -> None:
    path = f"/v1/topics/{topic}/messages"
    headers = {"Idempotency-Key": "k", "Lakemq-Tag": "T"}
    assert http.post(path, content=b"x", headers=headers).status_code == 200
    response = http.post(path, content=b"x", headers={**headers, "Lakemq-Tag": "U"})
    assert is_problem(response, 422, "idempotency_mismatch")
    assert is_problem(post(http, topic, "k", "text/html", b"x"), 422, "idempotency_mismatch")


def test_a_key_is_the_topics_own(http: httpx.Client, topic: str) -> None:
    ids = {
        post(http, name, "k", "text/plain", b"x").json()["messages"][0]["message_id"] for name in (topic, f"{topic}-2")
    }
    assert len(ids) == 2


def test_a_key_is_the_users_own(tmp_path: Path) -> None:
    may = allow("Topic:t", "Pub", "Create")
    with start_gateway(tmp_path) as gateway, connect(gateway) as http, ask_as(gateway, token_of(tmp_path)) as admin:
        alice, bob = (ask_as(gateway, make_user(admin, name, may)) for name in ("alice", "bob"))
        other = ask_as(gateway, admin.post("/v1/users/alice/tokens", json={}).json()["token"])
        with alice, bob, other:
            said = {name: post(asked, "t", "k", "text/plain", b"x") for name, asked in (("a", alice), ("b", bob))}
            assert post(http, "t", "k", "text/plain", b"of nobody").status_code == 200
            assert {each.status_code for each in said.values()} == {200}
            assert said["a"].json() != said["b"].json()
            assert post(other, "t", "k", "text/plain", b"x").json() == said["a"].json(), "a user may have many tokens"
            assert is_problem(post(bob, "t", "k", "text/plain", b"y"), 422, "idempotency_mismatch")
        assert sorted(each["body"] for each in pull_all(http, "t")) == ["of nobody", "x", "x"]


@pytest.mark.parametrize("form", BODIES)
def test_a_key_of_a_topic_that_was_deleted_is_unknown_to_the_one_made_again(
    http: httpx.Client, topic: str, form: str
) -> None:
    """Regression: the answer was that of the messages that are no more, and nothing was stored."""
    first = post(http, topic, "k", form, BODIES[form]).json()
    assert http.delete(f"/v1/topics/{topic}").is_success
    again = post(http, topic, "k", form, BODIES[form])
    assert (again.status_code, again.json() == first) == (200, False)
    stored = pull_all(http, topic)
    assert stored
    assert post(http, topic, "k", form, BODIES[form]).json() == again.json()
    assert pull_all(http, topic) == stored


def test_a_request_that_was_refused_does_not_use_up_its_key(http: httpx.Client, topic: str) -> None:
    assert is_problem(post(http, topic, "k", JSON, b'{"messages": []}'), 400, "invalid_request")
    queue = b'{"messages": [{"body": "x", "queue_id": 99}]}'
    assert is_problem(post(http, topic, "k", JSON, queue), 404, "queue_not_found")
    assert post(http, topic, "k", JSON, BODIES[JSON]).status_code == 200


@pytest.mark.parametrize("key", ["", "k" * 257])
def test_a_key_has_1_to_256_characters(http: httpx.Client, topic: str, key: str) -> None:
    assert is_problem(post(http, topic, key, "text/plain", b"x"), 400, "invalid_request")
    assert post(http, topic, "k" * 256, "text/plain", b"x").status_code == 200


def test_one_way_takes_no_key(http: httpx.Client, topic: str) -> None:
    assert is_problem(post(http, topic, "k", "text/plain", b"x", ack="none"), 400, "invalid_request")


@pytest.mark.parametrize("form", BODIES)
def test_requests_with_one_key_at_the_same_time_store_once(http: httpx.Client, topic: str, form: str) -> None:
    put_topic(http, topic, 4)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: post(http, topic, "k", form, BODIES[form], ack="sync"), range(48)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert len(pull_all(http, topic)) == (1 if form == "text/plain" else 3)


def test_of_two_payloads_at_the_same_time_one_is_stored(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: post(http, topic, "k", "text/plain", b"%d" % (n % 2)), range(32)))
    assert sorted(answer.status_code for answer in answers) == [200] * 16 + [422] * 16
    assert len(pull_all(http, topic)) == 1


@pytest.mark.parametrize("cleanly", [True, False])
def test_keys_are_known_after_a_restart(tmp_path: Path, cleanly: bool) -> None:
    """Some in a sealed segment, some in the last one, some after its snapshot."""
    options = {"storage__segment_bytes": 1024 * 1024}
    gateway = start_gateway(tmp_path, **options)
    with connect(gateway) as http:
        first = {form: post(http, "t", form, form, BODIES[form]).json() for form in BODIES}
        padding = http.post("/v1/topics/padding/messages", content=b"x" * (2 * 1024 * 1024))
        assert padding.status_code == 200
        later = post(http, "t", "later", "text/plain", b"later", ack="sync").json()
        last = post(http, "t", "last", "text/plain", b"last").json()
    if cleanly:
        assert gateway.stop() == 0
    else:
        gateway.kill()
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http:
        stored = pull_all(http, "t")
        for form, result in first.items():
            assert post(http, "t", form, form, BODIES[form]).json() == result
        assert post(http, "t", "later", "text/plain", b"later").json() == later
        assert post(http, "t", "last", "text/plain", b"last").json() == last
        assert is_problem(post(http, "t", "last", "text/plain", b"other"), 422, "idempotency_mismatch")
        assert pull_all(http, "t") == stored
        assert len(stored) == 9


def test_past_the_window_a_key_is_new(tmp_path: Path) -> None:
    with start_gateway(tmp_path, idempotency__window_ms=0) as gateway, connect(gateway) as http:
        ids = {post(http, "t", "k", "text/plain", b"x").json()["messages"][0]["position"]}
        while len(ids) < 2:
            ids.add(post(http, "t", "k", "text/plain", b"x").json()["messages"][0]["position"])


def test_a_clock_that_jumps_ahead_makes_no_key_forgotten(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text(f"{0:20}")
    # What stamps messages believes it at once.
    with start_gateway(tmp_path / "data", clock, routing__clock_confirm_ms=0) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        first = post(http, "t", "k", "text/plain", b"hello").json()
        with clock.open("r+") as file:
            file.write(f"{3_600_000:20}")
        # The other one is stored by the clock that jumped.
        other = post(http, "t", "other", "text/plain", b"hello").json()
        assert other["messages"][0]["store_time_ms"] > first["messages"][0]["store_time_ms"] + 3_000_000
        assert post(http, "t", "k", "text/plain", b"hello").json() == first
        assert len(pull_all(http, "t")) == 2


def test_each_of_many_messages_is_where_the_answer_says_and_the_same_key_gives_the_same_answer(
    http: httpx.Client, topic: str
) -> None:
    """They are placed and made to a frame in a thread."""
    put_topic(http, topic, 3)
    sent = [{"body": str(number), "ordering_key": f"k{number % 7}"} for number in range(600)]
    sent += [{"body": str(number), "queue_id": number % 3} for number in range(600, 900)]
    sent += [{"body": str(number), "delay_ms": 3_600_000} for number in range(900, 905)]
    sent += [{"body": str(number)} for number in range(905, 1_200)]
    body = httpx.Request("POST", "http://x", json={"messages": sent}).content
    answers = [post(http, topic, "k", JSON, body).json()["messages"] for _ in range(2)]
    assert answers[0] == answers[1]
    assert len(answers[0]) == len(sent)
    stored = {message["message_id"]: message for message in pull_all(http, topic)}
    assert len(stored) == len(sent) - 5
    for answer, message in zip(answers[0], sent, strict=True):
        if "delay_ms" in message:
            assert answer["message_id"] not in stored
            continue
        found = stored[answer["message_id"]]
        assert found["body"] == message["body"]
        assert {name: found[name] for name in answer} == answer
        assert answer["queue_id"] == message.get("queue_id", answer["queue_id"])
    spread = [answer["queue_id"] for answer in answers[0][905:]]
    assert {spread.count(queue_id) for queue_id in range(3)} <= {98, 99}
