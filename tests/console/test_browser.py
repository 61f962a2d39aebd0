"""The console in a real browser: what only scripts, styles and policies show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from lakemq.testing import GatewayProcess
from tests.console.browser import WAIT_MS, Seen, open_browser
from tests.console.visitor import ConsoleProcess
from tests.gateway.http_client import produce, put_topic

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"
LONG = "a-very-long-name-" * 7
expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def seen(browser: Browser, console: ConsoleProcess) -> Iterator[Seen]:
    made = Seen(browser, console.url)
    yield made
    made.close()
    assert made.wrong == []


@pytest.fixture(scope="module")
def pages(http: httpx.Client) -> list[str]:
    """All pages, of a broker whose names are long and whose messages are scripts."""
    put_topic(http, LONG, 2)
    message = {"body": SCRIPT * 20, "tag": SCRIPT, "keys": [SCRIPT, LONG * 2], "properties": {SCRIPT: "x" * 300}}
    (stored,) = produce(http, LONG, message)
    offsets = {"offsets": [{"topic": LONG, "queue_id": 0, "offset": 0}]}
    assert http.put(f"/v1/groups/{LONG}/offsets", json=offsets).status_code == 200
    topic, group, found = f"/topics/{LONG}", f"/groups/{LONG}", f"/messages/{stored['message_id']}"
    return [
        *("/", "/topics", "/new-topic", "/messages", "/send", "/groups", "/jobs", "/people", "/sign-in"),
        *(topic, f"{topic}/edit", f"{topic}/delete", f"{topic}/messages", found, f"/send?again={stored['message_id']}"),
        *(
            group,
            f"{group}/pause",
            f"{group}/delete",
            f"{group}/dead-letters",
            f"{group}/reset?topic={LONG}&to=earliest",
        ),
    ]


@pytest.mark.parametrize(("width", "scheme"), [(1200, "dark"), (360, "light")])
def test_every_page_loads_as_it_may_runs_no_script_of_others_and_fits(
    browser: Browser, console: ConsoleProcess, pages: list[str], width: int, scheme: str
) -> None:
    seen = Seen(browser, console.url, width, "dark" if scheme == "dark" else "light")
    wide: dict[str, int] = {}
    for path in pages:
        seen.page.goto(path)
        expect(seen.page.locator("main")).to_be_visible()
        if over := seen.overflow():
            wide[path] = over
    seen.close()
    assert (seen.wrong, wide) == ([], {})


def test_one_signs_in_makes_a_topic_and_deletes_it_after_a_question(
    seen: Seen, gateway: GatewayProcess, http: httpx.Client, name: str
) -> None:
    page = seen.page
    page.goto("/topics")
    page.get_by_role("link", name="Sign in").click()
    page.get_by_label("Token").fill(admin_token(http))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    page.get_by_role("navigation").get_by_role("link", name="Topics").click()
    page.get_by_role("link", name="New topic").click()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Queues").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("The topic is made.")
    page.get_by_role("link", name="Delete…").click()
    page.get_by_label("Write its name to confirm").fill(name)
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_role("status")).to_contain_text("It is deleted.")
    assert http.get(f"/v1/topics/{name}").status_code == 404


def admin_token(http: httpx.Client) -> str:
    """The administrator's, as the gateway says where it is."""
    refused = httpx.get(f"{http.base_url}/v1/users", trust_env=False)
    return Path(refused.json()["token_file"]).read_text("ascii").strip()


def test_messages_come_as_they_are_sent_and_a_body_is_shown_in_each_form(
    seen: Seen, http: httpx.Client, name: str
) -> None:
    put_topic(http, name)
    page = seen.page
    page.goto(f"/topics/{name}/messages")
    expect(page.locator("[data-live-state]")).to_have_text("Live")
    produce(http, name, {"body": '{"text": "' + SCRIPT.replace('"', "'") + '"}', "keys": ["k"]})
    row = page.locator("tr.fresh")
    expect(row).to_contain_text("<script>alert(1)</script>")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("[data-live-state]")).to_have_text("Paused")
    row.get_by_role("link").click()
    expect(page.locator("#body-json")).to_contain_text('"text": "<script>')
    page.locator("[data-shows]").select_option("hex")
    expect(page.locator("#body-hex")).to_be_visible()
    expect(page.locator("#body-json")).to_be_hidden()
    page.locator("[data-copy=curl]").click()
    expect(page.locator("[data-copy=curl]")).to_have_text("Copied")
    assert "curl -sS -X POST" in page.evaluate("navigator.clipboard.readText()")


def test_a_search_goes_on_while_one_writes(seen: Seen, http: httpx.Client, name: str) -> None:
    for each in ("one", "two"):
        put_topic(http, f"{name}-{each}")
    page = seen.page
    page.goto("/topics")
    page.get_by_label("Search").press_sequentially(f"{name}-t")
    expect(page.locator("#list tbody tr")).to_have_count(1)
    expect(page.locator("#list")).to_contain_text(f"{name}-two")
    expect(page).to_have_url(re.compile(rf"q={name}-t"))


def test_the_overview_goes_on_and_draws_its_chart(seen: Seen) -> None:
    seen.page.goto("/")
    expect(seen.page.locator("[data-live-state]")).to_have_text("Live")
    expect(seen.page.locator(".chart canvas")).to_be_visible()
    seen.page.keyboard.press("Tab")
    expect(seen.page.get_by_role("link", name="To the content")).to_be_focused()
