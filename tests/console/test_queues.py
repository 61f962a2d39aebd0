"""A topic's queues at several brokers: what each retains, and since when."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.console.looks import Look, Pair
from lakemq.console.queues import QUEUES_SHOWN_MAX, Said, queues_of
from lakemq.contract.limits import TIMES_MAX
from lakemq.model.written import moment
from lakemq.testing import GatewayProcess, start_gateway
from tests.console.visitor import WAIT_S, ConsoleProcess, Guarded, Visitor, token_of
from tests.gateway.http_client import connect, produce, put_topic
from tests.gateway.routing.asking import wait_until


def said(address: str, name: str, role: str = "primary", queues: int = 1, **samples: float) -> Said:
    metrics = {f"lakemq_topic_{each}_total": {"t": value} for each, value in samples.items()}
    look = Look(address, 1.0, said={"name": name, "role": role}, samples=metrics)
    numbers = range(queues)
    told: list[dict[str, Any]] = [
        {"queue_id": number, "min_offset": 2, "max_offset": 5, "log_min_offset": 3} for number in numbers
    ]
    for each in told[:TIMES_MAX]:
        each |= {"oldest_ms": 1, "newest_ms": 2}
    return Said(address, Pair(look), {"topic": "t", "queues": told})


def test_of_replicas_the_leaders_queues_are_shown_and_all_of_them_are_rows() -> None:
    replicas = [said("http://a1", "a", "follower"), said("http://a0", "a"), said("http://b", "b", queues=2)]
    found = queues_of([*replicas, Said("http://c", None, None, "gone")], "http://a0")
    assert [(each.name, each.role, each.queues, each.messages, each.problem) for each in found.brokers] == [
        ("a", "follower", 1, 3, ""),
        ("a", "primary", 1, 3, ""),
        ("b", "primary", 2, 6, ""),
        ("http://c", "", None, None, "gone"),
    ]
    assert [(each.broker, each.queue_id, each.is_here) for each in found.rows] == [
        ("a", 0, True),
        ("b", 0, False),
        ("b", 1, False),
    ]


def test_brokers_share_the_rows_of_a_page_and_what_is_left_out_is_said() -> None:
    many, few = said("http://a", "a", queues=10_000), said("http://b", "b", queues=3)
    found = queues_of([many, few], "http://a")
    assert len(found.rows) == QUEUES_SHOWN_MAX // 2 + 3
    assert found.more == [("a", 10_000 - QUEUES_SHOWN_MAX // 2)]
    assert found.timed_max == TIMES_MAX
    assert queues_of([few], "http://b").timed_max == 0


def test_a_later_page_begins_where_times_ended_and_says_whose_it_has() -> None:
    many, few = said("http://a", "a", queues=200), said("http://b", "b", queues=70)
    first = queues_of([many, few], "http://a")
    assert (first.begin, first.following) == (0, TIMES_MAX)
    second = queues_of([many, few], "http://a", 64)
    assert [each.queue_id for each in second.rows if each.broker == "b"] == list(range(64, 70))
    assert [each.queue_id for each in second.rows if each.broker == "a"] == list(range(64, 64 + 128))
    assert (second.more, second.previous, second.following) == ([("a", 8)], 0, 128)
    last = queues_of([many, few], "http://a", 192)
    assert ({each.broker for each in last.rows}, last.more, last.following) == ({"a"}, [], None)
    beyond = queues_of([many, few], "http://a", 1_000)
    assert (beyond.rows, beyond.more, beyond.timed_max, beyond.following) == ([], [], 0, None)
    assert queues_of([few], "http://b").following == TIMES_MAX
    assert queues_of([said("http://a", "a", queues=TIMES_MAX)], "http://a").following is None


def test_where_brokers_are_many_a_page_goes_on_after_what_it_has_shown() -> None:
    brokers = [said(f"http://{number}", f"{number}", queues=40) for number in range(8)]
    assert (len(queues_of(brokers, "").rows), queues_of(brokers, "").following) == (QUEUES_SHOWN_MAX, 32)
    assert (len(queues_of(brokers, "", 32).rows), queues_of(brokers, "", 32).following) == (64, None)


def test_what_a_broker_does_not_tell_is_not_made_up() -> None:
    silent = said("http://a", "a")
    (row,) = queues_of([silent], "http://a").brokers
    assert (row.rate_in, row.rate_out, row.body_bytes_in) == (None, None, None)
    (row,) = queues_of([silent._replace(pair=None)], "http://a").brokers
    assert (row.name, row.role, row.messages, row.body_bytes_in) == ("http://a", "", 3, None)
    (row,) = queues_of([said("http://a", "a", bytes_in=7.0)], "http://a").brokers
    assert row.body_bytes_in == 7.0


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """Another broker."""
    with start_gateway(tmp_path_factory.mktemp("other") / "data", broker__name="broker-b") as gateway:
        yield gateway


def rows_of(page: str) -> list[list[str]]:
    """The text of each row's cells."""
    rows = re.findall(r"<tr>(.*?)</tr>", page.partition("<tbody>")[2], re.DOTALL)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in rows]
    return [[" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in row] for row in cells if row]


def test_each_brokers_queues_are_shown_with_the_times_of_their_messages(
    http: httpx.Client, gateway: GatewayProcess, other: GatewayProcess, name: str
) -> None:
    put_topic(http, name, 2)
    stored = [produce(http, name, {"body": "xx", "queue_id": 0})[0]["store_time_ms"] for _ in range(3)]
    with connect(other) as second, ConsoleProcess(gateway.url, other.url) as console:
        visitor = Visitor(console.url)
        wait_until(lambda: "This broker has no such topic." in visitor.get(f"/topics/{name}/queues"))
        (theirs,) = produce(second, name, "yyyy")
        page = ""

        def is_told() -> bool:  # figures are looked at now and then
            nonlocal page
            page = visitor.get(f"/topics/{name}/queues")
            return "4 B" in page and "6 B" in page

        wait_until(is_told)
        visitor.close()
    assert f'href="/topics/{name}/messages?queue=0"' in page
    rows = rows_of(page)
    of_brokers, of_queues = rows[:2], rows[2:]
    assert [row[0] for row in of_brokers] == [f"broker-a {gateway.url}", f"broker-b {other.url}"]
    assert [(row[1], row[2], row[3], row[6]) for row in of_brokers] == [
        ("primary", "2", "3", "6 B"),
        ("primary", "4", "1", "4 B"),
    ]
    assert [row[:2] for row in of_queues] == [
        ["broker-a", "0"],
        ["broker-a", "1"],
        *(["broker-b", str(each)] for each in range(4)),
    ]
    assert of_queues[0][2:] == [moment(stored[0]), moment(stored[-1]), "0", "0", "3", "3"]
    assert of_queues[1][2:4] == ["–", "–"]
    times = [row[2:4] for row in of_queues[2:] if row[7] == "1"]
    assert times == [[moment(theirs["store_time_ms"])] * 2]


def test_a_broker_that_does_not_answer_is_a_row_that_says_so(
    http: httpx.Client, gateway: GatewayProcess, name: str
) -> None:
    put_topic(http, name)
    with socket.create_server(("127.0.0.1", 0)) as hung, socket.create_server(("127.0.0.1", 0)) as taken:
        gone = f"http://127.0.0.1:{taken.getsockname()[1]}"
        taken.close()
        silent = f"http://127.0.0.1:{hung.getsockname()[1]}"
        with ConsoleProcess(gateway.url, gone, silent) as console:
            visitor = Visitor(console.url)

            def is_told() -> bool:
                first, second, third, *_ = rows_of(visitor.get(f"/topics/{name}/queues"))
                assert second[0] == gone
                assert second[1].startswith("unknown")
                assert third == [silent, "unknown No answer within 5 s."]
                return first[1] == "primary"

            wait_until(is_told)
            visitor.close()


@contextmanager
def without_times(url: str, answers: bool) -> Generator[str]:
    """The address of a broker that tells no times: it refuses to, as one of an earlier version, or takes forever."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if "times=" in self.path and not answers:
                over.wait(WAIT_S)
                return
            problem = b'{"status": 400, "code": "invalid_request", "detail": "there is no field times"}'
            found = httpx.get(f"{url}{self.path}", trust_env=False, timeout=WAIT_S)
            status, body = (400, problem) if "times=" in self.path else (found.status_code, found.content)
            self.send_response(status)
            self.send_header("Content-Type", found.headers.get("Content-Type", ""))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        over.set()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("answers", [True, False])
def test_a_broker_that_tells_no_times_still_tells_its_queues(
    http: httpx.Client, gateway: GatewayProcess, name: str, answers: bool
) -> None:
    put_topic(http, name)
    produce(http, name, "x")
    with without_times(gateway.url, answers) as address, ConsoleProcess(address) as console:
        visitor = Visitor(console.url)
        rows: list[list[str]] = []

        def are_told() -> bool:
            rows[:] = rows_of(visitor.get(f"/topics/{name}/queues"))
            return len(rows) == 2

        wait_until(are_told)
        visitor.close()
    assert rows[1] == ["0", "–", "–", "0", "0", "1", "1"]


def test_a_broker_is_not_asked_for_a_topic_that_a_user_may_not_see_there(
    guarded: Guarded, tmp_path: Path, name: str
) -> None:
    guarded.http.put(f"/v1/topics/{name}", json={"queues": 1}).raise_for_status()
    token = token_of(guarded.http, name, (f"Topic:{name}", ["Get"]))
    with (
        start_gateway(tmp_path / "data", auth__required=True, broker__name="broker-b") as second,
        ConsoleProcess(guarded.gateway.url, second.url) as console,
    ):
        visitor = Visitor(console.url)
        visitor.sign_in(token)
        page = visitor.get(f"/topics/{name}/queues")
        assert "This broker doesn&#39;t take your token." in page
        assert "messages?queue=0" not in page  # it may not read them
        assert "primary" in page
        assert "You may not see this topic here." in visitor.get("/topics/secret/queues")
        visitor.close()


def test_a_topics_page_has_its_queues_and_leads_to_those_at_all_brokers(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    put_topic(http, name, QUEUES_SHOWN_MAX + 3)
    produce(http, name, {"body": "x", "queue_id": 1})
    page = visitor.get(f"/topics/{name}")
    assert f'hx-get="/topics/{name}/queues"' in page
    assert f'<a href="/topics/{name}/queues">' in page
    assert "And 3 more queues of broker-a." in page
    assert "Only the first" not in page
    loaded = visitor.get(f"/topics/{name}/queues")
    assert f"Only the first {TIMES_MAX} queues" in loaded
    assert len(rows_of(loaded)) == 1 + QUEUES_SHOWN_MAX
    assert f'rel="next" href="/topics/{name}/queues?from={TIMES_MAX}"' in loaded


def test_times_of_later_queues_are_on_later_pages(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_topic(http, name, 2 * TIMES_MAX + 3)
    (stored,) = produce(http, name, {"body": "x", "queue_id": 2 * TIMES_MAX + 1})
    time = moment(stored["store_time_ms"])
    page = visitor.get(f"/topics/{name}/queues")
    assert time not in page
    page = visitor.get(f"/topics/{name}/queues", **{"from": TIMES_MAX})
    assert f"Only queues {TIMES_MAX} to {2 * TIMES_MAX - 1} of a broker have times here." in page
    assert time not in page
    assert f'rel="prev" href="/topics/{name}/queues?from=0"' in page
    page = visitor.get(f"/topics/{name}/queues", **{"from": 2 * TIMES_MAX})
    assert [row[:3] for row in rows_of(page)[1:]] == [
        [f"{2 * TIMES_MAX}", "–", "–"],
        [f"{2 * TIMES_MAX + 1}", time, time],
        [f"{2 * TIMES_MAX + 2}", "–", "–"],
    ]
    assert "have times here" not in page
    assert 'rel="next"' not in page
    assert "has a queue 1000." in visitor.get(f"/topics/{name}/queues", **{"from": 1_000})
    visitor.get(f"/topics/{name}/queues?from=-1", 400)
