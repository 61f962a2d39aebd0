"""The console's page of SQL, over a real server of it, in a browser and without."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, expect

from lakemq.console.asked import Broker
from lakemq.console.histories import history_of
from lakemq.console.lake_life import with_lake
from lakemq.console.sql_examples import EXAMPLES
from lakemq.model.life import life_of
from lakemq.wire.credentials import Credentials
from tests.console.browser import Seen, open_browser
from tests.console.visitor import ConsoleProcess, Visitor
from tests.jobs.served.scene import WAIT_S, Scene
from tests.jobs.served.test_bounds import LONG
from tests.jobs.served.test_sql_by_client import name_jobs

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"
WAIT_MS = WAIT_S * 1000
COUNTS = "SELECT topic, count(*) AS messages FROM messages WHERE NOT is_system(topic) GROUP BY topic ORDER BY topic"


@pytest.fixture(scope="module")
def console(scene: Scene) -> Iterator[ConsoleProcess]:
    name_jobs(scene, scene.server.url)
    with ConsoleProcess(scene.gateway.url) as process:
        yield process


@pytest.fixture
def visitor(console: ConsoleProcess) -> Iterator[Visitor]:
    made = Visitor(console.url)
    made.http.timeout = httpx.Timeout(WAIT_S)
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def seen(browser: Browser, console: ConsoleProcess) -> Iterator[Seen]:
    expect.set_options(timeout=WAIT_MS)
    made = Seen(browser, console.url)
    yield made
    made.close()
    assert made.wrong == []


def ask(visitor: Visitor, statement: str, **fields: str) -> httpx.Response:
    """Run it, as a browser without scripts does."""
    return visitor.post("/sql", "/sql", statement=statement, **{"seconds": "300"} | fields)


def test_the_catalog_has_the_tables_that_one_may_ask_with_their_columns(scene: Scene) -> None:
    with httpx.Client(trust_env=False, timeout=WAIT_S) as http:

        def said(user: str) -> httpx.Response:
            return http.get(f"{scene.server.url}/v1/sql", headers={"Authorization": f"Bearer {scene.tokens[user]}"})

        everything = said("admin").json()
        tables = {each["table"]: {one["name"]: one["type"] for one in each["columns"]} for each in everything["tables"]}
        assert {"messages", "live.messages", "dead_letters", "audit", "live.topics"} <= tables.keys()
        assert tables["live.messages"]["position"] == "bigint"
        assert tables["messages"].keys() == tables["live.messages"].keys()
        assert everything["bounds"]["rows_max"] == 100_000
        assert everything["complete"] is True
        # Other tests' topics are tables in the session's catalog too, and some of them are named as hers are.
        named = [each["table"] for each in said("ines").json()["tables"]]
        assert [each for each in named if not each.startswith(("topics.", "topic_"))] == ["messages", "live.messages"]
        assert said("nobody").json()["tables"] == []
        unknown = http.get(f"{scene.server.url}/v1/sql", headers={"Authorization": "Bearer lmq_0123456789abcdef_0"})
        assert unknown.status_code == 401


def test_rows_are_a_file_of_parquet(scene: Scene) -> None:
    answer = scene.ask(COUNTS, "olga", format="parquet")
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    assert pq.read_table(io.BytesIO(answer.content)).to_pylist() == [{"topic": "orders", "messages": 10}]


def test_every_example_runs(scene: Scene) -> None:
    for each in EXAMPLES:
        assert scene.ask(each.statement, "admin").status_code == 200, each.name


def test_rows_are_shown_as_text_and_kept_as_files(visitor: Visitor, scene: Scene) -> None:
    visitor.sign_in(scene.tokens["olga"])
    page = ask(visitor, f"SELECT '{SCRIPT}' AS `{SCRIPT}`, count(*) AS n, null AS nothing FROM messages").text
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;") >= 3
    assert "1 row in" in page
    plot = re.search(r'data-plot="([^"]+)"', page)
    assert plot is not None
    assert [each["values"] for each in json.loads(unescape(plot[1]))][1] == [10]
    visitor.http.headers["Accept"] = "text/html"
    csv = visitor.post("/sql/file", "/sql", statement=COUNTS, format="csv")
    assert csv.text == "topic,messages\r\norders,10\r\n"
    assert re.fullmatch(r'attachment; filename="lakemq-\d{8}-\d{6}\.csv"', csv.headers["content-disposition"])
    formula = "SELECT '=1+1' AS a, -count(*) AS n, null AS c FROM messages"
    risky = visitor.post("/sql/file", "/sql", statement=formula, format="csv")
    assert risky.text == "a,n,c\r\n'=1+1,-10,\r\n"
    assert scene.ask(formula, "olga", format="csv").text == "a,n,c\r\n=1+1,-10,\r\n"
    parquet = visitor.post("/sql/file", "/sql", statement=COUNTS, format="parquet")
    assert pq.read_table(io.BytesIO(parquet.content)).num_rows == 1
    assert visitor.post("/sql/file", "/sql", statement=COUNTS, format="exe").status_code == 400


def test_what_goes_wrong_is_said_with_its_place(visitor: Visitor, scene: Scene) -> None:
    visitor.sign_in(scene.tokens["olga"])
    wrong = ask(visitor, f"SELECT topic,\n  no_such_column, '{SCRIPT}' FROM messages")
    assert wrong.status_code == 400
    assert "Line 2, column 3" in wrong.text
    assert "<script>alert" not in wrong.text
    assert "no_such_column" in wrong.text
    dropped = ask(visitor, "DROP TABLE messages")
    assert dropped.status_code == 400
    assert "can&#39;t be run" in dropped.text
    cut = ask(visitor, "SELECT position FROM messages", rows="4")
    assert "4 rows in" in cut.text
    assert "The result was cut" in cut.text
    assert "rows is a number from 1 to 5000" in ask(visitor, COUNTS, rows="5001").text
    assert visitor.post("/sql", "/sql", statement=" ").status_code == 400
    assert visitor.http.post("/sql", data={"statement": COUNTS}).status_code == 403
    visitor.sign_in(scene.tokens["max"])
    assert "took too long, and was cancelled" in ask(visitor, LONG, seconds="3").text


def test_one_who_may_not_use_sql_is_told_what_it_takes(visitor: Visitor, scene: Scene) -> None:
    visitor.sign_in(scene.tokens["nobody"])
    page = visitor.get("/sql")
    assert "You may not use SQL" in page
    assert "<textarea" not in page
    visitor.sign_in(scene.tokens["ines"])
    page = visitor.get("/sql")
    assert "live.messages" in page
    assert "live.dead_letters" not in page
    refused = ask(visitor, "SELECT * FROM topics")
    assert refused.status_code == 403
    assert "Sql on Lake:topics" in refused.text


def test_a_statement_is_run_drawn_saved_and_found_by_its_link(seen: Seen, scene: Scene) -> None:
    page = seen.page
    page.goto("/sql")
    page.get_by_role("button", name="Use Messages by topic").click()
    page.get_by_label("Seconds at most").fill("300")
    page.get_by_label("Statement", exact=True).press("Control+Enter")
    expect(page.get_by_role("region", name="Result")).to_contain_text("secondary")
    page.get_by_text("Chart", exact=True).click()
    expect(page.locator(".plotted canvas")).to_be_visible()
    page.get_by_label("As", exact=True).select_option("lines")
    page.get_by_label("Along x").select_option("newest")
    expect(page.locator(".plotted canvas")).to_be_visible()
    page.get_by_label("Name", exact=True).fill(SCRIPT)
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Copy a link").click()
    expect(page.locator("[data-sql-state]")).to_have_text("The link is copied.")
    link = str(page.evaluate("navigator.clipboard.readText()"))
    page.get_by_label("Statement", exact=True).fill("SELECT 1 AS one")
    page.reload()
    expect(page.get_by_label("Statement", exact=True)).to_have_value("SELECT 1 AS one")
    page.get_by_role("button", name=SCRIPT, exact=True).click()
    expect(page.get_by_label("Statement", exact=True)).to_have_value(EXAMPLES[0].statement)
    page.goto("/")
    page.goto(link)
    expect(page.get_by_label("Statement", exact=True)).to_have_value(EXAMPLES[0].statement)
    with page.expect_download() as kept:
        page.get_by_role("button", name="Export").click()
    assert json.loads(kept.value.path().read_text()) == [{"name": SCRIPT, "statement": EXAMPLES[0].statement}]
    page.get_by_role("button", name=f"Remove {SCRIPT}").click()
    expect(page.locator("[data-sql-none]")).to_be_visible()


def test_the_lake_has_the_steps_of_a_message_that_have_left_the_log(visitor: Visitor, scene: Scene) -> None:
    statement = "SELECT message_id FROM messages WHERE topic = 'secrets' ORDER BY position LIMIT 1"
    ((message_id,),) = scene.rows(statement, "admin")

    async def both(user: str) -> tuple[dict[str, Any], dict[str, Any]]:
        broker = Broker(scene.gateway.url, Credentials(scene.tokens[user]))
        try:
            whole = await history_of(broker, message_id, 1)
            # As if the log began now.
            cut = whole | {"events": [], "read_from_ms": whole["now_ms"] + 1}
            return whole, await with_lake(broker, cut, 1, sees_all=True)
        finally:
            await broker.close()

    with ThreadPoolExecutor(1) as pool:  # Playwright has a loop in this thread
        by_log, by_lake = pool.submit(lambda: asyncio.run(both("admin"))).result()
    assert [(each["what"], each["group"]) for each in by_lake["events"]] == [
        ("received", "tries"),
        ("nacked", "tries"),
        ("scheduled", None),
    ]
    told = [{name: each[name] for name in each if name != "pending"} for each in by_log["events"]]
    assert [{name: each[name] for name in each if name != "pending"} for each in by_lake["events"]] == told
    assert by_lake["read_from_ms"] is None
    titles = [each.title for each in life_of(by_lake).steps]
    assert titles == ["Stored", "Handed out", "Failed", "Put aside until its next delivery"]
    visitor.sign_in(scene.tokens["admin"])
    assert "Failed" in visitor.get(f"/messages/{message_id}", lake=1)


def test_a_groups_lag_comes_from_the_lake(seen: Seen, visitor: Visitor, scene: Scene) -> None:
    visitor.sign_in(scene.tokens["admin"])
    plot = re.search(r'data-plot="([^"]+)"', visitor.get("/groups/g", lag="1h"))
    assert plot is not None
    _, drawn = json.loads(unescape(plot[1]))
    # The group has consumed the first message of each topic's first queue.
    left = "SELECT count(*) - 2 FROM messages WHERE queue_id = 0 AND topic IN ('orders', 'secrets')"
    assert [[drawn["values"][-1]]] == scene.rows(left, "admin")
    visitor.get("/groups/g", 400, lag="1y")
    seen.page.set_viewport_size({"width": 360, "height": 640})
    seen.page.goto("/groups/g")
    expect(seen.page.locator("#lag-before canvas")).to_be_visible()
    with seen.page.expect_response("**/groups/g?lag=1w") as drawn_anew:
        seen.page.get_by_label("In", exact=True).select_option("1w")
    assert drawn_anew.value.ok
    seen.page.get_by_role("button", name="Draw").click()
    expect(seen.page.locator("#lag-before canvas")).to_be_visible()
    assert seen.overflow() == 0


@pytest.mark.long
def test_a_statement_is_cancelled_and_its_place_is_free_again(seen: Seen, scene: Scene) -> None:
    page = seen.page
    page.goto("/sql")
    page.get_by_label("Seconds at most").fill("300")
    for _ in range(2):  # as many as one may have under way, for 300 s each, if they went on
        page.get_by_label("Statement", exact=True).fill(LONG)
        page.get_by_role("button", name="Run").click()
        expect(page.locator("[data-sql-state]")).to_contain_text("Running for")
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("[data-sql-state]")).to_have_text("Cancelled.")
    page.get_by_label("Statement", exact=True).fill("SELECT 'it' AS is_free FROM messages LIMIT 1")
    while "is_free" not in page.locator("#result").inner_text():
        page.get_by_role("button", name="Run").click()
        expect(page.locator("#result:not([aria-busy]) > *")).to_be_visible()
    told = ("ERR_ABORTED", "htmx:afterRequest", "htmx:sendAbort")
    seen.wrong = [each for each in seen.wrong if not any(part in each for part in told)]


def test_a_mistake_is_shown_and_the_cursor_goes_there(seen: Seen, scene: Scene) -> None:
    page = seen.page
    page.goto("/sql")
    page.get_by_label("Statement", exact=True).fill("SELECT topic,\n  no_such_column FROM messages")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_contain_text("Line 2, column 3")
    editor = page.get_by_label("Statement", exact=True)
    expect(editor).to_be_focused()
    assert editor.evaluate("each => each.selectionStart") == len("SELECT topic,\n  ")
