"""Redrives over HTTP: which dead letters, how fast, and each once whatever dies."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.model.failure import FAILURE_CLASS, FAILURE_TEXT
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import JSON, connect, is_problem, produce, pull_all

WAIT_S = 60.0
_numbers = count()


@pytest.fixture
def group() -> str:
    """A name that no other test uses."""
    return f"redrive-group-{next(_numbers)}"


def make_dead(http: httpx.Client, group: str, *messages: dict[str, Any] | str) -> list[str]:
    """Produce messages and send them to the group's dead letters; returns the first messages' ids."""
    ids = [message["message_id"] for message in produce(http, f"topic-of-{group}", *messages)]
    nacks = [{"message_id": each, "delay_level": -1} for each in ids]
    response = http.post(f"/v1/groups/{group}/nacks", json={"client_id": "c", "messages": nacks})
    assert response.status_code == 200, response.text
    wait_for(lambda: len(pull_all(http, f"%DLQ%{group}")) >= len(ids))
    return ids


def wait_for(condition: Any) -> None:
    """Return when the condition holds; fail when it never does."""
    for _ in _until(WAIT_S):
        if condition():
            return
    raise AssertionError("it never happened")


def _until(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.02)


def begin(http: httpx.Client, group: str, **body: Any) -> dict[str, Any]:
    """Begin a redrive; returns the answer."""
    response = http.post(f"/v1/groups/{group}/dead-letters/redrive", json=body)
    assert response.status_code == 202, response.text
    return response.json()


def look(http: httpx.Client, redrive_id: str, **query: int) -> dict[str, Any]:
    """How a redrive is."""
    response = http.get(f"/v1/redrives/{redrive_id}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


def finished(http: httpx.Client, redrive_id: str) -> dict[str, Any]:
    """How a redrive is, once it is done."""
    wait_for(lambda: look(http, redrive_id)["state"] == "done")
    return look(http, redrive_id)


def copies(http: httpx.Client, group: str) -> list[dict[str, Any]]:
    """The messages in the group's retry topic."""
    if http.get(f"/v1/topics/%25RETRY%25{group}").status_code == 404:
        return []
    return pull_all(http, f"%RETRY%{group}")


def test_a_redriven_dead_letter_comes_back_as_it_was_with_attempts_from_zero(http: httpx.Client, group: str) -> None:
    (first,) = make_dead(http, group, {"body": "b", "tag": "T", "keys": ["k"], "properties": {"x": "7"}})
    (dead,) = pull_all(http, f"%DLQ%{group}")
    answer = begin(http, group, where="properties['x'] > 5")
    assert answer["matched"] == 1
    shown = finished(http, answer["redrive_id"])
    (copy,) = copies(http, group)
    assert shown == {
        "redrive_id": answer["redrive_id"],
        "group": group,
        "where": "properties['x'] > 5",
        "rate_per_s": 100,
        "state": "done",
        "matched": 1,
        "redriven": 1,
        "failed": 0,
        "results": [
            {"message_id": dead["message_id"], "status": "redriven", "redriven_message_id": copy["message_id"]}
        ],
        "truncated": False,
    }
    assert (copy["body"], copy["tag"], copy["keys"], copy["properties"]) == ("b", "T", ["k"], {"x": "7"})
    assert (copy["reconsume_times"], copy["origin_message_id"]) == (0, first)
    assert (copy["real_topic"], copy["born_time_ms"]) == (f"topic-of-{group}", dead["born_time_ms"])


def test_only_what_matches_is_redriven_and_the_rest_later(http: httpx.Client, group: str) -> None:
    make_dead(http, group, *[{"body": str(number), "tag": "odd" if number % 2 else "even"} for number in range(10)])
    odd = finished(http, begin(http, group, where="tag = 'odd'")["redrive_id"])
    assert (odd["matched"], odd["redriven"]) == (5, 5)
    rest = finished(http, begin(http, group, rate_per_s=100_000)["redrive_id"])
    assert (rest["matched"], rest["redriven"]) == (5, 5)
    bodies = [copy["body"] for copy in copies(http, group)]
    assert (sorted(bodies[:5]), sorted(bodies[5:])) == ([*"13579"], [*"02468"])


def test_a_dry_run_says_which_and_redrives_none(http: httpx.Client, group: str) -> None:
    make_dead(http, group, "a", "b", "c")
    answer = begin(http, group, where="body IN ('a', 'c')", dry_run=True)
    assert answer["matched"] == 2
    dead = {message["body"]: message["message_id"] for message in pull_all(http, f"%DLQ%{group}")}
    shown = look(http, answer["redrive_id"])
    assert (shown["state"], shown["matched"], shown["redriven"]) == ("dry_run", 2, 0)
    assert shown["results"] == [{"message_id": dead[body], "status": "matched"} for body in "ac"]
    assert copies(http, group) == []


