"""Users, what they may do, their tokens, and the audit."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest

from lakemq.console import presets
from lakemq.model.errors import InvalidRequest
from tests.console.visitor import Guarded, Visitor, found, token_of, went_to
from tests.gateway.http_client import TLS

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"
TOKEN = re.compile(r'<pre id="token" tabindex="0">(lmq_[^<]+)</pre>')
HIDDEN = re.compile(r'type="hidden" name="(\w+)" value="([^"]*)"')


@pytest.fixture
def visitor(guarded: Guarded) -> Iterator[Visitor]:
    """The administrator, signed in."""
    made = Visitor(guarded.console.url)
    assert made.sign_in(guarded.admin).status_code == 303
    yield made
    made.close()


@pytest.fixture
def user(name: str, guarded: Guarded) -> str:
    assert guarded.http.put(f"/v1/users/{name}", json={"type": "normal"}).status_code == 201
    return name


def confirm(visitor: Visitor, path: str, page: str, **fields: str) -> httpx.Response:
    """Answer the question that a page asks with yes."""
    hidden = {key: html.unescape(value) for key, value in HIDDEN.findall(page)}
    return visitor.http.post(path, data=hidden | fields)


def policies(guarded: Guarded, user: str) -> list[tuple[str, list[str], str]]:
    answer = guarded.http.get(f"/v1/users/{user}/policies").json()["policies"]
    return [(each["resource"], each["actions"], each["decision"]) for each in answer]


def test_one_form_makes_a_user_who_may_do_what_it_says_and_no_more(
    visitor: Visitor, guarded: Guarded, name: str
) -> None:
    orders, secret = f"orders-{name}", f"secret-{name}"
    for topic in (orders, secret):
        assert guarded.http.put(f"/v1/topics/{topic}", json={"queues": 1}).status_code == 201
    fields = {"name": name, "send_to": orders, "consume": orders, "group": f"billing-{name}", "days": "7"}
    preview = visitor.post("/people/new", **fields)
    assert f"allow Pub, Sub on Topic:{orders}" in preview.text
    assert guarded.http.get(f"/v1/users/{name}").status_code == 404
    made = confirm(visitor, "/people/new/create", preview.text)
    assert made.headers["cache-control"] == "no-store"
    token = found(TOKEN, made.text)
    assert f"/v1/topics/{orders}/messages" in made.text
    assert f"/v1/groups/billing-{name}/receive" in made.text
    assert policies(guarded, name) == [
        (f"Topic:{orders}", ["Pub", "Sub"], "allow"),
        (f"Group:billing-{name}", ["Sub"], "allow"),
    ]
    (kept,) = guarded.http.get(f"/v1/users/{name}/tokens").json()["tokens"]
    assert kept["expires_ms"] - kept["created_ms"] == pytest.approx(7 * 86_400_000, abs=1_000)
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=guarded.gateway.url, headers=headers, trust_env=False, verify=TLS, timeout=60) as http:
        message = {"messages": [{"body": "hello"}]}
        assert http.post(f"/v1/topics/{orders}/messages", json=message).status_code == 200
        assert http.post(f"/v1/topics/{secret}/messages", json=message).status_code == 403
        wanted = {"topic": orders, "max": 1, "wait_ms": 5_000}
        assert http.post(f"/v1/groups/billing-{name}/receive", json=wanted).json()["messages"][0]["body"] == "hello"
        assert http.get("/v1/users").status_code == 403
    twice = confirm(visitor, "/people/new/create", preview.text)
    assert twice.status_code == 400
    assert "lmq_" not in twice.text


def test_a_token_is_shown_once_and_is_in_no_address_page_or_log(visitor: Visitor, guarded: Guarded, user: str) -> None:
    made = visitor.post(f"/people/users/{user}/tokens", f"/people/users/{user}", days="")
    token = found(TOKEN, made.text)
    secret = token.rsplit("_", 1)[1]
    assert "location" not in made.headers
    pages = [visitor.get(each) for each in (f"/people/users/{user}", "/people", "/people/audit")]
    told = [*pages, str(made.headers), str(made.request.url), *guarded.console.log, *guarded.gateway.log]
    assert not any(secret in each for each in told)
    page, token_id = pages[0], token.split("_")[1]
    assert token_id in page
    assert "it is revoked" in page
    revoke = f"/people/users/{user}/tokens/{token_id}/revoke"
    assert token_id in visitor.get(revoke)
    assert len(guarded.http.get(f"/v1/users/{user}/tokens").json()["tokens"]) == 1
    assert went_to(visitor.post(revoke)) == f"/people/users/{user}"
    assert guarded.http.get(f"/v1/users/{user}/tokens").json()["tokens"] == []


def test_policies_are_added_and_removed_after_a_question(visitor: Visitor, guarded: Guarded, user: str) -> None:
    page = f"/people/users/{user}"
    easy = visitor.post(f"{page}/policies/preview", page, consume="orders* paid", group="g")
    assert policies(guarded, user) == []
    assert went_to(confirm(visitor, f"{page}/policies", easy.text)) == page
    deny = {"resource": "Topic:orders-old", "decision": "deny", "action_Sub": "1", "sources": "10.0.0.0/8"}
    other = visitor.post(f"{page}/policies/preview", page, **deny)
    assert "deny Sub on Topic:orders-old from 10.0.0.0/8" in other.text
    confirm(visitor, f"{page}/policies", other.text)
    confirm(visitor, f"{page}/policies", other.text)  # twice is once
    had = [
        ("Topic:orders*", ["Sub"], "allow"),
        ("Topic:paid", ["Sub"], "allow"),
        ("Group:g", ["Sub"], "allow"),
        ("Topic:orders-old", ["Sub"], "deny"),
    ]
    assert policies(guarded, user) == had
    ask = visitor.get(f"{page}/policies/remove", number=1)
    assert "allow Sub on Topic:paid" in ask
    assert policies(guarded, user) == had
    assert went_to(confirm(visitor, f"{page}/policies/remove", ask)) == page
    assert policies(guarded, user) == [had[0], *had[2:]]
    again = confirm(visitor, f"{page}/policies/remove", ask)
    assert again.status_code == 400
    assert "changed these policies in the meantime" in again.text
    visitor.get(f"{page}/policies/remove", 400, number=99)


def test_a_user_is_disabled_enabled_and_deleted(visitor: Visitor, guarded: Guarded, name: str) -> None:
    headers = {"Authorization": f"Bearer {token_of(guarded.http, name, ('Topic:*', ['List']))}"}
    topics, page = f"{guarded.gateway.url}/v1/topics", f"/people/users/{name}"
    assert name in visitor.get("/people", q=name.upper())
    ask = visitor.get(f"{page}/disable")
    assert went_to(confirm(visitor, f"{page}/status", ask)) == page
    assert httpx.get(topics, headers=headers, trust_env=False, verify=TLS, timeout=60).status_code == 403
    assert ">disabled<" in visitor.get(page)
    visitor.post(f"{page}/status", page, status="enabled")
    assert httpx.get(topics, headers=headers, trust_env=False, verify=TLS, timeout=60).status_code == 200
    assert visitor.post(f"{page}/status", page, status="dead").status_code == 400
    assert visitor.post(f"{page}/delete", name="another").status_code == 400
    assert guarded.http.get(f"/v1/users/{name}").status_code == 200
    assert went_to(visitor.post(f"{page}/delete", name=name)) == "/people"
    assert guarded.http.get(f"/v1/users/{name}").status_code == 404
    gone = visitor.http.post(f"{page}/status", data=dict(HIDDEN.findall(ask)))
    assert gone.status_code == 404  # it is not made again
    assert guarded.http.get(f"/v1/users/{name}").status_code == 404


def test_the_tester_says_who_may_and_which_policy_decides(visitor: Visitor, guarded: Guarded, name: str) -> None:
    token = token_of(guarded.http, name, ("Topic:orders*", ["Pub"]))
    asked = {"user": name, "action": "Pub", "resource": "Topic:orders-eu"}
    for each, said in (
        (
            asked,
            f"<strong>Allowed</strong>: Pub on Topic:orders-eu for {name}. Decided by: allow Pub on Topic:orders*.",
        ),
        (asked | {"action": "Sub"}, "<strong>Denied</strong>"),
        (asked | {"resource": "Topix:a"}, "a resource is Kind:name"),
        (asked | {"user": "nobody-here"}, "there is no user"),
    ):
        assert said in visitor.get("/people", **each)
    visitor.sign_in(token)
    mine = visitor.get("/people", action="Pub", resource="Topic:orders-eu")
    assert "<strong>Allowed</strong>: Pub on Topic:orders-eu. Decided by: allow Pub on Topic:orders*." in mine
    assert "<strong>Denied</strong>" in visitor.get("/people", action="Delete", resource="Topic:orders-eu")


def test_who_is_no_administrator_sees_only_himself(visitor: Visitor, guarded: Guarded, name: str) -> None:
    other = f"other-{name}"
    token_of(guarded.http, other, ("Topic:hidden", ["Pub"]))
    visitor.sign_in(token_of(guarded.http, name, ("Topic:mine", ["Pub"])))
    page = visitor.get("/people", user=other, action="Pub", resource="Topic:hidden")
    assert name in page
    assert "Topic:mine" in page
    assert "<strong>Denied</strong>" in page  # he asks of himself alone
    for word in (f"/people/users/{other}", "New user", 'href="/people/audit"'):
        assert word not in page
    for path in (f"/people/users/{other}", f"/people/users/{name}", "/people/audit", f"/people/users/{other}/delete"):
        assert "Not allowed" in visitor.get(path, 403)
    forged = visitor.post(f"/people/users/{other}/delete", "/send", name=other)
    assert forged.status_code == 403
    assert visitor.post("/people/new", "/send", name=f"new-{name}", send_to="x", days="7").status_code == 403
    visitor.get("/people/new", 403)
    assert visitor.post(f"/people/users/{name}/tokens", "/send", days="7").status_code == 403
    assert guarded.http.get(f"/v1/users/{other}").status_code == 200


def test_a_broker_that_asks_everyone_for_a_token_has_no_warning(visitor: Visitor, guarded: Guarded) -> None:
    visitor.sign_in(guarded.admin)
    assert "serves requests without a token" not in visitor.get("/people")


def test_nobody_is_told_to_sign_in(console: object, guarded: Guarded) -> None:
    del guarded
    made = Visitor(getattr(console, "url"))  # noqa: B009 (an open broker's)
    page = made.get("/people")
    assert "You are not signed in" in page
    assert "serves requests without a token" in page
    asked = made.http.get("/people/users/anybody")
    made.close()
    assert asked.status_code == 303
    assert asked.headers["location"].startswith("/sign-in")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "choose what the user may do"),
        ({"name": ""}, "a user needs a name"),
        ({"name": "a b", "send_to": "x"}, "does not match"),
        ({"consume": "orders"}, "a consumer needs a group"),
        ({"group": "g"}, "a group needs topics"),
        ({"send_to": "a/b"}, "a resource&#39;s name consists of"),
        ({"send_to": "x", "days": "8"}, "a token is valid for"),
        ({"send_to": " ".join(f"t{number}" for number in range(51))}, "at most 50 names at once"),
    ],
)
def test_a_form_that_can_not_be_says_why_and_makes_nothing(
    visitor: Visitor, guarded: Guarded, name: str, fields: dict[str, str], said: str
) -> None:
    for path in ("/people/new", "/people/new/create"):
        refused = visitor.post(path, "/people/new", **({"name": name, "days": "7"} | fields))
        assert refused.status_code == 400
        assert said in refused.text
    assert guarded.http.get(f"/v1/users/{name}").status_code == 404


def test_the_audit_is_looked_through_by_who_what_result_and_time(visitor: Visitor, guarded: Guarded, name: str) -> None:
    token = token_of(guarded.http, name, ("Topic:*", ["Create", "Get"]))
    visitor.sign_in(token)
    for number in range(60):
        assert visitor.post("/new-topic", name=f"{name}-{number}", queues="1", permission="rw").status_code == 303
    assert visitor.post(f"/topics/{name}-0/delete", name=f"{name}-0").status_code == 403
    visitor.sign_in(guarded.admin)
    while "Delete on" not in (refused := visitor.get("/people/audit", user=name.upper(), outcome="refused")):
        pass  # refusals hold nobody up, so they come a moment later
    assert refused.count("tag bad") == 1
    first = visitor.get("/people/audit", user=name, what="PUT /v1/topics")
    assert (f"{name}-59" in first, first.count("tag good")) == (True, 50)
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is not None
    second = visitor.get(html.unescape(following[1]))
    assert (f"{name}-0<" in second, second.count("tag good")) == (True, 10)
    assert "No record matches." in visitor.get("/people/audit", user=name, until="2020-01-01T00:00")
    assert "No record matches." in visitor.get("/people/audit", user=name, since="2090-01-01T00:00")
    assert name in visitor.get("/people/audit", user=name, since="2020-01-01T00:00", until="2090-01-01T00:00")
    for wrong in ({"outcome": "maybe"}, {"since": "soon"}, {"before": "x"}):
        visitor.get("/people/audit", 400, **wrong)


def test_script_stays_text_on_every_page_of_people(visitor: Visitor, guarded: Guarded, user: str) -> None:
    httpx.get(f"{guarded.gateway.url}/v1/topics/{quote(SCRIPT, safe='')}", trust_env=False, verify=TLS, timeout=60)
    pages = [
        visitor.get("/people", q=SCRIPT),
        visitor.get("/people", user=SCRIPT, action=SCRIPT, resource=SCRIPT, source=SCRIPT),
        visitor.get(f"/people/users/{quote(SCRIPT, safe='')}", 404),
        visitor.get("/people/new", name=SCRIPT, send_to=SCRIPT, group=SCRIPT),
        visitor.post("/people/new", name=SCRIPT, send_to=SCRIPT).text,
        visitor.post(f"/people/users/{user}/policies/preview", f"/people/users/{user}", resource=SCRIPT).text,
        visitor.post(f"/people/users/{user}/policies/preview", f"/people/users/{user}", consume=SCRIPT).text,
        visitor.get(f"/people/users/{user}/tokens/{quote(SCRIPT.replace('/', ''), safe='')}/revoke", 404),
        visitor.get("/people/audit", user=SCRIPT, what=SCRIPT),
        visitor.get("/people/audit", outcome="refused"),
    ]
    for page in pages:
        assert "<script>alert" not in page
        assert "<img" not in page
    assert sum("&lt;script&gt;" in page for page in pages) >= 7


def test_presets_are_policies_of_one_resource_each() -> None:
    wanted = presets.wanted_of({"send_to": "a,b", "consume": "b c*", "group": "g-*", "look": "1", "sql": "1"})
    assert [str(each) for each in wanted.policies] == [
        "allow Pub on Topic:a",
        "allow Pub, Sub on Topic:b",
        "allow Sub on Topic:c*",
        "allow Sub on Group:g-*",
        "allow Get, List on Topic:*",
        "allow Get, List on Group:*",
        "allow List on Cluster:*",
        "allow Sql on Lake:*",
    ]
    assert (wanted.send_to, wanted.consume, wanted.group) == ("a", "b", "g")
    assert presets.read_policies(presets.write_policies(wanted.policies)) == list(wanted.policies)
    for wrong in ("", "{}", "[1]", "[" * 100_000):
        with pytest.raises(InvalidRequest):
            presets.read_policies(wrong)
