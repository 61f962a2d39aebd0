"""Sinks: parts are staged unseen, and committed as one, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import ARROW, connect, is_problem, produce, pull_all, put_topic, write_arrow
from tests.gateway.routing.asking import now_ms, wait_until
from tests.gateway.sinks.asking import commit, put_part, sink_of
from tests.gateway.timed import Timed

HOUR_MS = 3_600_000


def bodies(http: httpx.Client, topic: str) -> list[str]:
    return [message["body"] for message in pull_all(http, topic)]


def test_a_staged_part_is_seen_by_nobody_until_its_batch_is_committed(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    first = put_part(http, topic, 0, "a", ["1", "2"], topic=topic)
    assert first.json() == {"staged": True, "messages": 2}
    put_part(http, topic, 0, "b", ["3"], topic=topic)
    assert bodies(http, topic) == []
    assert http.get(f"/v1/sinks/{topic}").status_code == 404
    done = commit(http, topic, 0, "a", "b", progress="up to 3")
    assert done.json() == {"sink": topic, "batch": 0, "new": True, "messages": 3, "dropped": 0}
    assert bodies(http, topic) == ["1", "2", "3"]
    found = sink_of(http, topic)
    assert (found["batch"], found["progress"], found["state"]) == (0, "up to 3", "stored")
    assert (found["messages"], found["staged_parts"]) == (3, 0)


def test_a_batch_that_comes_again_is_stored_once_whatever_its_parts_are_now(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    put_part(http, topic, 7, "a", ["1", "2"], topic=topic)
    commit(http, topic, 7, "a")
    for part in ("a", "other"):
        assert put_part(http, topic, 7, part, ["2"], topic=topic).json() == {"staged": False, "messages": 0}
        assert commit(http, topic, 7, part).json()["new"] is False
    assert commit(http, topic, 6, "never staged").json()["new"] is False
    put_part(http, topic, 9, "a", ["3"], topic=topic)
    assert commit(http, topic, 9, "a").json()["new"] is True
    assert bodies(http, topic) == ["1", "2", "3"]


def test_parts_that_a_commit_does_not_name_are_given_up(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    for part in ("a", "failed-attempt"):
        put_part(http, topic, 0, part, ["1"], topic=topic)
    commit(http, topic, 0, "a")
    assert bodies(http, topic) == ["1"]
    assert sink_of(http, topic)["staged_parts"] == 0


def test_an_abort_gives_up_what_is_staged_and_the_batch_can_be_staged_anew(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    for part in ("a", "b", "c"):
        put_part(http, topic, 0, part, ["no"], topic=topic)
    path = f"/v1/sinks/{topic}/batches/0/abort"
    assert http.post(path, json={"parts": ["a"]}).json() == {"given_up": 1}
    assert http.post(path, json={}).json() == {"given_up": 2}
    assert is_problem(commit(http, topic, 0, "a"), 409, "part_not_found")
    put_part(http, topic, 0, "a", ["yes"], topic=topic)
    commit(http, topic, 0, "a")
    assert bodies(http, topic) == ["yes"]
    assert http.post(path, json={}).json() == {"given_up": 0}


def test_what_comes_of_a_batch_that_is_over_is_not_kept(http: httpx.Client, topic: str) -> None:
    """A write's tasks that Spark kills may still stage after the driver has given the write up."""
    put_topic(http, topic)
    put_part(http, topic, 0, "a", ["no"], topic=topic)
    assert http.post(f"/v1/sinks/{topic}/batches/0/abort", json={"over": True}).json() == {"given_up": 1}
    assert put_part(http, topic, 0, "late", ["no"], topic=topic).json() == {"staged": False, "messages": 0}
    assert is_problem(commit(http, topic, 0, "late"), 409, "part_not_found")
    put_part(http, topic, 1, "a", ["yes"], topic=topic)
    commit(http, topic, 1, "a")
    assert bodies(http, topic) == ["yes"]


def test_all_columns_of_a_message_come_through(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, queues=2)
    columns = {
        "body": pa.array([b"x", b"y"]),
        "tag": pa.array(["T", None]),
        "keys": pa.array([["k1", "k2"], None]),
        "properties": pa.array([[("a", "b")], None], pa.map_(pa.string(), pa.string())),
        "ordering_key": pa.array(["o", None]),
        "queue_id": pa.array([None, 1], pa.int32()),
        "born_time_ms": pa.array([5, None], pa.int64()),
        "origin_message_id": pa.array(["other.0123456789ab-1.12", None]),
    }
    assert put_part(http, topic, 0, "a", columns, topic=topic).status_code == 200
    commit(http, topic, 0, "a")
    by_body = {message["body"]: message for message in pull_all(http, topic)}
    expected: dict[str, Any] = {"tag": "T", "keys": ["k1", "k2"], "properties": {"a": "b"}, "ordering_key": "o"}
    expected |= {"born_time_ms": 5, "origin_message_id": "other.0123456789ab-1.12"}
    assert by_body["x"] == by_body["x"] | expected
    assert by_body["y"]["queue_id"] == 1
    assert "origin_message_id" not in by_body["y"]