def test_the_columns_are_those_of_the_lake(http: httpx.Client, group: str) -> None:
    (first,) = make_dead(http, group, {"body": "x", "keys": ["k1", "k2"], "ordering_key": "o"})
    (dead,) = pull_all(http, f"%DLQ%{group}")
    where = " AND ".join(
        [
            f"broker = '{dead['message_id'].partition('.')[0]}' AND position = {dead['position']}",
            f"topic = '%DLQ%{group}' AND queue_id = 0 AND queue_offset = 0 AND message_id = '{dead['message_id']}'",
            "tag IS NULL AND array_contains(keys, 'k2') AND size(keys) = 2 AND ordering_key = 'o'",
            "store_time > TIMESTAMP '2020-01-01' AND store_date = CAST(store_time AS DATE) AND born_time <= store_time",
            f"deliver_at IS NULL AND reconsume_times = 0 AND real_topic = 'topic-of-{group}'",
            f"origin_message_id = '{first}' AND transaction_id IS NULL AND `group` = '{group}'",
            "failure_class IS NULL AND failure_text IS NULL AND failed_at = store_time AND deliveries = 1",
            "state = 'open'",
        ]
    )
    assert begin(http, group, where=where, dry_run=True)["matched"] == 1


def test_why_they_failed_chooses_dead_letters_and_goes_with_their_copies(http: httpx.Client, group: str) -> None:
    ids = [message["message_id"] for message in produce(http, f"topic-of-{group}", *"abcd")]
    reasons = [{"class": "ValueError", "text": "no amount"}, "no customer", {"class": "KeyError"}, None]
    nacks = [{"message_id": each, "delay_level": -1, "reason": why} for each, why in zip(ids, reasons, strict=True)]
    assert http.post(f"/v1/groups/{group}/nacks", json={"messages": nacks}).is_success
    wait_for(lambda: len(pull_all(http, f"%DLQ%{group}")) == 4)
    for where, matched in {
        "failure_class IN ('ValueError', 'KeyError')": 2,
        "failure_text LIKE 'no %'": 2,
        "failure_class IS NULL": 2,
        "failure_class = 'KeyError' OR failure_text IS NULL": 2,
        "state <> 'open' OR deliveries > 1": 0,
    }.items():
        assert begin(http, group, where=where, dry_run=True)["matched"] == matched, where
    finished(http, begin(http, group, where="failure_class = 'ValueError'")["redrive_id"])
    (copy,) = copies(http, group)
    assert copy["properties"] == {FAILURE_CLASS: "ValueError", FAILURE_TEXT: "no amount"}


@pytest.mark.parametrize("rate", [100, 100.0, 0.5])
def test_a_group_without_dead_letters_has_nothing_to_redrive(http: httpx.Client, group: str, rate: float) -> None:
    """A JSON number is no other for its form: 100.0 is 100."""
    answer = begin(http, group, rate_per_s=rate)
    assert answer["matched"] == 0
    done = finished(http, answer["redrive_id"])
    assert (done["results"], done["rate_per_s"]) == ([], rate)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"where": "colour = 'red'"}, "invalid_filter"),
        ({"where": "tag = "}, "invalid_filter"),
        ({"where": ""}, "invalid_filter"),
        ({"where": "tag = '\ud800'"}, "invalid_filter"),
        ({"where": "(" * 5000}, "invalid_filter"),
        ({"where": "x" * 20_000}, "invalid_filter"),
        ({"where": 7}, "invalid_request"),
        ({"rate_per_s": 0}, "invalid_request"),
        ({"rate_per_s": 0.001}, "invalid_request"),
        ({"rate_per_s": float("nan")}, "invalid_request"),
        ({"rate_per_s": True}, "invalid_request"),
        ({"rate_per_s": 100_001}, "invalid_request"),
        ({"wher": "tag = 'x'"}, "invalid_request"),
        ([], "invalid_request"),
    ],
)
def test_what_cannot_be_understood_is_refused(http: httpx.Client, group: str, body: Any, code: str) -> None:
    headers = {"Content-Type": JSON}
    path = f"/v1/groups/{group}/dead-letters/redrive"
    assert is_problem(http.post(path, content=json.dumps(body), headers=headers), 400, code)


def test_a_bad_predicate_is_refused_with_its_place(http: httpx.Client, group: str) -> None:
    response = http.post(f"/v1/groups/{group}/dead-letters/redrive", json={"where": "tag = 'x' AND colour = 'red'"})
    assert "'colour'" in response.json()["detail"]
    assert "at character 15" in response.json()["detail"]


@pytest.mark.parametrize("redrive_id", ["nonsense", "other.0", "{}.999999999", "{}.99999999999999999999", "{}.0"])
def test_what_is_no_redrive_is_not_found(http: httpx.Client, topic: str, redrive_id: str) -> None:
    produce(http, topic, "so that there is a message at 0")
    name = http.get("/v1/broker").json()["name"]
    assert is_problem(http.get(f"/v1/redrives/{redrive_id.format(name)}"), 404, "redrive_not_found")


