from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.gateway.http_client import is_problem, produce, put_topic


def search(http: httpx.Client, topic: str, **query: Any) -> dict[str, Any]:
    response = http.get(f"/v1/topics/{topic}/search", params=query)
    assert response.status_code == 200, response.text
    return response.json()


def whole(http: httpx.Client, topic: str, **query: Any) -> list[str]:
    """The bodies of all pages."""
    return [each["body"] for each in messages(http, topic, **query)]


def messages(http: httpx.Client, topic: str, **query: Any) -> list[dict[str, Any]]:
    """Those of all pages: on a busy machine one comes less far."""
    found = list[dict[str, Any]]()
    while True:
        answer = search(http, topic, **query)
        found += answer["messages"]
        if answer["next_before"] is None:
            assert answer["reached"] >= answer["log_begin"]
            return found
        query["before"] = answer["next_before"]


def bodies(found: dict[str, Any]) -> list[str]:
    return [each["body"] for each in found["messages"]]


@pytest.fixture
def filled(http: httpx.Client, topic: str) -> str:
    put_topic(http, topic, 2)
    for number in range(10):
        message = {"body": f"body {number}.", "tag": "odd" if number % 2 else "even", "keys": [f"k{number}"]}
        produce(http, topic, message | {"queue_id": number % 2, "properties": {"n": str(number)}})
    produce(http, topic, {"body": "ü 'quoted' 100%", "queue_id": 0}, {"body": "AAH/", "body_encoding": "base64"})
    return topic


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"tag": "odd"}, [9, 7, 5, 3, 1]),
        ({"key": "k3"}, [3]),
        ({"property": "n=4"}, [4]),
        ({"property": "n"}, list(range(9, -1, -1))),
        ({"text": "dy 8."}, [8]),
        ({"where": "properties['n'] IN ('2', '5') AND tag = 'odd'"}, [5]),
        ({"where": "body LIKE '%6.'", "tag": "even"}, [6]),
        ({"tag": "odd", "key": "k4"}, []),
        ({"property": "none=1"}, []),
    ],
)
def test_a_search_finds_what_has_all_that_is_asked_for_newest_first(
    http: httpx.Client, filled: str, query: dict[str, str], found: list[int]
) -> None:
    assert whole(http, filled, **query) == [f"body {number}." for number in found]


def test_text_is_looked_for_as_it_stands(http: httpx.Client, filled: str) -> None:
    for text in ("ü", "'quoted'", "100%"):
        assert whole(http, filled, text=text) == ["ü 'quoted' 100%"]
    assert whole(http, filled, text="%") == ["ü 'quoted' 100%"]
    assert whole(http, filled, text="body_1") == []


def test_a_search_goes_on_where_it_ended(http: httpx.Client, filled: str) -> None:
    assert whole(http, filled, tag="even", max=2) == [f"body {number}." for number in (8, 6, 4, 2, 0)]


def test_a_search_keeps_to_its_time(http: httpx.Client, filled: str) -> None:
    (middle,) = messages(http, filled, key="k5")
    time_ms = middle["store_time_ms"]
    since = whole(http, filled, property="n", begin_ms=time_ms)
    until = whole(http, filled, property="n", end_ms=time_ms)
    assert "body 5." in since
    assert "body 5." in until
    assert len(since) + len(until) >= 11
    assert set(whole(http, filled, begin_ms=time_ms, end_ms=time_ms, property="n=0")) <= {"body 0."}


def test_large_messages_come_in_pages_that_have_room_for_them(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    for number in range(6):
        produce(http, topic, {"body": str(number) * 4_000_000})
    found, before = list[str](), 2**62
    pages = 0
    while before is not None:
        answer = search(http, topic, before=before)
        found += [each[0] for each in bodies(answer)]
        before = answer["next_before"]
        pages += 1
    assert found == list("543210")
    assert pages >= 2


def test_a_topic_that_was_made_again_has_nothing_of_the_one_before(http: httpx.Client, filled: str) -> None:
    assert http.delete(f"/v1/topics/{filled}").status_code == 200
    put_topic(http, filled, 2)
    assert whole(http, filled, tag="odd") == []


def test_what_can_not_be_searched_for_is_refused(http: httpx.Client, filled: str) -> None:
    path = f"/v1/topics/{filled}/search"
    for where in ("x =", "1 = 1) OR (1 = 1", "tag = 'a'; DROP TABLE messages", "failure_text = 'x'", "nothing = 1"):
        assert is_problem(http.get(path, params={"where": where}), 400, "invalid_filter"), where
    for query in ({"max": "0"}, {"max": "201"}, {"text": ""}, {"text": "x" * 2_001}, {"before": "-1"}, {"odd": "1"}):
        assert http.get(path, params=query).status_code == 400, query
    assert is_problem(http.get("/v1/topics/none-such/search"), 404, "topic_not_found")


def test_a_page_that_is_full_leaves_nothing_out(http: httpx.Client, topic: str) -> None:
    """Regression: what was full at a window's end went on below the next message, not above it."""
    put_topic(http, topic)
    for number in range(3):
        produce(http, topic, {"body": str(number) * 4_000_000, "keys": ["k"]})
        produce(http, topic, *["x"] * 100)
    assert [each[0] for each in whole(http, topic, key="k", property="none")] == []
    assert [each[0] for each in whole(http, topic, key="k")] == list("210")