def test_only_a_sink_may_say_of_what_a_message_is_a_copy(http: httpx.Client, topic: str) -> None:
    columns = {"body": pa.array([b"x"]), "origin_message_id": pa.array(["b.0123456789ab-1.1"])}
    content = write_arrow(columns)
    response = http.post(f"/v1/topics/{topic}/messages", content=content, headers={"Content-Type": ARROW})
    assert is_problem(response, 400, "invalid_arrow")


def test_rows_with_a_time_of_delivery_wait_for_it(tmp_path: Path) -> None:
    with Timed(tmp_path) as timed:
        http, due = timed.http, timed.now_ms() + HOUR_MS
        columns = {"body": pa.array([b"later", b"now"]), "deliver_at_ms": pa.array([due, None], pa.int64())}
        put_topic(http, "t")
        put_part(http, "s", 0, "a", columns, topic="t")
        commit(http, "s", 0, "a")
        assert bodies(http, "t") == ["now"]
        timed.pass_ms(HOUR_MS)
        wait_until(lambda: bodies(http, "t") == ["now", "later"])
        assert pull_all(http, "t")[1]["store_time_ms"] >= due


def test_a_part_for_one_group_is_a_retry_of_that_group_alone(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    columns = {"body": pa.array([b"again"]), "origin_message_id": pa.array(["broker-a.0123456789ab-1.3"])}
    put_part(http, topic, 0, "a", columns, topic=topic, group="only-these")
    commit(http, topic, 0, "a")
    assert bodies(http, topic) == []
    (message,) = pull_all(http, "%25RETRY%25only-these")
    found = message["body"], message["real_topic"], message["origin_message_id"]
    assert found == ("again", topic, "broker-a.0123456789ab-1.3")


@pytest.mark.parametrize(
    ("columns", "query", "status", "code"),
    [
        ({"body": pa.array([b"x"]), "queue_id": pa.array([9])}, {}, 404, "queue_not_found"),
        ({"body": pa.array([b"x"]), "deliver_at_ms": pa.array([2**53])}, {}, 400, "invalid_request"),
        ({"body": pa.array([b"x"]), "origin_message_id": pa.array(["nothing"])}, {}, 400, "invalid_arrow"),
        ({"body": pa.array([b"x"]), "surprise": pa.array([1])}, {}, 400, "invalid_arrow"),
        ({"body": pa.array([b"x"]), "queue_id": pa.array([0])}, {"group": "g"}, 400, "invalid_arrow"),
        ({"body": pa.array([b"x"])}, {"group": "no group"}, 400, "invalid_request"),
        ({"body": pa.array([b"x"])}, {"topic": "%DLQ%g"}, 403, "read_only_topic"),
        ({"body": pa.array([b"x"])}, {"colour": "red"}, 400, "invalid_request"),
        ({"body": pa.array([None], pa.binary())}, {}, 400, "invalid_arrow"),
    ],
)
def test_a_part_that_could_not_be_stored_is_refused_as_it_comes(
    http: httpx.Client, topic: str, columns: dict[str, Any], query: dict[str, str], status: int, code: str
) -> None:
    put_topic(http, topic)
    assert is_problem(put_part(http, topic, 0, "a", columns, **{"topic": topic, **query}), status, code)
    assert is_problem(commit(http, topic, 0, "a"), 409, "part_not_found")


def test_what_is_delivered_later_or_to_one_group_can_not_be_both_or_a_copy(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    due = now_ms() + HOUR_MS
    later = {"body": pa.array([b"x"]), "deliver_at_ms": pa.array([due], pa.int64())}
    assert is_problem(put_part(http, topic, 0, "a", later, topic=topic, group="g"), 400, "invalid_request")
    copy = later | {"origin_message_id": pa.array(["b.0123456789ab-1.1"])}
    assert is_problem(put_part(http, topic, 0, "a", copy, topic=topic), 400, "invalid_arrow")


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        ("PUT", "/v1/sinks/a.b/batches/0/parts/p?topic=t", b""),
        ("PUT", "/v1/sinks/s/batches/-1/parts/p?topic=t", b""),
        ("PUT", "/v1/sinks/s/batches/99999999999999999999/parts/p?topic=t", b""),
        ("PUT", "/v1/sinks/s/batches/0/parts/..?topic=t", b""),
        ("PUT", "/v1/sinks/s/batches/0/parts/p", b""),
        ("POST", "/v1/sinks/s/batches/0/commit", b'{"parts": ["a", "a"]}'),
        ("POST", "/v1/sinks/s/batches/0/commit", b'{"parts": "a"}'),
        ("POST", "/v1/sinks/s%20/batches/0/commit", b'{"parts": []}'),
        ("POST", "/v1/sinks/s/batches/0/commit", b'{"parts": [], "progress": 1}'),
        ("POST", "/v1/sinks/s%20/batches/0/abort", b"{}"),
    ],
)
def test_a_malformed_request_is_a_problem(http: httpx.Client, method: str, path: str, content: bytes) -> None:
    headers = {"Content-Type": "application/vnd.apache.arrow.stream" if method == "PUT" else "application/json"}
    response = http.request(method, path, content=content, headers=headers)
    assert 400 <= response.status_code < 500
    assert response.json()["code"] in ("invalid_request", "not_found"), response.text


