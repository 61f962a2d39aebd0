"""What a page shows of what was seen, whatever the terminal's size, and whatever the names are."""

from __future__ import annotations

import math
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.cli.top.page import GROUP_SORTS, HELP, TOPIC_SORTS, Line, View, page
from lakemq.cli.top.rows import Watched, group_rows, topic_rows
from lakemq.cli.top.seen import Seen, look_at, read_samples

WAIT_S_MAX = 30.0
IN, OUT = "lakemq_topic_messages_in_total", "lakemq_topic_messages_out_total"


def described(**more: Any) -> dict[str, Any]:
    return {
        "name": "broker-a",
        "replica": 0,
        "role": "primary",
        "epoch": 3,
        "in_sync": [0, 1],
        "steady_ms": 10_000,
        **more,
    }


def watched(
    now: dict[str, dict[str, float]], before: dict[str, dict[str, float]] | None = None, **more: Any
) -> Watched:
    return Watched(
        "http://a", now=Seen(12.0, described=described(**more), samples=now), before=Seen(10.0, samples=before or {})
    )


def text_of(lines: list[Line]) -> list[str]:
    return ["".join(piece.text for piece in line) for line in lines]


def words_of(lines: list[Line], first: str) -> list[str]:
    return next(line.split() for line in text_of(lines) if line.startswith(first))


def test_rates_are_by_the_time_between_two_looks_and_a_broker_that_began_anew_counts_from_0() -> None:
    now, before = {IN: {"orders": 30.0, "new": 8.0, "less": 4.0}}, {IN: {"orders": 10.0, "less": 100.0}}
    rows = {row.topic: row for row in topic_rows([watched(now, before), watched(now, before)], "in")}
    assert (rows["orders"].messages_in, rows["less"].messages_in) == (20.0, 4.0)
    assert (rows["new"].messages_in, rows["orders"].messages_out) == (None, None)


@pytest.mark.parametrize(
    ("sort", "names"),
    [("in", ["b", "a", "c"]), ("out", ["a", "b", "c"]), ("bytes", ["c", "a", "b"]), ("name", ["a", "b", "c"])],
)
def test_topics_are_sorted(sort: str, names: list[str]) -> None:
    zero = dict.fromkeys("abc", 0.0)
    now = {IN: zero | {"b": 9.0}, OUT: zero | {"a": 9.0}, "lakemq_topic_bytes_in_total": zero | {"c": 9.0}}
    assert [row.topic for row in topic_rows([watched(now, dict.fromkeys(now, zero))], sort)] == names


@pytest.mark.parametrize("sort", GROUP_SORTS)
def test_groups_are_sorted_and_are_as_those_who_lead_know_them(sort: str) -> None:
    metrics = {
        "lag": "lakemq_group_lag_messages",
        "oldest": "lakemq_group_oldest_unconsumed_seconds",
        "retries": "lakemq_group_retries_waiting",
        "dead": "lakemq_group_dead_letters_open",
    }
    now = {"lakemq_group_members": {"first": 1.0, "second": 2.0}, metrics.get(sort, "x"): {"second": 7.0}}
    follower = watched({"lakemq_group_lag_messages": {"theirs": 1.0}}, role="follower")
    rows = group_rows([watched(now), follower], sort)
    assert [row.group for row in rows] == (["first", "second"] if sort == "name" else ["second", "first"])


def test_the_lag_of_a_group_of_several_brokers_is_all_of_it_and_its_age_the_oldest() -> None:
    one = watched({"lakemq_group_lag_messages": {"g": 3.0}, "lakemq_group_oldest_unconsumed_seconds": {"g": 5.0}})
    two = watched({"lakemq_group_lag_messages": {"g": 4.0}, "lakemq_group_oldest_unconsumed_seconds": {"g": 50.0}})
    (row,) = group_rows([one, two], "lag")
    assert (row.lag, row.oldest_s, row.members) == (7.0, 50.0, None)


def test_a_page_says_what_is_known_and_a_dash_for_what_is_not() -> None:
    samples = {
        "lakemq_disk_free_bytes": {"": 25.0},
        "lakemq_disk_bytes": {"": 100.0},
        "lakemq_disk_full_in_seconds": {"": math.inf},
        "lakemq_connections": {"": 12.0},
    }
    jobs = {"lake": {"alive": False, "lag": 1_234, "heard_s": 6.0}}
    lines = page([watched(samples, jobs=jobs)], View(), 200, 40)
    assert words_of(lines, "broker-a/0")[1:] == [
        "primary",
        "3",
        "/0,/1",
        "-",
        "-",
        "-",
        "75%",
        "never",
        "-",
        "12",
        "http://a",
    ]
    assert words_of(lines, "lake ") == ["lake", "broker-a", "no", "1,234", "-", "6", "s"]
    assert text_of(lines)[-1] == HELP


