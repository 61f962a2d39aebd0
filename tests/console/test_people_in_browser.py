"""A second user with few rights, in a real browser: made by an administrator, who passes on a token that works."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.console.browser import Seen, open_browser, said_by
from tests.console.visitor import Guarded
from tests.gateway.http_client import TLS

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def seen(browser: Browser, guarded: Guarded) -> Iterator[Seen]:
    made = Seen(browser, guarded.console.url)
    sign_in(made, guarded.admin)
    yield made
    made.close()
    assert made.wrong == []


def sign_in(seen: Seen, token: str) -> None:
    seen.page.goto("/sign-in")
    seen.page.get_by_label("Token").fill(token)
    seen.page.get_by_role("button", name="Sign in").click()
    expect(seen.page.get_by_role("button", name="Sign out")).to_be_visible()


def test_a_user_with_few_rights_is_made_and_uses_the_token_that_was_copied(
    seen: Seen, guarded: Guarded, name: str
) -> None:
    page = seen.page
    page.get_by_role("navigation").get_by_role("link", name="People").click()
    page.get_by_role("link", name="New user").click()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Send to topics").fill(f"orders-{name}")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("main")).to_contain_text(f"allow Pub on Topic:orders-{name}")
    page.get_by_role("button", name="Create the user").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{name} is ready")
    assert said_by(page.locator("[data-copy=token]")) == "Copied"
    token = page.evaluate("navigator.clipboard.readText()")
    assert token.startswith("lmq_")
    assert token not in page.url
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=guarded.gateway.url, headers=headers, trust_env=False, verify=TLS, timeout=60) as http:
        assert http.post(f"/v1/topics/orders-{name}/messages", content="hello").status_code == 200
        assert http.post("/v1/topics/other/messages", content="hello").status_code == 403
    page.get_by_role("link", name=f"To {name}").click()
    expect(page.locator("main")).not_to_contain_text(token)
    page.get_by_role("link", name="Revoke…").click()
    page.get_by_role("button", name="Revoke it").click()
    expect(page.get_by_role("status")).to_contain_text("The token is revoked.")
    refused = httpx.get(f"{guarded.gateway.url}/v1/access", headers=headers, trust_env=False, verify=TLS, timeout=60)
    assert refused.status_code == 401


def test_pages_of_people_fit_a_phone_run_no_script_of_others_and_are_for_everybody(
    browser: Browser, guarded: Guarded, name: str
) -> None:
    guarded.http.put(f"/v1/users/{name}", json={"type": "super"}).raise_for_status()
    long = [{"resource": f"Topic:{'x' * 120}*", "actions": ["Pub", "Sub", "Get"], "sources": ["2001:db8::/32"]}]
    guarded.http.put(f"/v1/users/{name}/policies", json={"policies": long}).raise_for_status()
    guarded.http.post(f"/v1/users/{name}/tokens", json={}).raise_for_status()
    httpx.get(f"{guarded.gateway.url}/v1/groups/{'g' * 120}", trust_env=False, verify=TLS, timeout=60)
    page = f"/people/users/{name}"
    narrow = Seen(browser, guarded.console.url, 360, "dark")
    sign_in(narrow, guarded.admin)
    wide: dict[str, int] = {}
    hard: dict[str, list[str]] = {}
    for path in (
        *("/people", "/people/new", "/people/audit", "/jobs", page, f"{page}/delete", f"{page}/disable"),
        f"{page}/policies/remove?number=0",
        f"/people?user={SCRIPT}&action=Pub&resource=Topic:{SCRIPT}",
    ):
        narrow.page.goto(path)
        expect(narrow.page.locator("main")).to_be_visible()
        narrow.settle()
        if over := narrow.overflow():
            wide[path] = over
        if found := narrow.hard_to_use():
            hard[path] = found
    narrow.close()
    assert (narrow.wrong, wide, hard) == ([], {}, {})
