"""Dead letters, listed page by page."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import httpx
import pytest

from lakemq.client import Admin
from lakemq.client.aio import Admin as AsyncAdmin
from lakemq.gateway.process.broker import Broker
from lakemq.gateway.redrive import listing
from lakemq.gateway.redrive.letters import KEYS_MAX, Wanted
from lakemq.model.errors import GroupNotFound
from lakemq.settings import Settings, Storage
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.segment.rows import make_row
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.http_client import is_problem, produce, pull_all
from tests.gateway.receive.asking import receive
from tests.gateway.routing.asking import wait_until

_numbers = count()


@pytest.fixture
def group() -> str:
    """A name that no other test uses."""
    return f"letters-{next(_numbers)}"


def bury(http: httpx.Client, group: str, topic: str, *messages: Any, reason: Any = None) -> list[str]:
    """Send messages, and have the group give up on them; the ids of what was sent."""
    ids = [each["message_id"] for each in produce(http, topic, *messages)]
    nacks = [{"message_id": each, "delay_level": -1, "reason": reason} for each in ids]
    response = http.post(f"/v1/groups/{group}/nacks", json={"messages": nacks})
    assert response.status_code == 200, response.text
    return ids


def ask(http: httpx.Client, group: str, **query: Any) -> dict[str, Any]:
    response = http.get(f"/v1/groups/{group}/dead-letters", params=query)
    assert response.status_code == 200, response.text
    return response.json()


def letters(http: httpx.Client, group: str, **query: Any) -> list[dict[str, Any]]:
    """All of them, page by page."""
    found: list[dict[str, Any]] = []
    after: dict[str, Any] = {}
    while True:
        page = ask(http, group, **query, **after)
        found += page["dead_letters"]
        if page["next_after"] is None:
            return found
        after = {"after": page["next_after"]}


def redrive(http: httpx.Client, group: str, where: str) -> None:
    begun = http.post(f"/v1/groups/{group}/dead-letters/redrive", json={"where": where}).raise_for_status().json()
    look = f"/v1/redrives/{begun['redrive_id']}"
    wait_until(lambda: http.get(look).json()["state"] == "done", "the redrive does not end")


def test_each_letter_says_what_it_is_and_why_it_died(http: httpx.Client, group: str) -> None:
    why = {"class": "ValueError", "text": "no amount"}
    message = {"body": "b", "tag": "T", "keys": ["k"], "born_time_ms": 1_790_000_000_000}
    (first,) = bury(http, group, f"t-{group}", message, reason=why)
    (dead,) = pull_all(http, f"%DLQ%{group}")
    assert ask(http, group) == {
        "group": group,
        "dead_letters": [
            {
                "message_id": dead["message_id"],
                "queue_offset": 0,
                "state": "open",
                "failed_ms": dead["store_time_ms"],
                "deliveries": 1,
                "failure_class": "ValueError",
                "failure_text": "no amount",
                "topic": f"t-{group}",
                "tag": "T",
                "keys": ["k"],
                "born_time_ms": 1_790_000_000_000,
                "origin_message_id": first,
            }
        ],
        "next_after": None,
    }


def test_they_come_newest_first_by_page(http: httpx.Client, group: str) -> None:
    bury(http, group, f"t-{group}", *[{"body": "x", "tag": str(number)} for number in range(70)])
    page = ask(http, group, max=3)
    assert ([each["tag"] for each in page["dead_letters"]], page["next_after"]) == (["69", "68", "67"], 67)
    bury(http, group, f"t-{group}", {"body": "x", "tag": "later"})
    page = ask(http, group, max=2, after=page["next_after"])
    assert ([each["tag"] for each in page["dead_letters"]], page["next_after"]) == (["66", "65"], 65)
    assert [each["tag"] for each in letters(http, group, max=7)] == ["later", *map(str, range(69, -1, -1))]
    assert ask(http, group, after=0) == {"group": group, "dead_letters": [], "next_after": None}


def test_what_was_redriven_is_so_and_is_open_when_it_dies_again(http: httpx.Client, group: str) -> None:
    bury(http, group, f"t-{group}", *[{"body": "x", "tag": tag} for tag in "abc"])
    redrive(http, group, "tag = 'b'")
    assert [(each["tag"], each["state"]) for each in letters(http, group)] == [
        ("c", "open"),
        ("b", "redriven"),
        ("a", "open"),
    ]
    assert [each["tag"] for each in letters(http, group, state="open")] == ["c", "a"]
    assert [each["tag"] for each in letters(http, group, state="redriven")] == ["b"]
    assert letters(http, group, state="gone") == []
    (again,) = receive(http, group, f"t-{group}", max=1, tags="b")
    nack = {"messages": [{"receipt": again["receipt"], "delay_level": -1}]}
    http.post(f"/v1/groups/{group}/nacks", json=nack).raise_for_status()
    newest, *_, _ = letters(http, group)
    assert (newest["tag"], newest["state"], newest["queue_offset"]) == ("b", "open", 3)


def test_they_are_found_by_reason_topic_and_time(http: httpx.Client, group: str) -> None:
    bury(http, group, f"t-{group}", {"body": "", "tag": "a"}, reason={"class": "TimeoutError"})
    bury(http, group, f"u-{group}", {"body": "", "tag": "b"}, reason="The Amount is missing")
    bury(http, group, f"t-{group}", {"body": "", "tag": "c"})
    times = {each["tag"]: each["failed_ms"] for each in letters(http, group)}

    def tags(**query: Any) -> str:
        return "".join(each["tag"] for each in letters(http, group, **query))

    assert (tags(reason="timeout"), tags(reason="AMOUNT is"), tags(reason="nothing")) == ("a", "b", "")
    assert (tags(topic=f"t-{group}"), tags(topic=f"u-{group}", reason="missing"), tags(topic="none")) == ("ca", "b", "")
    assert tags(begin_ms=times["a"], end_ms=times["c"]) == "cba"
    assert tags(begin_ms=times["c"] + 1) == tags(end_ms=times["a"] - 1) == ""
    assert tags(state="open", begin_ms=times["c"])[0] == "c"


def test_labels_are_bounded_and_said_to_be(http: httpx.Client, group: str) -> None:
    keys = ["k" * (KEYS_MAX - 1), "ll", "m"]
    bury(http, group, f"t-{group}", {"body": "x", "keys": keys})
    (letter,) = letters(http, group)
    assert (letter["keys"], letter["more_keys"]) == (keys[:1], 2)


def test_a_page_looks_at_so_many_and_says_where_to_go_on(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SCANNED_MAX", 100)
    seen: list[int] = []

    async def look() -> list[Any]:
        broker = Broker(Settings(storage=Storage(data_dir=tmp_path_factory.mktemp("pages"))))
        broker.open()
        await broker.start()
        try:
            listed = listing.Listing(broker.router.executor, broker.cold, 1.0)
            queue = (await broker.topics.system("%DLQ%g")).queues[0]
            rows = [make_row(body=b"x", real_topic="t", tag=str(number)) for number in range(1_000)]
            await broker.log.append(RowsAppend(rows, [queue] * len(rows)))
            found: list[Any] = []
            after: int | None = 2**60
            while after is not None:
                wanted = Wanted(topic="another")
                page = await listed.page("g", wanted, None, after, 10, lambda topic: True, None)
                found += page.letters
                seen.append(min(after, 1_000) - (page.next_after or 0))
                after = page.next_after
            mine = await listed.page("g", Wanted(), None, 500, 10, lambda topic: topic == "t", None)
            others = await listed.page("g", Wanted(), None, 500, 10, lambda topic: topic != "t", None)
            assert [each["tag"] for each in mine.letters] == [str(number) for number in range(499, 489, -1)]
            assert mine.next_after == 490
            assert others.letters == []
            return found
        finally:
            await broker.close()

    assert asyncio.run(look()) == []
    assert sum(seen) == 1_000
    assert len(seen) > 4
    assert max(seen) < 100 + listing.WINDOW_MAX


@pytest.mark.parametrize(
    "query",
    [
        {"state": "lost"},
        {"max": 0},
        {"max": 1_001},
        {"after": -1},
        {"reason": "x" * 201},
        {"cause": "x" * 201},
        {"begin_ms": "x"},
        {"page": 2},
    ],
)
def test_what_makes_no_sense_is_refused(http: httpx.Client, group: str, query: dict[str, Any]) -> None:
    bury(http, group, f"t-{group}", "x")
    answer = http.get(f"/v1/groups/{group}/dead-letters", params=query)
    assert is_problem(answer, 400, "invalid_request")


def test_those_of_one_cause_are_listed_and_no_others(http: httpx.Client, group: str) -> None:
    reasons: dict[str, Any] = {
        "a": {"class": "Timeout", "text": "of the depot"},
        "b": {"class": "TimeoutError", "text": "Timeout"},
        "c": " Timeout\n",
        "d": "no such  address",
        "e": None,
    }
    for tag, reason in reasons.items():
        bury(http, group, f"t-{group}", {"body": "x", "tag": tag}, reason=reason)
    found = {
        cause: "".join(each["tag"] for each in letters(http, group, cause=cause))
        for cause in ("Timeout", "timeout", "TimeoutError", "no such address", "")
    }
    assert found == {"Timeout": "ca", "timeout": "", "TimeoutError": "b", "no such address": "d", "": "e"}
    assert [each["tag"] for each in letters(http, group, cause="Timeout", reason="DEPOT")] == ["a"]


def test_a_group_without_any_has_none_and_one_that_is_not_there_is_said_so(http: httpx.Client, group: str) -> None:
    produce(http, f"t-{group}", "x")
    receive(http, group, f"t-{group}")
    assert letters(http, group) == []
    assert is_problem(http.get(f"/v1/groups/none-{group}/dead-letters"), 404, "group_not_found")
    assert is_problem(http.get("/v1/groups/no group!/dead-letters"), 400, "invalid_request")


def test_one_sees_those_of_topics_that_one_may_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("letters") / "data"
    with start_gateway(data, auth__required="true") as gateway, ask_as(gateway, token_of(data)) as admin:
        bury(admin, "billing", "orders", "x")
        bury(admin, "billing", "salaries", "x")
        reads, lists = allow("Topic:orders", "Get"), allow("Topic:salaries", "List")
        with ask_as(gateway, make_user(admin, "rosa", allow("Group:billing", "Get"), reads, lists)) as rosa:
            assert [each["topic"] for each in letters(rosa, "billing")] == ["orders"]
            assert letters(rosa, "billing", topic="salaries") == []
        with ask_as(gateway, make_user(admin, "peter", reads)) as peter:
            assert is_problem(peter.get("/v1/groups/billing/dead-letters"), 403, "forbidden")
        assert [each["topic"] for each in letters(admin, "billing")] == ["salaries", "orders"]


def test_programs_look_through_them_and_send_them_again(
    gateway: GatewayProcess, http: httpx.Client, group: str
) -> None:
    bury(http, group, f"t-{group}", *[{"body": "x", "tag": str(number)} for number in range(450)], reason="why")
    with Admin(brokers=gateway.url) as admin:
        found = admin.dead_letters(group, reason="WHY")
        assert [each.tag for each in found] == [str(number) for number in range(449, -1, -1)]
        assert admin.redrive(group, "tag = '7'", dry_run=True).matched == 1
        *_, last = admin.watch_redrive(admin.redrive(group, "tag = '7'"))
        assert (last.redriven, last.running) == (1, False)
        (letter,) = admin.dead_letters(group, state="redriven")
        assert (letter.tag, letter.failure_text, letter.topic, letter.keys) == ("7", "why", f"t-{group}", ())
        with pytest.raises(GroupNotFound):
            next(iter(admin.dead_letters(f"none-{group}")))

    async def look() -> list[str | None]:
        async with AsyncAdmin(brokers=gateway.url) as admin:
            return [each.tag async for each in admin.dead_letters(group, state="redriven")]

    assert asyncio.run(look()) == ["7"]