def test_a_replica_that_does_not_answer_is_shown_with_why() -> None:
    late = Watched("http://late", "broker-b", 1, late_s=7.0)
    dead = Watched("http://dead", now=Seen(1.0, "no answer from there"), before=Seen(0.0))
    shown = text_of(page([late, dead, watched({})], View(), 200, 40))
    assert shown[0] == "lakemq top: 1 of 3 replicas answer"
    assert any(line.startswith("broker-b/1") and "http://late: no answer for 7 s" in line for line in shown)
    assert any(line.startswith("http://dead") and "no answer from there" in line for line in shown)


def test_what_did_answer_and_hangs_now_is_not_shown_as_it_was() -> None:
    hangs = watched({"lakemq_group_lag_messages": {"g": 3.0}})._replace(late_s=4.0)
    shown = text_of(page([hangs], View(), 200, 40))
    assert any("no answer for 4 s" in line for line in shown)
    assert not any(line.startswith("g ") for line in shown)


@given(st.text(max_size=60), st.integers(1, 120), st.integers(1, 60), st.integers(0, 40), st.sampled_from(TOPIC_SORTS))
def test_a_page_fits_any_terminal_and_steers_none(name: str, width: int, height: int, count: int, sort: str) -> None:
    topics = {f"{number}{name}": float(number) for number in range(count)}
    jobs = {name: {"alive": True, "lag": None, "heard_s": 0.0}}
    now = {IN: topics, "lakemq_group_lag_messages": topics}
    said = watched(now, {IN: topics}, name=name, role=name, jobs=jobs)
    dead = Watched(name, name, 2, now=Seen(0.0, name))
    lines = text_of(page([said, dead], View(topics_by=sort, said=name), width, height))
    assert 1 <= len(lines) <= height
    assert all(len(line) <= width and line.isprintable() for line in lines)


def test_more_rows_than_there_is_room_for_are_counted() -> None:
    topics = {f"t{number:02}": float(number) for number in range(50)}
    lines = text_of(page([watched({IN: topics}, {IN: dict.fromkeys(topics, 0.0)})], View(), 200, 24))
    assert len(lines) <= 24
    (title,) = [line for line in lines if line.startswith("topics")]
    shown = [line for line in lines if line.startswith("t") and not line.startswith("topic")]
    assert title == f"topics by in ({50 - len(shown)} more)"
    assert len(shown) >= 10
    assert shown[0].startswith("t49")


def test_keys_change_what_is_sorted_by() -> None:
    view = View()
    seen = [view := view.with_key("t") for _ in TOPIC_SORTS]
    assert [each.topics_by for each in seen] == ["out", "bytes", "name", "in"]
    assert view.with_key("g").groups_by == "oldest"
    assert view.with_key("g").with_key("l").groups_by == "lag"
    assert view.with_key("x") == view


def test_of_metrics_what_has_more_labels_is_left_out() -> None:
    text = '# TYPE a counter\na_total{topic="x\\ny"} 3\nb 1\nc{d="1",e="2"} 4\n'
    assert read_samples(text) == {"a_total": {"x\ny": 3.0}, "b": {"": 1.0}}
    with pytest.raises(ValueError, match="float"):
        read_samples("x{ 1")


class Impostor(BaseHTTPRequestHandler):
    """Answers whatever it is asked with what it was told to."""

    answer = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"[]",
        b"3",
        b"{}",
        b'{"name": "a", "role": "primary", "replica": 0, "epoch": "x", "in_sync": null}',
        b'{"name": "a", "role": "primary", "replica": 0, "epoch": 1, "in_sync": "abc"}',
        b'{"name": "a", "role": "primary", "replica": 0, "epoch": 1, "jobs": []}',
        b'{"name": "a", "role": "primary", "replica": 0, "epoch": 1, "steady_ms": 0, "jobs": {"lake": 1}}',
    ],
)
def test_who_is_no_broker_is_shown_as_such(said: bytes) -> None:
    handler = type("Handler", (Impostor,), {"answer": said})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            seen = look_at(f"http://127.0.0.1:{server.server_port}", WAIT_S_MAX)
        finally:
            server.shutdown()
    assert page([Watched("x", now=seen)], View(), 100, 30)
    assert seen.problem or not seen.described["jobs"]
