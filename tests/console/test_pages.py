"""The pages, as a browser without scripts has them."""

from __future__ import annotations

import json
import re
import socket
import time
from base64 import b64encode
from html import unescape
from urllib.parse import quote

import httpx
import pytest

from lakemq.testing import GatewayProcess
from tests.console.visitor import ConsoleProcess, Visitor, went_to
from tests.gateway.http_client import produce, pull_all, put_topic
from tests.gateway.routing.asking import wait_until

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"
STATUS = {"/nothing-here": 404, "/sign-out": 405}
PAGES = (
    *(
        "/",
        "/topics",
        "/new-topic",
        "/messages",
        "/send",
        "/groups",
        "/jobs",
        "/people",
        "/sign-in",
        "/sql",
        "/waiting",
    ),
    *STATUS,
)


@pytest.mark.parametrize("path", PAGES)
def test_no_page_loads_or_is_framed_by_anything_of_others(visitor: Visitor, path: str) -> None:
    response = visitor.http.get(path)
    assert response.status_code == STATUS.get(path, 200)
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "same-origin"
    assert response.headers["cache-control"] == "no-store"
    for asset in re.findall(r'(?:src|href)="(/static/[^"]+)"', response.text):
        found = visitor.http.get(asset)
        assert found.status_code == 200
        assert "immutable" in found.headers["cache-control"]


def test_a_file_that_is_not_there_is_not_found(visitor: Visitor) -> None:
    for path in ("/static/x/none.js", "/static/x/../app.py", "/static/x/%2e%2e/app.py", "/static/x/versions.json"):
        assert visitor.http.get(path).status_code == 404
    assert visitor.http.get("/static/old/console.css").headers["cache-control"] == "no-store"


