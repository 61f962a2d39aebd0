"""The console in a real browser: what only scripts, styles and policies show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from lakemq.testing import GatewayProcess, start_gateway
from tests.console.browser import WAIT_MS, Seen, open_browser, said_by
from tests.console.visitor import ConsoleProcess
from tests.gateway.http_client import connect, produce, put_topic
from tests.gateway.routing.asking import begin, wait_until
from tests.model.protobuf_files import files_of, schema_of

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
    produce(http, LONG, message | {"delay_ms": 3_600_000})
    begin(http, LONG, SCRIPT, group=LONG)
    offsets = {"offsets": [{"topic": LONG, "queue_id": 0, "offset": 0}]}
    assert http.put(f"/v1/groups/{LONG}/offsets", json=offsets).status_code == 200
    nack = {"message_id": stored["message_id"], "delay_level": -1, "reason": SCRIPT + "x" * 300}
    http.post(f"/v1/groups/{LONG}/nacks", json={"messages": [nack]}).raise_for_status()
    wait_until(lambda: bool(http.get(f"/v1/groups/{LONG}/dead-letters").json()["dead_letters"]))
    schema = {"type": "object", "properties": {SCRIPT: {"type": "integer"}, LONG: {"type": "string"}}}
    assert http.put(f"/v1/topics/{LONG}/schema", json={"schema": schema}).status_code == 200
    topic, group, found = f"/topics/{LONG}", f"/groups/{LONG}", f"/messages/{stored['message_id']}"
    return [
        *("/", "/topics", "/new-topic", "/messages", "/send", "/groups", "/jobs", "/people", "/sign-in", "/sql"),
        "/waiting?span=all",
        f"/messages?{urlencode({'topic': LONG, 'tag': SCRIPT, 'text': SCRIPT})}",
        *(f"{topic}/schema", f"{topic}/schema/new", f"{topic}/schema/drop"),
        *(topic, f"{topic}/queues", f"{topic}/edit", f"{topic}/delete", f"{topic}/messages", found),
        f"/send?again={stored['message_id']}",
        *(
            group,
            f"{group}/pause",
            f"{group}/delete",
            *(f"{group}/dead-letters", f"{group}/dead-letters/causes", "/dead-letters", "/dead-letters/causes"),
            f"{group}/reset?topic={LONG}&to=earliest",
        ),
    ]


@pytest.mark.parametrize(("width", "scheme"), [(1200, "dark"), (360, "light")])
def test_every_page_loads_as_it_may_runs_no_script_of_others_fits_and_is_for_everybody(
    browser: Browser, console: ConsoleProcess, pages: list[str], width: int, scheme: str
) -> None:
    seen = Seen(browser, console.url, width, "dark" if scheme == "dark" else "light")
    wide: dict[str, int] = {}
    hard: dict[str, list[str]] = {}
    for path in pages:
        seen.page.goto(path)
        expect(seen.page.locator("main")).to_be_visible()
        seen.settle()
        if over := seen.overflow():
            wide[path] = over
        if found := seen.hard_to_use():
            hard[path] = found
    seen.close()
    assert (seen.wrong, wide, hard) == ([], {}, {})


def test_a_page_that_is_hard_to_use_is_noticed(seen: Seen) -> None:
    seen.page.goto("/sign-in")
    assert seen.hard_to_use() == []
    seen.page.evaluate("""() => {
      const faint = document.createElement("p");
      faint.textContent = "hardly there";
      faint.style.color = "rgb(200 200 200 / 50%)";
      const silent = document.createElement("input"), skipped = document.createElement("button");
      skipped.textContent = "skipped";
      skipped.tabIndex = -1;
      document.querySelector("main").append(faint, silent, skipped);
    }""")
    faint, *rest = seen.hard_to_use()
    assert faint.startswith("hardly there: 1.")
    assert rest == ["no name: <input>", 'no turn: <button tabindex="-1">skipped</button>']


def test_a_group_is_found_and_its_offsets_moved_without_a_mouse(seen: Seen, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    produce(http, name, "a", "b")
    content = {"offsets": [{"topic": name, "queue_id": 0, "offset": 2}]}
    http.put(f"/v1/groups/{name}/offsets", json=content).raise_for_status()
    page = seen.page
    page.goto("/")

    def tab_to(target: Locator) -> None:
        for _ in range(100):
            page.keyboard.press("Tab")
            if target.evaluate("each => each === document.activeElement"):
                outline = target.evaluate("each => getComputedStyle(each).outlineStyle")
                assert outline != "none", "nothing shows where one is"
                return
        raise AssertionError(f"Tab never comes to {target}")

    tab_to(page.get_by_role("navigation").get_by_role("link", name="Groups"))
    page.keyboard.press("Enter")
    tab_to(page.get_by_role("searchbox"))
    page.keyboard.type(name)
    expect(page.locator("#list tbody tr")).to_have_count(1)
    tab_to(page.get_by_role("link", name=name))
    page.keyboard.press("Enter")
    tab_to(page.get_by_role("button", name="Preview"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("It would get 2 messages again.")).to_be_visible()
    tab_to(page.get_by_role("button", name="Move the offsets"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("Offsets reset.")
    assert http.get(f"/v1/groups/{name}/offsets").json()["offsets"][0]["offset"] == 0


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
    expect(page.get_by_role("status")).to_contain_text("Topic created.")
    expect(page.locator("#queues[hx-get]")).to_have_count(0)  # those at all brokers have taken its place
    expect(page.get_by_role("region", name="Queues").locator("tbody tr")).to_have_count(4)
    page.get_by_role("link", name="Delete…").click()
    page.get_by_label("Type its name to confirm").fill(name)
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_role("status")).to_contain_text("Deleted.")
    assert http.get(f"/v1/topics/{name}").status_code == 404


def admin_token(http: httpx.Client) -> str:
    """The administrator's, as the gateway says where it is."""
    refused = httpx.get(f"{http.base_url}/v1/users", trust_env=False, timeout=60)
    return Path(refused.json()["token_file"]).read_text("ascii").strip()


