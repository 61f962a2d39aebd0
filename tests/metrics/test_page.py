"""`GET /metrics` of a real broker: what it says of topics, groups and requests, that labels are bounded, and that
Prometheus' own tool has nothing to say against it."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import httpx
import pytest

from lakemq.contract.metrics import ALL, COUNTER, GATEWAY
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, produce, pull_all, put_topic
from tests.gateway.redrive.test_redrive import begin, finished, make_dead, wait_for
from tests.gateway.routing.asking import nack
from tests.metrics.page import Page
from tests.metrics.promtool import promtool

_numbers = count()


@pytest.fixture
def name() -> str:
    """Of a topic or a group that no other test uses."""
    return f"metrics-{next(_numbers)}"


def beat(http: httpx.Client) -> None:
    """Be a job that has read nothing yet."""
    jobs = [{"name": "lake", "position": 0, "clock_ms": 0}]
    assert http.put("/v1/jobs", json={"jobs": jobs}).status_code == 200


def test_promtool_has_nothing_to_say_against_it(broker: httpx.Client) -> None:
    produce(broker, "topic-of-promtool", "a")
    promtool("check", "metrics", text=Page(broker).text)


def test_all_that_is_defined_is_said_and_nothing_else(broker: httpx.Client, name: str) -> None:
    produce(broker, name, "a")
    make_dead(broker, f"group-{name}", "b")
    beat(broker)
    broker.get("/nothing")
    page = Page(broker)
    said = {family.name + "_total" if family.type == COUNTER else family.name for family in page.families.values()}
    assert said == {metric.name for metric in GATEWAY}
    a_followers = {"lakemq_following", "lakemq_truncated_messages", "lakemq_follower_lag"}
    # Said where there are spans, and where there is TLS.
    silent = a_followers | {"lakemq_trace_spans_total", "lakemq_certificate_expiry_timestamp_seconds"}
    for family in page.families.values():
        metric = ALL[family.name + "_total" if family.type == COUNTER else family.name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        labels = {tuple(sorted(set(sample.labels) - {"le"})) for sample in family.samples}
        assert labels == (set() if metric.name in silent else {tuple(sorted(metric.labels))}), metric.name


def test_what_comes_and_goes_is_counted_by_topic(tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        for body in (b"123", b"45"):  # the second one, to a topic that is known, takes the quick way
            assert http.post("/v1/topics/t/messages", content=body).status_code == 200
        produce(http, "t", "678", "9")
        assert http.post("/v1/topics/t/messages", content=b"x" * 100_000).status_code == 200
        assert http.post("/v1/topics/none/messages", content=b"", headers={"lakemq-nothing": "1"}).status_code == 400
        pulled = len(pull_all(http, "t"))
        received = http.post("/v1/groups/g/receive", json={"topic": "t", "max": 2}).json()["messages"]
        page = Page(http)
    assert page("lakemq_topic_messages_in_total", topic="t") == 5
    assert page("lakemq_topic_bytes_in_total", topic="t") == 9 + 100_000
    assert page("lakemq_topic_messages_out_total", topic="t") == pulled + len(received) == 7
    assert page("lakemq_topic_bytes_out_total", topic="t") == page("lakemq_bytes_out_total") > 100_000
    assert page("lakemq_topic_send_duration_seconds_count", topic="t") == 4
    assert 0 < page("lakemq_topic_send_duration_seconds_sum", topic="t") < 60
    assert page("lakemq_messages_in_total") == 5
    labels = {"http_request_method": "POST", "http_route": "/v1/topics/{topic}/messages"}
    assert page("http_server_request_duration_seconds_count", **labels, http_response_status_code="200") == 4
    assert page("http_server_request_duration_seconds_count", **labels, http_response_status_code="400") == 1


def test_requests_are_counted_by_the_routes_template_and_their_status(broker: httpx.Client, name: str) -> None:
    def counted(method: str, route: str, status: int) -> float:
        labels = {"http_request_method": method, "http_route": route, "http_response_status_code": str(status)}
        try:
            return Page(broker)("http_server_request_duration_seconds_count", **labels)
        except KeyError:
            return 0

    asked = [("GET", "/v1/topics/{topic}", 404), ("GET", "", 404), ("DELETE", "", 405), ("_OTHER", "", 405)]
    before = [counted(*each) for each in asked]
    broker.get(f"/v1/topics/{name}")
    broker.get(f"/v1/{name}")
    broker.delete("/healthz")
    broker.request("PROPFIND", "/healthz")
    assert [counted(*each) for each in asked] == [each + 1 for each in before]
    assert name not in Page(broker).text


def test_more_topics_and_groups_than_may_be_are_told_together(tmp_path: Path) -> None:
    limits = {"gateway__metrics_topics_max": 2, "gateway__metrics_groups_max": 2}
    with start_gateway(tmp_path, **limits) as gateway, connect(gateway) as http:
        for number in range(4):
            produce(http, f"t-{number}", *["x"] * (number + 1))
        for number in range(4):
            http.post(f"/v1/groups/g-{number}/receive", json={"topic": "t-3", "max": 1})
        page = Page(http)
        told = page.values("lakemq_topic_messages_in_total", "topic")
        assert told == {"t-3": 4, "t-2": 3, "other": 3}
        groups = page.values("lakemq_group_in_flight", "group")
        assert (len(groups), sum(groups.values()), groups["other"]) == (3, 4, 2)
        assert page.values("lakemq_unlabelled", "kind") == {"topic": 2, "group": 2}
        produce(http, "t-0", *["x"] * 100)
        assert http.delete("/v1/topics/t-3").status_code in {200, 204}
        told = Page(http).values("lakemq_topic_messages_in_total", "topic")
        assert told["other"] >= 3
        assert set(told) == {"t-2", "t-0", "other"}


def test_a_group_is_behind_by_what_it_has_yet_to_finish(broker: httpx.Client, tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        produce(http, "t", "a", "b", "c")
        (got,) = http.post("/v1/groups/g/receive", json={"topic": "t", "max": 1}).json()["messages"]
        page = Page(http)
        assert page("lakemq_group_lag_messages", group="g") == 3
        assert page("lakemq_group_in_flight", group="g") == 1
        assert page("lakemq_group_paused", group="g") == 0
        for is_enabled in (False, True):
            http.put("/v1/groups/g", json={"consume_enabled": is_enabled}).raise_for_status()
            assert Page(http)("lakemq_group_paused", group="g") == (not is_enabled)
        stood = page("lakemq_group_oldest_unconsumed_seconds", group="g")
        wait_for(lambda: Page(http)("lakemq_group_oldest_unconsumed_seconds", group="g") > stood)
        http.post("/v1/groups/g/acks", json={"receipts": [got["receipt"]]})
        rest = http.post("/v1/groups/g/receive", json={"topic": "t", "max": 9}).json()["messages"]
        http.post("/v1/groups/g/acks", json={"receipts": [each["receipt"] for each in rest]})
        page = Page(http)
    for metric in ("lag_messages", "in_flight", "oldest_unconsumed_seconds"):
        assert page(f"lakemq_group_{metric}", group="g") == 0


def test_dead_letters_are_open_until_they_are_redriven(tmp_path: Path) -> None:
    """`lag` says 0 of a group with six of them: nothing is behind."""
    with start_gateway(tmp_path / "log", routing__grace_ms=100) as gateway, connect(gateway) as http:
        make_dead(http, "g", *({"body": "b", "tag": "even" if number % 2 else "odd"} for number in range(6)))
        make_dead(http, "other-one", "x")
        assert Page(http).values("lakemq_group_dead_letters_open", "group") == {"g": 6, "other-one": 1, "other": 0}
        finished(http, begin(http, "g", where="tag = 'odd'")["redrive_id"])
        page = Page(http)
        assert page("lakemq_group_dead_letters_open", group="g") == 3
        assert page("lakemq_group_dead_letters_total", group="g") == 6
        assert page("lakemq_group_retries_total", group="g") == 3
    with start_gateway(tmp_path / "log", routing__grace_ms=100) as gateway, connect(gateway) as http:
        assert Page(http)("lakemq_group_dead_letters_open", group="g") == 3
        assert http.delete("/v1/groups/g").status_code in {200, 204}
        assert Page(http).values("lakemq_group_dead_letters_open", "group") == {"other-one": 1, "other": 0}
        make_dead(http, "g", "begun anew")
        assert Page(http)("lakemq_group_dead_letters_open", group="g") == 1


def test_a_retry_waits_until_it_is_due(tmp_path: Path) -> None:
    with start_gateway(tmp_path, routing__grace_ms=100) as gateway, connect(gateway) as http:
        later, soon = (message["message_id"] for message in produce(http, "t", "later", "soon"))
        assert nack(http, "g", {"message_id": later, "delay_level": 18}).status_code == 200
        assert nack(http, "g", {"message_id": soon, "delay_level": 1}).status_code == 200
        wait_for(lambda: Page(http).values("lakemq_group_retries_total", "group").get("g") == 1)
        assert Page(http)("lakemq_group_retries_waiting", group="g") == 1
        assert Page(http)("lakemq_overdue", kind="delay") == 0


def test_a_job_is_behind_until_it_has_read_all(broker: httpx.Client, name: str) -> None:
    produce(broker, name, "a")
    beat(broker)
    behind = Page(broker)("lakemq_job_behind_seconds", job="lake")
    wait_for(lambda: Page(broker)("lakemq_job_behind_seconds", job="lake") > behind)
    end = broker.get("/v1/broker").json()["max_position"]
    broker.put("/v1/jobs", json={"jobs": [{"name": "lake", "position": end, "clock_ms": 0}]})
    page = Page(broker)
    assert page("lakemq_job_behind_seconds", job="lake") == page("lakemq_job_lag", job="lake") == 0


def test_the_lake_is_behind_until_it_has_all_also_after_a_start(tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        produce(http, "t", "a")
        behind = Page(http)("lakemq_uncompacted_seconds")
        wait_for(lambda: Page(http)("lakemq_uncompacted_seconds") > behind)
        end = http.get("/v1/broker").json()["max_position"]
        assert Page(http)("lakemq_uncompacted_messages") == end
        assert http.put("/v1/broker/compacted", json={"compacted_position": end}).status_code == 200
        assert missing(http) == (0, 0)
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        assert min(missing(http)) > 0
        for read in (end - 1, end):
            http.put("/v1/jobs", json={"jobs": [{"name": "lake", "position": read, "clock_ms": 0}]})
            page = Page(http)
            assert page("lakemq_uncompacted_messages") == page("lakemq_job_lag", job="lake") == end - read
        assert missing(http) == (0, 0)


def missing(http: httpx.Client) -> tuple[float, float]:
    """What the lake lacks of the log: messages, and seconds."""
    page = Page(http)
    return page("lakemq_uncompacted_messages"), page("lakemq_uncompacted_seconds")


def test_a_flush_is_timed(broker: httpx.Client, name: str) -> None:
    produce(broker, name, "a", ack="sync")
    page = Page(broker)
    assert page("lakemq_flush_duration_seconds_count") == page("lakemq_fsync_duration_seconds_count") > 0
    assert page("lakemq_flush_duration_seconds_sum") >= page("lakemq_fsync_duration_seconds_sum") > 0