def test_a_topic_is_made_changed_and_deleted_once_its_name_is_written(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    made = visitor.post("/new-topic", name=name, queues="3", permission="rw", message_type="fifo", ttl_ms="60000")
    assert went_to(made) == f"/topics/{name}"
    assert "Topic created." in visitor.get(made.headers["location"])
    topic = http.get(f"/v1/topics/{name}").json()
    assert (len(topic["queues"]), topic["message_type"], topic["ttl_ms"]) == (3, "fifo", 60_000)

    again = visitor.post("/new-topic", name=name, queues="3", permission="rw")
    assert again.status_code == 400
    assert f"there is a topic {name} already" in again.text

    edit = f"/topics/{name}/edit"
    assert went_to(visitor.post(edit, queues="5", permission="r", message_type="any", ttl_ms="")) == f"/topics/{name}"
    topic = http.get(f"/v1/topics/{name}").json()
    assert (len(topic["queues"]), topic["permission"], topic["message_type"]) == (5, "r", "any")
    assert topic["ttl_ms"] == 0
    fewer = visitor.post(edit, queues="1", permission="r", message_type="any")
    assert fewer.status_code == 400
    assert 'role="alert"' in fewer.text

    delete = f"/topics/{name}/delete"
    assert visitor.post(delete, name="another").status_code == 400
    assert http.get(f"/v1/topics/{name}").status_code == 200
    assert went_to(visitor.post(delete, name=name)) == "/topics"
    assert http.get(f"/v1/topics/{name}").status_code == 404
    assert "Not found" in visitor.get(f"/topics/{name}", 404)


@pytest.mark.parametrize(
    "fields", [{"queues": "many"}, {"queues": "-1"}, {"name": "a b"}, {"name": ""}, {"ttl_ms": "9" * 30}]
)
def test_a_topic_that_can_not_be_is_a_form_that_says_why(visitor: Visitor, fields: dict[str, str]) -> None:
    refused = visitor.post("/new-topic", **({"name": "never", "queues": "1", "permission": "rw"} | fields))
    assert refused.status_code == 400
    assert 'role="alert"' in refused.text
    assert 'name="permission"' in refused.text


def test_topics_come_a_page_at_a_time_and_are_searched(visitor: Visitor, http: httpx.Client, name: str) -> None:
    for number in range(60):
        put_topic(http, f"{name}-{number:02}")
    first = visitor.get("/topics", q=f"{name}-")
    assert (f"{name}-49<" in first, f"{name}-50<" in first) == (True, False)
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is not None
    second = visitor.get(unescape(following[1]))
    assert (f"{name}-49<" in second, f"{name}-50<" in second) == (False, True)
    assert 'rel="next"' not in second
    assert 'rel="first"' in second
    assert f"{name}-07<" in visitor.get("/topics", q=f"{name}-07".upper())
    assert "No topic has" in visitor.get("/topics", q=f"no-{name}")


def test_groups_come_a_page_at_a_time_and_those_furthest_behind_first_where_all_are_there(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    put_topic(http, name)
    produce(http, name, *["x"] * 3)
    groups = [f"{name}-{number:03}" for number in range(103)]
    for number, group in enumerate(groups):
        content = {"offsets": [{"topic": name, "queue_id": 0, "offset": min(number, 3)}]}
        http.put(f"/v1/groups/{group}/offsets", json=content).raise_for_status()
    first = visitor.get("/groups", q=f"{name}-")
    assert (f"{name}-099<" in first, f"{name}-100<" in first) == (True, False)
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is not None
    assert f"{name}-102<" in visitor.get(unescape(following[1]))
    few = visitor.get("/groups", q=f"{name}-00")
    assert "10 groups, most lag first" in few
    assert few.index(f"{name}-000<") < few.index(f"{name}-001<") < few.index(f"{name}-009<")
    topic = visitor.get(f"/topics/{name}")
    assert f"/groups/{name}-000" in topic
    assert "And 3 more groups." in topic


def test_messages_are_browsed_from_the_end_an_offset_and_a_time(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    put_topic(http, name, 2)
    stored = [produce(http, name, {"body": f"body {number}.", "queue_id": number % 2})[0] for number in range(120)]
    path = f"/topics/{name}/messages"
    end = visitor.get(path)
    assert end.index("body 119.") < end.index("body 118.")
    assert "body 70." in end
    assert "body 69." not in end
    part = visitor.get(path, **{"queue": 1, "from": "offset", "offset": 3})
    assert part.index("body 7.") < part.index("body 9.")
    assert "body 5." not in part
    following = re.search(r'rel="next" href="([^"]+)"', part)
    assert following is not None
    assert "body 107." in visitor.get(unescape(following[1]))
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(stored[0]["store_time_ms"] / 1000))
    assert "body 0." in visitor.get(path, **{"from": "time", "time": moment})
    for wrong in ({"from": "time", "time": "soon"}, {"from": "nowhere"}, {"queue": "7"}, {"offset": "-1"}):
        assert "alert" in visitor.get(path, 400, **wrong)


def test_a_message_is_found_by_its_id_and_its_key_and_has_all_that_it_was_sent_with(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    body = '{"a": [1, 2.50]}'
    sent = {"body": body, "tag": "paid", "keys": [f"{name}/42 ä"], "properties": {"region": "eu"}}
    (stored,) = produce(http, name, sent)
    by_id = visitor.http.get("/messages", params={"id": stored["message_id"]})
    page = visitor.get(by_id.headers["location"])
    for text in ("paid", f"{name}/42 ä", "region", "eu", stored["message_id"]):
        assert text in page
    assert (
        '<pre id="body-json" data-form="json" tabindex="0">{\n  &#34;a&#34;: [\n    1,\n    2.50\n  ]\n}</pre>' in page
    )
    assert "curl -sS -X POST" in page
    by_key = visitor.get("/messages", topic=name, key=f"{name}/42 ä")
    assert f"/messages/{stored['message_id']}" in by_key
    assert "No message of" in visitor.get("/messages", topic=name, key="none")
    assert 'role="alert"' in visitor.get("/messages", 400, topic="no such", key="x")
    visitor.get("/messages/none-1.0", 404)
    kept = visitor.http.get(f"/messages/{stored['message_id']}/body")
    assert kept.content == body.encode()
    assert kept.headers["content-type"] == "application/octet-stream"
    assert kept.headers["content-disposition"].startswith("attachment;")


def test_script_stays_text_wherever_it_stands(visitor: Visitor, http: httpx.Client, name: str) -> None:
    message = {"body": SCRIPT, "tag": SCRIPT, "keys": [SCRIPT], "properties": {"x" + SCRIPT: SCRIPT}}
    (stored,) = produce(http, name, message)
    group = {"subscriptions": [{"topic": name, "type": "tag", "expression": SCRIPT}]}
    member = f"/v1/groups/{name}/members/{quote(SCRIPT.replace('/', ''))}/heartbeat"
    assert http.post(member, json=group).status_code == 200
    pages = [
        visitor.get(f"/topics/{name}/messages"),
        visitor.get(f"/messages/{stored['message_id']}"),
        visitor.get("/messages", topic=name, key=SCRIPT),
        visitor.get("/send", again=stored["message_id"]),
        visitor.get(f"/groups/{name}"),
        visitor.get("/topics", q=SCRIPT),
        visitor.get("/groups", q=SCRIPT),
        visitor.get(f"/topics/{quote(SCRIPT, safe='')}", 404),
        visitor.get(f"/messages/{quote(SCRIPT.replace('/', ''), safe='')}", 404),
        visitor.get("/sign-in", next=f"/{SCRIPT}"),
        visitor.get("/", done=SCRIPT),
        visitor.post("/new-topic", name=SCRIPT, queues=SCRIPT).text,
        visitor.post("/send", topic=SCRIPT, body=SCRIPT, properties=SCRIPT).text,
    ]
    for page in pages:
        assert "<script>alert" not in page
        assert "<img" not in page
    assert sum("&lt;script&gt;" in page for page in pages) >= 8


def test_a_message_is_sent_and_sent_again_as_it_was(visitor: Visitor, http: httpx.Client, name: str) -> None:
    sent = visitor.post(
        "/send", topic=name, body="one\r\ntwo", tag="t", keys="a, b", properties="x=1\r\ny=a=b", ordering_key="k"
    )
    assert "Message stored." in visitor.get(sent.headers["location"])
    bytes_too = {"body": b64encode(b"\x00\xff").decode(), "body_encoding": "base64"}
    (binary,) = produce(http, name, bytes_too)
    form = visitor.get("/send", again=binary["message_id"])
    assert f"{bytes_too['body']}</textarea>" in form
    again = visitor.post("/send", topic=name, **bytes_too)
    assert again.status_code == 303
    one, _, other = pull_all(http, name)
    assert (one["body"], one["tag"], one["keys"], one["ordering_key"]) == ("one\ntwo", "t", ["a", "b"], "k")
    assert one["properties"].items() >= {"x": "1", "y": "a=b"}.items()
    assert {key: other[key] for key in bytes_too} == bytes_too
    for wrong in ({"body_encoding": "base64"}, {"properties": "no value"}, {"delay_s": "soon"}, {"topic": ""}):
        refused = visitor.post("/send", **({"topic": name, "body": "not base64!"} | wrong))
        assert refused.status_code == 400
        assert "not base64!</textarea>" in refused.text
    assert len(pull_all(http, name)) == 3


def test_a_delayed_message_waits(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    sent = visitor.post("/send", topic=name, body="later", delay_s="3600")
    page = visitor.get(sent.headers["location"])
    assert "SCHEDULE_TOPIC_XXXX" in page
    assert "To be delivered" in page
    message_id = sent.headers["location"].removeprefix("/messages/").partition("?")[0]
    due_ms = http.get(f"/v1/messages/{message_id}").json()["deliver_at_ms"]
    assert f'"deliver_at_ms": {due_ms}' in unescape(page)
    assert pull_all(http, name) == []


def test_what_failed_is_copied_as_it_was_sent(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    produce(http, name, {"body": "x", "delay_ms": 300, "properties": {"region": "eu"}})
    wanted = {"topic": name, "max": 1, "invisible_ms": 60_000, "wait_ms": 30_000}
    (out,) = http.post(f"/v1/groups/{name}/receive", json=wanted).json()["messages"]
    nack = {"receipt": out["receipt"], "delay_level": -1, "reason": "no such product"}
    http.post(f"/v1/groups/{name}/nacks", json={"messages": [nack]}).raise_for_status()
    dead = f"/v1/groups/{name}/dead-letters"
    wait_until(lambda: bool(http.get(dead).json()["dead_letters"]))
    (letter,) = http.get(dead).json()["dead_letters"]
    page = unescape(visitor.get(f"/messages/{letter['message_id']}"))
    command = page.partition('id="curl"')[2].partition("</pre>")[0]
    assert f"/v1/topics/{name}/messages" in command
    sent = re.search(r"-d '(.*)'", command)
    assert sent is not None
    (message,) = json.loads(sent[1])["messages"]
    assert abs(message.pop("delay_ms") - 300) < 100
    assert message == {"body": "x", "body_encoding": "utf-8", "properties": {"region": "eu"}}
    again = visitor.get("/send", again=letter["message_id"])
    assert "region=eu</textarea>" in again
    assert "no such product" not in again


def test_a_groups_offsets_move_as_the_preview_said(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    produce(http, name, *[f"{number}" for number in range(10)])
    offsets = {"offsets": [{"topic": name, "queue_id": 0, "offset": 7}]}
    assert http.put(f"/v1/groups/{name}/offsets", json=offsets).status_code == 200
    assert name in visitor.get("/groups", q=name)
    assert "Reset offsets" in visitor.get(f"/groups/{name}")
    preview = f"/groups/{name}/reset?topic={name}&to=earliest"
    assert "It would get 7 messages again." in visitor.get(preview)
    assert http.get(f"/v1/groups/{name}/offsets").json() == offsets
    assert "It would skip 3" in visitor.get(f"/groups/{name}/reset", topic=name, to="latest")
    moved = visitor.post(f"/groups/{name}/reset", preview, topic=name, to="earliest")
    assert went_to(moved) == f"/groups/{name}"
    assert http.get(f"/v1/groups/{name}/offsets").json()["offsets"][0]["offset"] == 0
    visitor.get(f"/groups/{name}/reset", 400, topic=name, to="somewhere")
    visitor.get(f"/groups/{name}/reset", 400, topic=name, to="timestamp", time="never")


def test_a_group_is_paused_resumed_and_deleted(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    assert http.put(f"/v1/groups/{name}", json={"consume_enabled": True}).status_code == 200
    paused = visitor.post(f"/groups/{name}/enabled", f"/groups/{name}/pause", enabled="0")
    assert "paused" in visitor.get(paused.headers["location"])
    assert http.get(f"/v1/groups/{name}").json()["consume_enabled"] is False
    visitor.post(f"/groups/{name}/enabled", f"/groups/{name}", enabled="1")
    assert http.get(f"/v1/groups/{name}").json()["consume_enabled"] is True
    assert visitor.post(f"/groups/{name}/delete", name="other").status_code == 400
    assert went_to(visitor.post(f"/groups/{name}/delete", name=name)) == "/groups"
    assert http.get(f"/v1/groups/{name}").status_code == 404


def test_a_group_with_members_is_not_deleted_and_the_page_says_why(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    assert http.post(f"/v1/groups/{name}/members/c1/heartbeat", json={"subscriptions": []}).status_code == 200
    refused = visitor.post(f"/groups/{name}/delete", name=name)
    assert refused.status_code == 409
    assert "The group has members" in refused.text


def test_the_overview_says_how_brokers_are(visitor: Visitor, gateway: GatewayProcess) -> None:
    page = visitor.get("/")
    for text in ("broker-a", gateway.url, "primary", "What waits", "No jobs are running", "Not in the lake yet"):
        assert text in page


def test_a_form_of_another_page_changes_nothing(visitor: Visitor, console: ConsoleProcess, http: httpx.Client) -> None:
    fields = {"name": "forged", "queues": "1", "permission": "rw", "at": http.base_url.host}
    visitor.get("/topics")
    foreign = Visitor(console.url)
    token = re.search(r'form_token" value="([0-9a-f]+)', foreign.get("/new-topic"))
    foreign.close()
    assert token is not None
    for said in ({}, {"form_token": ""}, {"form_token": "é"}, {"form_token": token[1]}):
        refused = visitor.http.post("/new-topic", data=fields | said)
        assert refused.status_code == 403
        assert "This form was refused" in refused.text
    page = visitor.get("/new-topic")
    own = re.search(r'form_token" value="([0-9a-f]+)', page)
    assert own is not None
    form = fields | {"form_token": own[1]}
    for headers in ({"Origin": "http://evil.test"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert visitor.http.post("/new-topic", data=form, headers=headers).status_code == 403
    assert visitor.http.get("/", headers={"Host": "evil.test"}).status_code == 421
    assert visitor.http.post("/new-topic", json=form).status_code == 400
    assert visitor.http.post("/new-topic", data=form).status_code == 400  # of a broker that nobody knows
    assert http.get("/v1/topics/forged").status_code == 404


def test_a_link_of_another_site_does_not_sign_anybody_out(visitor: Visitor) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    response = visitor.http.get("/topics", headers=headers)
    assert "set-cookie" not in response.headers
    assert 'http-equiv="refresh"' in response.text


def test_a_broker_that_is_dead_is_a_page_that_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with ConsoleProcess(dead) as console:
        visitor = Visitor(console.url)
        for path in ("/", "/topics", "/groups", "/messages/a-1.0", "/topics/x/messages", "/live/overview"):
            page = visitor.get(path, 200 if path == "/" else 503)
            assert "The broker doesn&#39;t answer" in page
            assert dead in page
        visitor.close()
        assert not any("Traceback" in line for line in console.log)


def test_metrics_are_read_with_their_labels() -> None:
    from lakemq.console.looks import read_samples

    text = (
        '# HELP x y\nlakemq_topics 3.0\nlakemq_waiting{kind="de\\"l\\\\ay"} 2.0\nlakemq_a{b="c",d="e"} 1.0\nother 5\n'
    )
    assert read_samples(text) == {"lakemq_topics": {"": 3.0}, "lakemq_waiting": {'de"l\\ay': 2.0}}


def test_events_are_lines_of_a_stream() -> None:
    from lakemq.console.events import Event

    assert Event("page", "<p>\r\n</p>").encode() == b"event: page\ndata: <p>\ndata: </p>\n\n"
    assert Event("numbers", {"in": None}).encode() == b'event: numbers\ndata: {"in": null}\n\n'


def test_dead_letters_are_listed_counted_and_sent_again(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    produce(http, name, *[{"body": f"{number}", "keys": [f"k{number}"]} for number in range(3)])
    wanted = {"topic": name, "max": 3, "invisible_ms": 60_000, "wait_ms": 10_000}
    receipts: list[str] = []
    while len(receipts) < 3:
        answer = http.post(f"/v1/groups/{name}/receive", json=wanted).json()
        receipts += [each["receipt"] for each in answer["messages"]]
    reasons = [f"{SCRIPT} timeout", "card refused", "card refused"]
    nacks = [
        {"receipt": receipt, "delay_level": -1, "reason": reason}
        for receipt, reason in zip(receipts, reasons, strict=True)
    ]
    http.post(f"/v1/groups/{name}/nacks", json={"messages": nacks}).raise_for_status()
    path = f"/groups/{name}/dead-letters"
    while "k2" not in (page := visitor.get(path)):
        pass
    assert page.count("card refused") == 2
    assert "&lt;script&gt;" in page
    assert "<script>alert" not in page
    assert visitor.get(path, reason="TIMEOUT").count("k0") == 1
    assert "No redriven dead letters." in visitor.get(path, state="redriven")
    visitor.get(path, 400, state="undead")
    wrong = visitor.post(path, where="body = ", rate="10")
    assert wrong.status_code == 400
    assert 'value="body ="' in wrong.text
    counted = visitor.post(path, where="failure_text = 'card refused'", rate="10")
    assert "2 dead letters would be sent again" in counted.text
    assert "No redriven dead letters." in visitor.get(path, state="redriven")
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', counted.text))
    sent = visitor.http.post(f"{path}/redrive", data={key: unescape(value) for key, value in hidden.items()})
    assert re.fullmatch(rf"/groups/{name}/redrives/[^/]+", went_to(sent))
    while visitor.get(sent.headers["location"]).count(">redriven<") < 2:
        pass
    assert visitor.get(path).count("card refused") == 0
    assert visitor.get(path, state="").count("card refused") == 2


def test_sql_without_jobs_says_what_to_start(visitor: Visitor, gateway: GatewayProcess) -> None:
    page = visitor.get("/sql")
    assert "No jobs run SQL for this broker" in page
    assert f"lakemq jobs --broker {gateway.url}" in page
    assert "<textarea" not in page
    refused = visitor.post("/sql", "/new-topic", statement="SELECT 1")
    assert refused.status_code == 503
    assert "No jobs run SQL for this broker" in refused.text
