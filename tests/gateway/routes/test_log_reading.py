from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.model.columns import MESSAGE
from lakemq.testing import start_gateway
from tests.gateway.cold.lakes import wait_until_all_left
from tests.gateway.http_client import ARROW, connect, is_problem, produce, put_topic, read_arrow

TOPICS = ("red", "green", "blue")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A gateway whose log has several segments and many frames of three topics, mixed."""
    options = {"storage__segment_bytes": 1024 * 1024, "storage__compression": "none", "storage__cache_bytes": 200_000}
    data_dir = tmp_path_factory.mktemp("log")
    with start_gateway(data_dir, **options) as gateway, connect(gateway) as http:
        for topic in TOPICS:
            put_topic(http, topic, 2)
        for number in range(300):
            topic = TOPICS[number * 7 // 4 % 3]
            body = f"{topic}-{number}-"
            produce(http, topic, body + "x" * 10_000, *(f"{body}{more}" for more in range(number % 5)))
        assert len(list((data_dir / "commitlog").glob("*.log"))) > 2
        yield http


def end(http: httpx.Client, **query: Any) -> dict[str, Any]:
    response = http.get("/v1/log/end", params={name.rstrip("_"): value for name, value in query.items()})
    assert response.status_code == 200, response.text
    return response.json()


def read(http: httpx.Client, begin: int, to: int, **query: Any) -> tuple[list[dict[str, Any]], int, int]:
    """All messages of a range, page by page; where they ended; how many pages it took."""
    rows: list[dict[str, Any]] = []
    pages = 0
    while begin < to:
        response = http.get("/v1/log/messages", params={"from": begin, "to": to, **query})
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == ARROW
        step = int(response.headers["lakemq-next-position"])
        assert begin < step <= to
        page = read_arrow(response.content).to_pylist()
        assert all(begin <= row["position"] < step for row in page if "position" in row)
        rows += page
        begin = step
        pages += 1
    return rows, begin, pages


def test_the_pages_together_are_every_message_once_in_order(log: httpx.Client) -> None:
    bounds = end(log)
    whole, _, _ = read(log, 0, bounds["end_position"], bytes_max=32 * 1024 * 1024)
    assert [row["position"] for row in whole] == list(range(bounds["end_position"]))
    for bytes_max in (1, 15_000, 300_000):
        rows, reached, pages = read(log, 0, bounds["end_position"], bytes_max=bytes_max)
        assert (rows == whole, reached) == (True, bounds["end_position"])
        assert pages > 1
    by_queue: dict[tuple[str, int], list[int]] = {}
    for row in whole:
        by_queue.setdefault((row["topic"], row["queue_id"]), []).append(row["queue_offset"])
    assert all(offsets == list(range(len(offsets))) for offsets in by_queue.values())
    assert len(by_queue) == 7


@pytest.mark.parametrize("columns", [None, "position,topic", "topic,position,body", "position,store_time_ms,tag,keys"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"topics": "red"}, {"red"}),
        ({"topics": "green, blue"}, {"green", "blue"}),
        ({"topics": "RMQ_SYS_TOPICS,red"}, {"RMQ_SYS_TOPICS", "red"}),
        ({"pattern": "gr.*|blu[e]"}, {"green", "blue"}),
        ({"pattern": "re"}, set[str]()),
        ({"pattern": ".*"}, {*TOPICS, "RMQ_SYS_TOPICS"}),
        ({"topics": "nothing"}, set[str]()),
        ({"topics": ""}, set[str]()),
    ],
)
def test_a_subscription_gives_its_topics_messages_and_no_others(
    log: httpx.Client, query: dict[str, str], expected: set[str], columns: str | None
) -> None:
    to = end(log)["end_position"]
    whole, _, _ = read(log, 0, to)
    wanted = [row for row in whole if row["topic"] in expected]
    names = columns.split(",") if columns else MESSAGE.names
    more = {"columns": columns} if columns else {}
    rows, _, _ = read(log, 0, to, **query, **more, bytes_max=100_000)
    assert rows == [{name: row[name] for name in names} for row in wanted]


@pytest.mark.parametrize("topics", [None, "red", "green,blue", "RMQ_SYS_TOPICS"])
@pytest.mark.parametrize("most", [1, 7, 100, 10**6])
def test_max_bounds_the_messages_up_to_the_end(log: httpx.Client, topics: str | None, most: int) -> None:
    query = {"topics": topics} if topics else {}
    goal = end(log, **query)["end_position"]
    begin = 0 if most > 1 else goal * 3 // 4  # two requests for each message
    whole = [row["position"] for row in read(log, begin, goal, columns="position", **query)[0]]
    seen: list[int] = []
    while (reached := end(log, from_=begin, max=most, **query)["end_position"]) > begin:
        assert reached <= goal
        rows, _, _ = read(log, begin, reached, columns="position", **query)
        assert len(rows) <= most
        seen += [row["position"] for row in rows]
        begin = reached
    assert seen == whole


def test_the_end_is_past_the_last_message_and_others_do_not_move_it(http: httpx.Client, topic: str) -> None:
    (placed,) = produce(http, topic, "ours")
    before = end(http, topics=topic)
    assert before["end_position"] == placed["position"] + 1
    assert (before["broker"], before["begin_position"]) == ("broker-a", 0)
    produce(http, f"{topic}-other", "not ours")
    assert end(http, topics=topic)["end_position"] == before["end_position"]
    assert end(http)["end_position"] > before["end_position"]
    assert end(http, topics="nothing-at-all", from_=3)["end_position"] == 3
    assert end(http, topics=topic, from_=before["end_position"] + 1)["end_position"] == before["end_position"] + 1


def test_the_clock_of_the_end_never_goes_back(http: httpx.Client) -> None:
    clocks = [end(http)["clock_ms"] for _ in range(50)]
    assert clocks == sorted(clocks)


def test_a_range_of_nothing_is_an_empty_stream(log: httpx.Client) -> None:
    to = end(log)["end_position"]
    for begin, stop in ((5, 5), (9, 3), (to, to), (to + 5, to + 9)):
        response = log.get("/v1/log/messages", params={"from": begin, "to": stop})
        assert response.status_code == 200
        table = read_arrow(response.content)
        assert (table.num_rows, table.schema) == (0, MESSAGE)
        assert int(response.headers["lakemq-next-position"]) == begin


def test_a_read_past_the_end_goes_as_far_as_there_is_something(log: httpx.Client) -> None:
    to = end(log)["end_position"]
    response = log.get("/v1/log/messages", params={"from": to - 1, "to": to + 1000})
    assert read_arrow(response.content).num_rows == 1
    assert int(response.headers["lakemq-next-position"]) == to


def test_the_position_of_a_time_is_that_of_the_first_message_from_then_on(log: httpx.Client) -> None:
    to = end(log)["end_position"]
    rows, _, _ = read(log, 0, to, columns="position,store_time_ms")
    times = sorted({row["store_time_ms"] for row in rows})
    for time in (0, times[0], times[len(times) // 2], times[-1], times[-1] + 1, 2**62):
        expected = next((row["position"] for row in rows if row["store_time_ms"] >= time), to)
        assert log.get("/v1/log/position", params={"timestamp_ms": time}).json() == {"position": expected}


@pytest.mark.parametrize(
    "path",
    [
        "messages",
        "messages?from=0",
        "messages?from=-1&to=1",
        "messages?from=0&to=x",
        "messages?from=0&to=99999999999999999999",
        "messages?from=0&to=1&bytes_max=0",
        "messages?from=0&to=1&columns=colour",
        "messages?from=0&to=1&columns=",
        "messages?from=0&to=1&topics=a&pattern=b",
        "messages?from=0&to=1&pattern=(",
        "messages?from=0&to=1&pattern=a)|(b",
        "messages?from=0&to=1&pattern=" + "a" * 1001,
        "messages?from=0&to=1&pattern=((a{1000}){1000}){1000}",
        "end?max=0",
        "end?from=-1",
        "end?from=x",
        "end?topics=a&pattern=b",
        "position",
        "position?timestamp_ms=-1",
    ],
)
def test_a_query_that_makes_no_sense_is_refused(log: httpx.Client, path: str) -> None:
    assert is_problem(log.get(f"/v1/log/{path}"), 400, "invalid_request")


def test_no_pattern_keeps_the_gateway_busy(http: httpx.Client) -> None:
    """With Python's own regular expressions this took longer than the universe has been there."""
    produce(http, "a" * 60, "hello")
    assert end(http, pattern="(a+)+b")["end_position"] == 0
    assert end(http, pattern="(a+)+")["end_position"] > 0