def copied(page: Page, begins: str) -> bool:
    """Whether the clipboard has a text that begins so."""
    return page.evaluate("navigator.clipboard.readText()").startswith(begins)


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
    for form, begins in (("hex", "00000000  7b"), ("text", '{"text": "<script>'), ("json", '{\n  "text"')):
        page.locator("[data-shows]").select_option(form)
        page.locator("[data-copy='']").click()
        wait_until(partial(copied, page, begins))
    assert said_by(page.locator("[data-copy=curl]")) == "Copied"
    assert "curl -sS -X POST" in page.evaluate("navigator.clipboard.readText()")


def test_a_schema_is_written_looked_at_and_set(seen: Seen, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    produce(http, name, '{"id": 1, "at": "2026-11-26T10:00:00Z"}')
    page = seen.page
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(f"/topics/{name}/schema")
    page.get_by_role("link", name="Infer from messages").click()
    expect(page.get_by_role("status")).to_contain_text("Proposed from the newest 1 message.")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="Columns")).to_contain_text("timestamp")
    assert seen.overflow() == 0
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Schema", exact=True).fill('{"properties": {"id": {"type": "integer"}}}')
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Set it").click()
    expect(page.get_by_role("status")).to_contain_text("Schema set.")
    page.get_by_role("link", name="Query it").click()
    expect(page).to_have_url(re.compile(r"/sql#SELECT%20"))