def test_a_part_is_arrow_and_nothing_else(http: httpx.Client, topic: str) -> None:
    response = http.put(f"/v1/sinks/s/batches/0/parts/p?topic={topic}", content=b"x")
    assert is_problem(response, 415, "unsupported_media_type")


def test_the_same_part_again_is_no_error_but_another_one_of_its_name_is(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    for _ in range(2):
        assert put_part(http, topic, 0, "a", ["1"], topic=topic).json() == {"staged": True, "messages": 1}
    assert is_problem(put_part(http, topic, 0, "a", ["2"], topic=topic), 422, "idempotency_mismatch")
    commit(http, topic, 0, "a")
    assert bodies(http, topic) == ["1"]


def test_a_commit_without_parts_only_moves_the_sink_on(http: httpx.Client, topic: str) -> None:
    assert commit(http, topic, 3, progress="nothing there").json()["new"] is True
    assert sink_of(http, topic)["progress"] == "nothing there"
    assert commit(http, topic, 3).json()["new"] is False


def test_a_sink_that_is_forgotten_begins_anew(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    for body in ("1", "2"):
        put_part(http, topic, 0, "a", [body], topic=topic)
        assert commit(http, topic, 0, "a").json()["new"] is True
        assert topic in [each["sink"] for each in http.get("/v1/sinks").json()["sinks"]]
        assert http.delete(f"/v1/sinks/{topic}").status_code == 200
    assert bodies(http, topic) == ["1", "2"]
    assert is_problem(http.delete(f"/v1/sinks/{topic}"), 404, "sink_not_found")


def test_a_commit_to_a_topic_that_was_deleted_or_is_smaller_now_is_refused_as_a_whole(
    http: httpx.Client, topic: str
) -> None:
    put_topic(http, topic, queues=2)
    put_topic(http, f"{topic}-b")
    columns = {"body": pa.array([b"1"]), "queue_id": pa.array([1])}
    put_part(http, topic, 0, "a", columns, topic=topic)
    put_part(http, topic, 0, "b", ["3"], topic=f"{topic}-b")
    http.delete(f"/v1/topics/{topic}")
    assert is_problem(commit(http, topic, 0, "a", "b"), 404, "topic_not_found")
    put_topic(http, topic)
    assert is_problem(commit(http, topic, 0, "a", "b"), 404, "queue_not_found")
    assert bodies(http, f"{topic}-b") == []


def test_a_name_that_was_given_up_can_be_staged_anew_at_once(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    for number in range(20):
        put_part(http, topic, number, "a", ["given up"], topic=topic)
        http.post(f"/v1/sinks/{topic}/batches/{number}/abort", json={})
        put_part(http, topic, number, "a", [str(number)], topic=topic)
        assert commit(http, topic, number, "a").json()["messages"] == 1
    assert bodies(http, topic) == [str(number) for number in range(20)]


def test_copies_that_are_staged_are_given_up_when_messages_are_erased(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "data") as gateway, connect(gateway) as http:
        (secret,) = produce(http, "t", "secret")
        copy = {"body": pa.array([b"secret"]), "origin_message_id": pa.array([secret["message_id"]])}
        put_part(http, "replay", 0, "a", copy, topic="t")
        put_part(http, "other", 0, "a", ["1"], topic="t2")
        assert http.post("/v1/log/erasures", json={"positions": [secret["position"]]}).json()["erased"] == 1
        assert b"secret" not in b"".join(path.read_bytes() for path in (tmp_path / "data" / "sinks").iterdir())
        assert is_problem(commit(http, "replay", 0, "a"), 409, "part_not_found")
        assert commit(http, "other", 0, "a").json()["messages"] == 1
        assert bodies(http, "t") == []


def test_what_is_committed_survives_a_kill_and_so_does_the_sink(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "data") as gateway, connect(gateway) as http:
        put_part(http, "s", 0, "a", ["1"], topic="t")
        commit(http, "s", 0, "a", progress="p")
        put_part(http, "s", 1, "a", ["2"], topic="t")
        gateway.kill()
    with start_gateway(tmp_path / "data") as gateway, connect(gateway) as http:
        assert commit(http, "s", 0, "a").json()["new"] is False
        assert sink_of(http, "s")["progress"] == "p"
        assert commit(http, "s", 1, "a").json() == {"sink": "s", "batch": 1, "new": True, "messages": 1, "dropped": 0}
        assert bodies(http, "t") == ["1", "2"]
    assert not list((tmp_path / "data" / "sinks").rglob("*.part"))


def test_the_staged_parts_the_sinks_and_the_topics_are_bounded(tmp_path: Path) -> None:
    options: dict[str, object] = {"sinks__staged_parts_max": 2, "sinks__sinks_max": 1, "topics__topics_max": 4}
    with start_gateway(tmp_path / "data", **options) as gateway, connect(gateway) as http:
        for part in ("a", "b"):
            assert put_part(http, "s", 0, part, ["1"], topic="t").status_code == 200
        assert is_problem(put_part(http, "s", 0, "c", ["1"], topic="t"), 429, "flow_control")
        assert commit(http, "s", 0, "a", "b").status_code == 200
        assert put_part(http, "s2", 0, "a", ["1"], topic="t").status_code == 200
        assert is_problem(commit(http, "s2", 0, "a"), 429, "flow_control")
        for number in range(3):  # of those that have one batch, the oldest makes room
            assert commit(http, f"once-{number}", 0, once=True).status_code == 200
        assert [each["sink"] for each in http.get("/v1/sinks").json()["sinks"]] == ["once-2", "s"]
        for number in range(4):
            http.put(f"/v1/topics/t{number}", json={"queues": 1})
        assert put_part(http, "s", 1, "g", ["1"], topic="t", group="g").status_code == 200
        assert is_problem(commit(http, "s", 1, "g"), 400, "invalid_request")
        assert sink_of(http, "s")["batch"] == 0


def test_a_staged_file_that_is_gone_or_another_is_found_out_before_the_commit_counts(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "data") as gateway, connect(gateway) as http:
        put_part(http, "s", 0, "a", ["1"], topic="t")
        (staged,) = (tmp_path / "data" / "sinks").iterdir()
        content = staged.read_bytes()
        staged.unlink()
        assert is_problem(commit(http, "s", 0, "a"), 409, "part_not_found")
        put_part(http, "s", 0, "b", ["1"], topic="t")
    (staged,) = (tmp_path / "data" / "sinks").iterdir()
    staged.write_bytes(b"x" + staged.read_bytes()[1:])
    (tmp_path / "data" / "sinks" / "other.part").write_bytes(content)
    with start_gateway(tmp_path / "data") as gateway, connect(gateway) as http:
        assert http.get("/v1/sinks").json()["staged_parts"] == 0
        assert is_problem(commit(http, "s", 0, "b"), 409, "part_not_found")


def test_parts_and_one_time_sinks_that_nobody_comes_back_for_are_forgotten(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "data") as gateway, connect(gateway) as http:
        put_part(http, "once", 0, "a", ["1"], topic="t")
        commit(http, "once", 0, "a", once=True)
        put_part(http, "more", 0, "a", ["1"], topic="t")
        commit(http, "more", 0, "a")
        put_part(http, "more", 1, "left", ["1"], topic="t")
    later = start_gateway(tmp_path / "data", clock_offset_ms=25 * 3_600_000, storage__clock_confirm_ms=0)
    with later as gateway, connect(gateway) as http:
        assert http.get("/v1/sinks").json()["staged_parts"] == 0
        assert [each["sink"] for each in http.get("/v1/sinks").json()["sinks"]] == ["more"]


def test_produce_goes_on_as_before(fresh_gateway: GatewayProcess) -> None:
    with connect(fresh_gateway) as http:
        produce(http, "t", "1")
        put_part(http, "s", 0, "a", ["2"], topic="t")
        commit(http, "s", 0, "a")
        produce(http, "t", "3")
        assert bodies(http, "t") == ["1", "2", "3"]
