"""`python -m tests.console.screenshots`: the pictures of docs/console.md, of a broker with some traffic."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from lakemq import __version__
from lakemq.testing import start_gateway
from lakemq.testing.gateway_process import environment_of
from tests.console.browser import Seen, open_browser
from tests.console.visitor import ConsoleProcess
from tests.gateway.http_client import connect, produce, put_topic
from tests.gateway.routing.asking import begin
from tests.quick_spark import QUICK_SPARK

FOLDER = Path(__file__).parents[2] / "docs" / "console"
BYTES_MAX = 920 * 1024
"""Of all pictures together."""
TRAFFIC_S = 9.0
WIDE, NARROW = (960, 640), (360, 640)
Shot = tuple[str, str, tuple[int, int], str]
SHOTS: tuple[Shot, ...] = (
    ("overview", "/", (960, 840), "light"),
    ("overview-dark", "/", WIDE, "dark"),
    ("topics", "/topics", (960, 420), "light"),
    ("messages", "/topics/orders/messages", (960, 520), "light"),
    ("message", "", WIDE, "light"),
    ("group", "/groups/billing", (960, 1180), "light"),
    ("dead-letters", "/groups/carrier/dead-letters", (960, 640), "light"),
    ("jobs", "/jobs", (960, 760), "light"),
    ("people", "/people/new", (960, 760), "light"),
    ("phone", "/", NARROW, "dark"),
    ("waiting", "/waiting", (960, 760), "light"),
    ("sql", "/sql", (960, 1000), "light"),
    ("schema", "/topics/orders/schema", (960, 640), "light"),
)
AS_ADMINISTRATOR = ("jobs", "people")
WITH_JOBS = ("jobs", "sql")
"""Of these the jobs run beside the broker, which takes some minutes to start."""
JOBS_START_WITHIN_S = 1_800.0


def main() -> None:
    """Take them all."""
    parser = argparse.ArgumentParser(prog="python -m tests.console.screenshots", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="default docs/console")
    names = [shot[0] for shot in SHOTS]
    parser.add_argument("--only", action="append", choices=names, help="this picture; repeatable. Default: all")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    shots = [shot for shot in SHOTS if shot[0] in (arguments.only or names)]
    folder.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        start_gateway(Path(scratch) / "data", storage__disk_high_ratio=1.0) as gateway,
        ConsoleProcess(gateway.url) as console,
        connect(gateway) as http,
    ):
        message_id, done = _fill(http), threading.Event()
        token = (Path(scratch) / "data" / "admin.token").read_text("ascii").strip()
        traffic = threading.Thread(target=_go_on, args=(gateway.url, done))
        traffic.start()
        try:
            beside = [shot for shot in shots if shot[0] in WITH_JOBS]
            _take(console.url, message_id, folder, token, [shot for shot in shots if shot not in beside])
            if beside:
                with _jobs(http, Path(scratch), gateway.url, token):
                    _take(console.url, message_id, folder, token, beside)
        finally:
            done.set()
            traffic.join()
    size = sum(each.stat().st_size for each in folder.glob("*.png"))
    assert size < BYTES_MAX, f"{size} bytes are too many"


def _fill(http: httpx.Client) -> str:
    for topic, queues in (("orders", 4), ("payments", 4), ("shipments", 2), ("audit-events", 1), ("reminders", 1)):
        put_topic(http, topic, queues)
    http.put("/v1/topics/orders/schema", json={"schema": _SCHEMA}).raise_for_status()
    for number in range(200):
        produce(http, "orders", _order(number))
        if number % 3 == 0:
            produce(http, "payments", {"body": json.dumps({"order": number, "paid": True}), "tag": "card"})
    for queue in range(4):
        offsets = {"offsets": [{"topic": "orders", "queue_id": queue, "offset": 30 + 4 * queue}]}
        http.put("/v1/groups/billing/offsets", json=offsets).raise_for_status()
        offsets = {"offsets": [{"topic": "payments", "queue_id": queue, "offset": 16}]}
        http.put("/v1/groups/ledger/offsets", json=offsets).raise_for_status()
    subscriptions = [{"topic": "orders", "type": "tag", "expression": "paid || shipped"}]
    for number in range(2):
        queues = [{"topic": "orders", "queue_id": 2 * number + each} for each in range(2)]
        client = {"language": "python", "version": __version__, "queues": queues, "buffered": 32 * number}
        member = {"subscriptions": subscriptions, "client": client}
        http.post(f"/v1/groups/billing/members/billing-{number}/heartbeat", json=member).raise_for_status()
    produce(http, "shipments", *[_order(number) for number in range(len(_REASONS))])
    _fail(http, "shipments", "carrier")
    chance = random.Random(4711)
    for number in range(150):
        delay_ms = 60_000 + int(chance.triangular(0, 86_000_000, 30_000_000))
        produce(http, "reminders", {"body": "pay", "tag": "mail", "keys": [f"order-{number}"], "delay_ms": delay_ms})
    begin(http, "orders", "paid", "shipped", group="checkout")
    return produce(http, "orders", _order(4711))[0]["message_id"]


def _fail(http: httpx.Client, topic: str, group: str) -> None:
    """Some of the topic's messages are dead letters of the group."""
    receipts: list[str] = []
    while len(receipts) < len(_REASONS):
        wanted = {"topic": topic, "max": len(_REASONS) - len(receipts), "wait_ms": 1_000}
        receipts += [
            each["receipt"] for each in http.post(f"/v1/groups/{group}/receive", json=wanted).json()["messages"]
        ]
    nacks = [
        {"receipt": receipt, "delay_level": -1, "reason": {"class": kind, "text": reason}}
        for receipt, (kind, reason) in zip(receipts, _REASONS, strict=True)
    ]
    http.post(f"/v1/groups/{group}/nacks", json={"messages": nacks}).raise_for_status()
    while len(http.get(f"/v1/groups/{group}/dead-letters").json()["dead_letters"]) < len(_REASONS):
        time.sleep(0.1)