def test_what_retention_took_is_gone(tmp_path: Path) -> None:
    options = {"storage__segment_bytes": 1024 * 1024, "storage__retention_ms": 0, "storage__compression": "none"}
    options |= {"storage__compacted_grace_ms": 0, "lake__verify": 0}
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        placed = [produce(http, "t", "x" * 600_000)[0] for _ in range(6)]
        last = placed[-1]["position"]
        assert http.put("/v1/broker/compacted", json={"compacted_position": last}).status_code == 200
        begin = wait_until_all_left(http, tmp_path)
        assert is_problem(http.get("/v1/log/messages", params={"from": begin - 1, "to": last}), 410, "position_gone")
        assert end(http)["begin_position"] == begin
        assert len(read(http, begin, last + 1)[0]) == last + 1 - begin
        assert is_problem(http.get(f"/v1/messages/{placed[0]['message_id']}"), 404, "message_not_found")
        answer = http.get("/v1/topics/t/queues/0/messages?offset=0").json()
        assert answer["status"] == "offset_out_of_range"
        assert 0 < answer["next_offset"] == answer["min_offset"] < answer["max_offset"] == 6
        rest = http.get(f"/v1/topics/t/queues/0/messages?offset={answer['next_offset']}").json()["messages"]
        assert [message["queue_offset"] for message in rest] == list(range(answer["min_offset"], 6))