def test_a_message_that_only_looks_like_a_redrive_is_none(fresh_gateway: GatewayProcess) -> None:
    with connect(fresh_gateway) as http:
        (message,) = produce(http, "t", {"body": "{}", "tag": "redrive"})
        assert is_problem(http.get(f"/v1/redrives/{message['message_id']}"), 404, "redrive_not_found")
        redrive_id = begin(http, "g")["redrive_id"]
        finished(http, redrive_id)
        (begun, done) = pull_all(http, "RMQ_SYS_REDRIVE_TOPIC")
        assert begun["message_id"] == redrive_id
        assert is_problem(http.get(f"/v1/redrives/{done['message_id']}"), 404, "redrive_not_found")


def test_the_results_come_in_pages(http: httpx.Client, group: str) -> None:
    make_dead(http, group, *map(str, range(7)))
    redrive_id = begin(http, group, rate_per_s=100_000)["redrive_id"]
    whole = finished(http, redrive_id)["results"]
    pages = [look(http, redrive_id, offset=offset, max=3) for offset in (0, 3, 6)]
    assert [result for page in pages for result in page["results"]] == whole
    assert [page["truncated"] for page in pages] == [True, True, False]


def test_two_redrives_of_the_same_dead_letters_redrive_each_once(http: httpx.Client, group: str) -> None:
    make_dead(http, group, *map(str, range(60)))
    ids = [begin(http, group, rate_per_s=300)["redrive_id"] for _ in range(2)]
    shown = [finished(http, each) for each in ids]
    made = copies(http, group)
    assert Counter(copy["body"] for copy in made) == Counter(map(str, range(60)))
    assert {copy["message_id"] for copy in made} == {result["redriven_message_id"] for result in shown[0]["results"]}
    for each in shown:
        assert each["redriven"] == each["matched"]
        assert each["failed"] == 0


def test_a_redriven_message_that_fails_again_can_be_redriven_again(http: httpx.Client, group: str) -> None:
    (first,) = make_dead(http, group, "again")
    finished(http, begin(http, group)["redrive_id"])
    (copy,) = copies(http, group)
    nack = [{"message_id": copy["message_id"], "delay_level": -1}]
    assert http.post(f"/v1/groups/{group}/nacks", json={"client_id": "c", "messages": nack}).status_code == 200
    wait_for(lambda: len(pull_all(http, f"%DLQ%{group}")) == 2)
    assert finished(http, begin(http, group)["redrive_id"])["matched"] == 1
    assert [each["origin_message_id"] for each in copies(http, group)] == [first, first]


def test_a_redrive_keeps_to_its_rate(http: httpx.Client, group: str) -> None:
    make_dead(http, group, *map(str, range(10)))
    redrive_id = begin(http, group, rate_per_s=20)["redrive_id"]
    finished(http, redrive_id)
    times = [copy["store_time_ms"] for copy in copies(http, group)]
    # Ten at 20 a second are nine waits of 50 ms; only the first may be cut short, by a slow first write.
    assert times[-1] - times[0] >= 8 * 50 - 10


def test_a_killed_gateway_goes_on_and_redrives_each_once(tmp_path: Path) -> None:
    group = "g"
    with start_gateway(tmp_path / "data") as gateway, connect(gateway) as http:
        make_dead(http, group, *map(str, range(200)))
        redrive_id = begin(http, group, where="CAST(body AS INT) >= 50", rate_per_s=100)["redrive_id"]
        wait_for(lambda: look(http, redrive_id)["redriven"] >= 20)
        gateway.kill()
    with start_gateway(tmp_path / "data") as gateway, connect(gateway) as http:
        wait_for(lambda: look(http, redrive_id)["redriven"] >= 60)
        gateway.kill()
    with start_gateway(tmp_path / "data") as gateway, connect(gateway) as http:
        shown = finished(http, redrive_id)
        assert (shown["matched"], shown["redriven"], shown["failed"]) == (150, 150, 0)
        made = copies(http, group)
        assert Counter(copy["body"] for copy in made) == Counter(map(str, range(50, 200)))
        assert [result["redriven_message_id"] for result in shown["results"]] == [copy["message_id"] for copy in made]
        gateway.stop()
    with start_gateway(tmp_path / "data") as gateway, connect(gateway) as http:
        assert look(http, redrive_id) == shown
        assert begin(http, group)["matched"] == 50


def test_a_redrive_whose_answer_was_lost_goes_on_after_a_kill(tmp_path: Path) -> None:
    group = "g"
    with start_gateway(tmp_path / "data") as gateway, connect(gateway) as http:
        make_dead(http, group, *map(str, range(30)))
        begin(http, group, rate_per_s=1)
        gateway.kill()
    with start_gateway(tmp_path / "data") as gateway, connect(gateway) as http:
        # Who lost the answer asks again: the two are about the same, and each is redriven once.
        shown = finished(http, begin(http, group, rate_per_s=100_000)["redrive_id"])
        assert shown["redriven"] == shown["matched"]
        assert Counter(copy["body"] for copy in copies(http, group)) == Counter(map(str, range(30)))