_REASONS = (
    ("TimeoutError", "the depot did not answer within 10 s"),
    ("NoSuchAddress", "there is no 12 Harbour Street"),
    ("TimeoutError", "the depot did not answer within 10 s"),
    ("NoSuchAddress", "postcode 00000"),
    ("ValueError", "the parcel has no weight"),
)
_ITEM = {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}
_SCHEMA = {
    "type": "object",
    "properties": {
        "order": {"type": "integer"},
        "amount": {"type": "number"},
        "items": {"type": "array", "items": _ITEM},
    },
    "required": ["order"],
}


def _order(number: int) -> dict[str, object]:
    items = [{"sku": f"B-{number % 7}", "count": 1 + number % 3}]
    return {
        "body": json.dumps({"order": number, "amount": 20 + number % 50, "items": items}),
        "tag": "paid" if number % 4 else "shipped",
        "keys": [f"order-{number}"],
        "properties": {"region": "eu" if number % 2 else "us"},
    }


@contextmanager
def _jobs(http: httpx.Client, scratch: Path, url: str, token: str) -> Generator[None]:
    """The jobs beside it, once they write the lake, and have done some maintenance."""
    environment = (
        QUICK_SPARK | environment_of(lake__dir=scratch / "lake") | {"LAKEMQ_BROKER": url, "LAKEMQ_TOKEN": token}
    )
    with subprocess.Popen([sys.executable, "-m", "lakemq", "jobs"], env=environment) as process:
        try:
            until_s = time.monotonic() + JOBS_START_WITHIN_S
            while not (http.get("/v1/broker").json()["compacted_position"] or 0):
                assert process.poll() is None, "the jobs have ended"
                assert time.monotonic() < until_s, "the jobs write no lake"
                time.sleep(1)
            headers = {"Authorization": f"Bearer {token}"}
            with httpx.Client(base_url=http.get("/v1/broker").json()["sql"], headers=headers, timeout=60) as jobs:
                jobs.post("/v1/maintenance/stats/runs").raise_for_status()
                while not jobs.get("/v1/jobs").json()["maintenance"]["runs"]:
                    assert time.monotonic() < until_s, "maintenance has not run"
                    time.sleep(1)
            yield
        finally:
            process.terminate()


def _sign_in(seen: Seen, token: str) -> None:
    seen.page.goto("/sign-in")
    seen.page.get_by_label("Token").fill(token)
    seen.page.get_by_role("button", name="Sign in").click()
    expect(seen.page.get_by_role("button", name="Sign out")).to_be_visible()


def _go_on(url: str, done: threading.Event) -> None:
    number = 1_000
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        while not done.wait(0.05):
            number += 1
            produce(http, "orders", *[_order(number)] * (1 + number % 5))


def _ask(page: Page) -> None:
    first = page.get_by_role("button", name="Use Messages by topic")
    while not first.is_visible() or page.get_by_text("still starting").is_visible():
        page.wait_for_timeout(2_000)
        page.reload()
    first.click()
    page.get_by_label("Seconds at most").fill("300")
    page.get_by_label("Statement", exact=True).press("Control+Enter")
    expect(page.locator(".plotted")).to_be_visible(timeout=JOBS_START_WITHIN_S * 1000)
    page.get_by_role("button", name="Run").click()  # once more: the first one has Spark make ready
    expect(page.locator("#result:not([aria-busy]) .plotted")).to_be_visible(timeout=JOBS_START_WITHIN_S * 1000)
    page.get_by_text("Chart", exact=True).click()
    expect(page.locator(".plotted canvas")).to_be_visible()
    page.evaluate("scrollTo(0, 0)")


def _take(url: str, message_id: str, folder: Path, token: str, shots: Sequence[Shot]) -> None:
    with open_browser() as browser:
        for name, path, (width, height), scheme in shots:
            seen = Seen(browser, url, width, "dark" if scheme == "dark" else "light")
            page = seen.page
            page.set_viewport_size({"width": width, "height": height})
            if name in AS_ADMINISTRATOR:
                _sign_in(seen, token)
            page.goto(path or f"/messages/{message_id}")
            if name == "group" or path == "/":
                expect(page.locator(".chart canvas")).to_be_visible()
                page.wait_for_timeout(TRAFFIC_S * 1000)
            if name == "sql":
                _ask(page)
            if name == "people":
                page.get_by_label("Name").fill("checkout")
                page.get_by_label("Send to topics").fill("orders, payments")
                page.get_by_label("Consume topics").fill("shipments*")
                page.get_by_label("as consumer group").fill("checkout")
            seen.settle()
            page.screenshot(path=folder / f"{name}.png")
            seen.close()
            assert seen.wrong == [], seen.wrong


if __name__ == "__main__":
    main()