def test_a_schema_is_taken_from_a_file(seen: Seen, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    page = seen.page
    page.goto(f"/topics/{name}/schema/new")
    chosen, text, language = page.get_by_label("Schema from a file"), page.locator("#text"), page.locator("#type")

    def choose(file: str, content: bytes) -> str:
        chosen.set_input_files({"name": file, "mimeType": "application/octet-stream", "buffer": content})
        return page.evaluate("document.getElementById('file').validationMessage")

    choose("reading.avsc", b'{"type": "record", "name": "R", "fields": []}')
    expect(text).to_have_value('{"type": "record", "name": "R", "fields": []}')
    expect(language).to_have_value("avro")
    files = files_of("shop", Order={"id": "1 int64"})
    wait_until(lambda: "protoc" in choose("order.proto", b"message Order {}"))
    wait_until(lambda: "larger than a schema may be" in choose("order.json", b" " * 300_000))
    expect(text).to_have_value('{"type": "record", "name": "R", "fields": []}')
    text.fill("{}")
    assert page.evaluate("document.getElementById('file').validationMessage") == ""
    choose("order.binpb", files.SerializeToString())
    expect(language).to_have_value("protobuf")
    expect(text).to_have_value(json.dumps(schema_of(files, ""), indent=2))
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="Columns")).to_contain_text("bigint")
    page.get_by_role("button", name="Set it").click()
    expect(page.get_by_role("status")).to_contain_text("Schema set.")
    assert json.loads(http.get(f"/v1/topics/{name}/schema").json()["schema"]) == schema_of(files, "shop.Order")


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
    expect(seen.page.get_by_role("link", name="Skip to content")).to_be_focused()


def test_a_search_finds_a_message_whose_page_says_why_it_was_not_delivered(
    seen: Seen, http: httpx.Client, name: str
) -> None:
    put_topic(http, name)
    produce(http, name, {"body": "one", "tag": "a"}, {"body": SCRIPT, "tag": "b", "properties": {"x": SCRIPT}})
    content = {"offsets": [{"topic": name, "queue_id": 0, "offset": 0}]}
    http.put(f"/v1/groups/{name}/offsets", json=content).raise_for_status()
    page = seen.page
    page.goto("/messages")
    page.get_by_label("Topic").fill(name)
    page.get_by_label("Property").fill(f"x={SCRIPT}")
    page.get_by_role("button", name="Search").click()
    row = page.get_by_label("Found").get_by_role("link", name="<script>")
    expect(row).to_have_count(1)
    row.click()
    life = page.get_by_label("History of this message")
    expect(life).to_contain_text(f"{name} The group has no consumers now: it is at offset 0, this is at 1.")
    expect(life.get_by_role("listitem").last).to_contain_text("Stored")
    assert seen.overflow() == 0


