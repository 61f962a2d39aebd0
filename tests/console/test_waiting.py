"""What waits, as a browser without scripts has it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape

import httpx
import pytest

from tests.console.visitor import ConsoleProcess, Visitor, went_to
from tests.gateway.access.asking import allow, make_user
from tests.gateway.http_client import produce, pull_all, put_topic
from tests.gateway.routing.asking import begin, half_id, wait_until

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"
HOUR_MS = 3_600_000


@pytest.fixture
def other(console: ConsoleProcess) -> Iterator[Visitor]:
    made = Visitor(console.url)
    yield made
    made.close()


def test_what_is_due_next_is_shown_as_text_with_when_and_on_a_time_axis(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    put_topic(http, name)
    message = {"body": "x", "tag": SCRIPT, "keys": [SCRIPT]}
    late, soon = produce(http, name, *[message | {"delay_ms": hours * HOUR_MS} for hours in (9, 3)])
    page = visitor.get("/waiting", topic=name)
    assert page.index(soon["message_id"]) < page.index(late["message_id"])
    assert "&lt;script&gt;" in page
    assert "<script>alert" not in page
    plot = re.search(r'data-plot="([^"]+)"', page)
    assert plot is not None
    times, counts = json.loads(unescape(plot[1]))
    assert (times["kind"], len(times["values"])) == ("time", len(counts["values"]))
    assert sum(counts["values"]) >= 2
    assert f"id-{soon['message_id']}" in visitor.get("/waiting", topic=name, span="all")
    assert "No message waits" in visitor.get("/waiting", topic=f"{name}-other")
    visitor.get("/waiting", 400, span="never")
    visitor.get("/waiting", 400, after="x")


def test_pages_of_what_waits_lead_on(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    produce(http, name, *[{"body": "x", "delay_ms": HOUR_MS + number} for number in range(60)])
    first = visitor.get("/waiting", topic=name)
    assert first.count('type="checkbox"') == 50
    following = re.search(r'rel="next" href="([^"]+)">Later ones', first)
    assert following is not None
    second = visitor.get(unescape(following[1]))
    assert second.count('type="checkbox"') == 10
    assert "First page" in second
    assert "Later ones" not in second


def test_messages_are_recalled_once_that_is_confirmed_and_each_result_is_shown(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    put_topic(http, name)
    sent = produce(http, name, *[{"body": f"body {number}", "delay_ms": HOUR_MS} for number in range(2)])
    now = produce(http, name, "now")[0]["message_id"]
    ids = [each["message_id"] for each in sent]
    ticked = {f"id-{each}": "1" for each in (*ids, now)}
    asked = visitor.post("/waiting/recall", "/waiting", **ticked)
    assert asked.status_code == 200
    assert "Recall 3 messages?" in asked.text
    assert "body 1" in asked.text
    assert len(json.loads(http.get("/v1/scheduled", params={"topic": name}).text)["messages"]) == 2
    done = visitor.post("/waiting/recalled", "/waiting", **ticked)
    assert "2 of 3 recalled" in done.text
    assert "is not a scheduled one" in done.text
    assert http.get("/v1/scheduled", params={"topic": name}).json()["messages"] == []
    for fields in ({}, {"id": "x" * 301}, {f"id-{number}": "1" for number in range(51)}):
        assert visitor.post("/waiting/recall", "/waiting", **fields).status_code == 400
    assert visitor.http.post("/waiting/recalled", data=ticked).status_code == 403
    wrong = visitor.post("/waiting/recalled", "/waiting", id=SCRIPT)
    assert "0 of 1 recalled" in wrong.text
    assert "<script>alert" not in wrong.text


def test_open_transactions_are_shown_without_their_secret_ids(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    (opened,) = begin(http, name, "half", group=name)
    page = visitor.get("/waiting", topic=name)
    transactions = page.partition('aria-label="Open transactions"')[2]
    assert transactions.count(f"<span>{name}</span>") == 2
    assert "0 of 15" in transactions
    assert opened not in page


def test_an_open_transaction_is_committed_or_rolled_back_after_a_question(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    put_topic(http, name)
    halves = [half_id(each) for each in begin(http, name, "kept", "dropped", group=name)]
    page = visitor.get("/waiting", topic=name)
    assert page.count("Commit…</button>") == 2
    for half, resolution, question in zip(
        halves, ("commit", "rollback"), ("Commit this", "Roll back this"), strict=True
    ):
        fields = {"half_id": half, "group": name, "topic": name, "resolution": resolution}
        asked = visitor.post("/waiting/transaction", "/waiting", **fields)
        assert question in asked.text
        assert half in asked.text
    assert len(http.get("/v1/transactions", params={"topic": name}).json()["transactions"]) == 2
    for half, resolution in zip(halves, ("commit", "rollback"), strict=True):
        fields = {"half_id": half, "group": name, "resolution": resolution}
        done = visitor.post("/waiting/transaction/end", "/waiting", **fields)
        assert went_to(done) == "/waiting"
    assert http.get("/v1/transactions", params={"topic": name}).json()["transactions"] == []
    wait_until(lambda: [each["body"] for each in pull_all(http, name)] == ["kept"])
    ended = {"half_id": halves[0], "group": name, "resolution": "commit"}
    assert went_to(visitor.post("/waiting/transaction/end", "/waiting", **ended)) == "/waiting"  # again is no other end
    opposite = visitor.post("/waiting/transaction/end", "/waiting", **(ended | {"resolution": "rollback"}))
    assert (opposite.status_code, "other outcome" in opposite.text) == (409, True)
    for wrong in ({}, {"resolution": "unknown"}, {"half_id": SCRIPT, "group": SCRIPT, "resolution": "commit"}):
        refused = visitor.post("/waiting/transaction/end", "/waiting", **wrong)
        assert refused.status_code in (400, 404)
        assert SCRIPT not in refused.text


def test_messages_are_recalled_by_a_predicate_once_they_were_counted(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    put_topic(http, name)
    tags = ["a", "b", "a", SCRIPT]
    sent = produce(http, name, *[{"body": str(at), "tag": tag, "delay_ms": HOUR_MS} for at, tag in enumerate(tags)])
    fields = {"topic": name, "where": "tag = 'a' AND body < 2"}
    counted = visitor.post("/waiting/matching", "/waiting", **fields)
    assert "Recall 1 message?" in counted.text
    assert sent[0]["message_id"] in counted.text
    assert "Recall 3 messages?" in visitor.post("/waiting/matching", "/waiting", topic=name, where="body <> 1").text
    none = visitor.post("/waiting/matching", "/waiting", topic=name, where="tag = 'c'")
    assert "None can be recalled" in none.text
    assert "Recall</button>" not in none.text
    for wrong in ("", "tag =", SCRIPT):
        refused = visitor.post("/waiting/matching", "/waiting", topic=name, where=wrong)
        assert refused.status_code == 400
        assert 'role="alert"' in refused.text
        assert SCRIPT not in refused.text
    assert len(http.get("/v1/scheduled", params={"topic": name}).json()["messages"]) == 4
    done = visitor.post("/waiting/matching/recalled", "/waiting", topic=name, where="tag = 'a'")
    assert "2 of 2 recalled" in done.text
    left = http.get("/v1/scheduled", params={"topic": name}).json()["messages"]
    assert [each["message_id"] for each in left] == [sent[1]["message_id"], sent[3]["message_id"]]
    assert (
        "0 of 0 recalled" in visitor.post("/waiting/matching/recalled", "/waiting", topic=name, where="tag = 'a'").text
    )


def test_a_predicate_recalls_no_more_than_one_may(other: Visitor, http: httpx.Client, name: str) -> None:
    reads, sends, group = f"{name}-reads", f"{name}-sends", f"{name}-group"
    for each in (name, reads, sends):
        put_topic(http, each)
        produce(http, each, {"body": "x", "tag": name, "delay_ms": HOUR_MS})
    begin(http, name, "half", group=group)
    policies = (allow(f"Topic:{name}", "Sub", "Pub"), allow(f"Topic:{reads}", "Sub"), allow(f"Topic:{sends}", "Pub"))
    other.sign_in(make_user(http, f"{name}-user", *policies))
    page = other.get("/waiting")
    assert "Commit…" not in page
    counted = other.post("/waiting/matching", "/waiting", where=f"tag = '{name}'")
    assert "Recall 1 message?" in counted.text
    assert "1 more match, but you can't recall them" in counted.text
    assert "Recall by a predicate" not in other.get("/waiting", topic=reads)
    half = http.get("/v1/transactions", params={"topic": name}).json()["transactions"][0]["half_id"]
    fields = {"half_id": half, "group": group, "resolution": "commit"}
    assert other.post("/waiting/transaction/end", "/waiting", **fields).status_code == 403
    assert "1 of 1 recalled" in other.post("/waiting/matching/recalled", "/waiting", where=f"tag = '{name}'").text
    for each, count in ((name, 0), (reads, 1), (sends, 1)):
        assert len(http.get("/v1/scheduled", params={"topic": each}).json()["messages"]) == count


def test_a_user_with_few_rights_sees_and_recalls_what_he_may(other: Visitor, http: httpx.Client, name: str) -> None:
    secret = f"{name}-secret"
    for each in (name, secret):
        put_topic(http, each)
    (mine,), (hidden,) = (produce(http, each, {"body": "x", "delay_ms": HOUR_MS}) for each in (name, secret))
    begin(http, name, "half", group=f"{name}-group")
    token = make_user(http, f"{name}-user", allow(f"Topic:{name}", "Sub"))
    other.sign_in(token)
    page = other.get("/waiting")
    assert mine["message_id"] in page
    assert secret not in page
    assert f"{name}-group" not in page
    assert "You need <code>List</code> or <code>Get</code> on the cluster" in page
    assert "Recall ticked messages" not in page
    asked = other.post("/waiting/recall", "/waiting", **{f"id-{mine['message_id']}": "1"})
    assert f"you need Pub on the topic {name}." in asked.text
    refused = other.post(
        "/waiting/recalled", "/waiting", **{f"id-{each['message_id']}": "1" for each in (mine, hidden)}
    )
    assert "0 of 2 recalled" in refused.text
    assert len(http.get("/v1/scheduled", params={"topic": secret}).json()["messages"]) == 1