def test_dead_letters_are_ticked_sent_and_kept(seen: Seen, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    produce(http, name, *[{"body": f"{number}", "keys": [f"k{number}"]} for number in range(2)])
    wanted = {"topic": name, "max": 1, "invisible_ms": 60_000, "wait_ms": 10_000}
    for _ in range(2):
        (out,) = http.post(f"/v1/groups/{name}/receive", json=wanted).json()["messages"]
        nack = {"receipt": out["receipt"], "delay_level": -1, "reason": SCRIPT + " and so on" * 20}
        http.post(f"/v1/groups/{name}/nacks", json={"messages": [nack]}).raise_for_status()
    wait_until(lambda: len(http.get(f"/v1/groups/{name}/dead-letters").json()["dead_letters"]) == 2)
    page = seen.page
    page.goto(f"/groups/{name}/dead-letters")
    # Beside a long reason a state is still one line.
    assert page.locator(".tag").first.evaluate("tag => tag.getClientRects()[0].height < 30")
    with page.expect_download() as kept:
        page.get_by_role("link", name="CSV").click()
    assert "<script>alert(1)</script>" in Path(kept.value.path()).read_text("utf-8")
    page.get_by_role("checkbox").first.check()
    page.get_by_role("button", name="Send again…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("1 dead letter would be sent again")
    page.get_by_role("button", name="Send them").click()
    expect(page.locator("#progress")).to_contain_text("redriven")
    page.goto(f"/groups/{name}/dead-letters")
    expect(page.get_by_role("checkbox")).to_have_count(1)
    page.get_by_role("button", name="Discard…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("1 dead letter would be discarded")
    page.get_by_role("button", name="Discard them").click()
    expect(page.get_by_text("The dead letters are discarded.")).to_be_visible()
    expect(page.get_by_role("checkbox")).to_have_count(0)


@pytest.mark.parametrize("width", [1200, 360])
def test_dead_letters_at_another_broker_are_opened_there(
    browser: Browser, http: httpx.Client, gateway: GatewayProcess, tmp_path: Path, name: str, width: int
) -> None:
    with (
        start_gateway(tmp_path / "data", broker__name="broker-b") as other,
        connect(other) as second,
        ConsoleProcess(gateway.url, other.url) as console,
    ):
        ids = [each["message_id"] for each in produce(second, LONG, *["x"] * 3)]
        nacks = [{"message_id": each, "delay_level": -1, "reason": f"{SCRIPT} {name}"} for each in ids]
        second.post(f"/v1/groups/{LONG}/nacks", json={"messages": nacks}).raise_for_status()
        wait_until(lambda: len(second.get(f"/v1/groups/{LONG}/dead-letters").json()["dead_letters"]) == 3)
        seen = Seen(browser, console.url, width)
        page = seen.page
        link = page.get_by_label("Causes").get_by_role("link", name=f"{SCRIPT} {name}")

        def is_told() -> bool:  # figures are looked at now and then
            page.goto("/dead-letters")
            page.get_by_label("Causes").or_(page.get_by_text("No group that you may see")).wait_for()
            return link.is_visible()

        wait_until(is_told)
        assert (seen.overflow(), seen.hard_to_use()) == (0, [])
        link.click()
        expect(page).to_have_url(re.compile(f"/groups/{LONG}/dead-letters"))
        expect(page.get_by_role("checkbox")).to_have_count(3)
        assert (seen.overflow(), seen.hard_to_use()) == (0, [])
        page.get_by_label("Dead letters of broker-b").get_by_role("row").nth(1).get_by_role("button").click()
        expect(page).to_have_url(re.compile("/messages/broker-b"))
        expect(page.get_by_label("Broker")).to_have_value(other.url)
        seen.close()
        assert seen.wrong == []


def test_a_groups_lag_is_drawn_while_its_page_is_open(seen: Seen, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    content = {"offsets": [{"topic": name, "queue_id": 0, "offset": 0}]}
    http.put(f"/v1/groups/{name}/offsets", json=content).raise_for_status()
    seen.page.goto(f"/groups/{name}")
    expect(seen.page.locator("[data-live-state]")).to_have_text("Live")
    expect(seen.page.locator("#lag-before")).to_have_text("No jobs answer SQL, so the lake wasn't read.")
    produce(http, name, "x", "x")
    expect(seen.page.locator(".chart canvas")).to_be_visible()
    expect(seen.page.locator(".figures")).to_contain_text("Lag2")


def test_a_scheduled_message_is_ticked_and_recalled_after_a_question(seen: Seen, http: httpx.Client, name: str) -> None:
    put_topic(http, name)
    keep, recall = produce(
        http, name, *[{"body": "x", "delay_ms": ms, "keys": [SCRIPT]} for ms in (600_000, 1_200_000)]
    )
    page = seen.page
    page.goto(f"/waiting?topic={name}&span=1h")
    expect(page.locator(".chart canvas")).to_be_visible()
    expect(page.get_by_role("form", name="Scheduled messages").locator("tbody tr")).to_have_count(2)
    page.get_by_text("As a table").click()
    expect(page.get_by_role("region", name="Due times").locator("tbody tr").first).to_be_visible()
    page.get_by_label(f"Recall {recall['message_id']}").press("Space")
    page.get_by_role("button", name="Recall ticked messages…").press("Enter")
    expect(page.get_by_role("heading", name="Recall 1 message?")).to_be_visible()
    page.get_by_role("button", name="Recall", exact=True).click()
    expect(page.get_by_role("heading", name="1 of 1 recalled")).to_be_visible()
    page.goto(f"/waiting?topic={name}")
    expect(page.get_by_label("Recall ")).to_have_count(1)
    assert http.delete(f"/v1/messages/{keep['message_id']}").status_code == 200
