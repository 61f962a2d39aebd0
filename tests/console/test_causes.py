"""Open dead letters by group and cause."""

from __future__ import annotations

import re
import socket
from html import unescape
from pathlib import Path
from typing import Any

import httpx

from lakemq.console.causes import CAUSES_SHOWN_MAX, Causes
from lakemq.console.letter_groups import GROUPS_MAX, OPEN, Told, letter_groups_of, told_by
from lakemq.console.looks import Look
from lakemq.testing import GatewayProcess, start_gateway
from tests.console.buried import bury
from tests.console.visitor import ConsoleProcess, Guarded, Visitor, token_of
from tests.gateway.http_client import connect, produce
from tests.gateway.routing.asking import wait_until

SCRIPT = "<script>alert(1)</script>"
REASONS: tuple[Any, ...] = (
    *({"class": "TimeoutError", "text": f"after {seconds} s"} for seconds in range(3)),
    *("no such address", "no such address"),
    {"class": f"O'Brien {SCRIPT}", "text": "odd"},
    None,
)


def letter(name: str | None, text: str | None, at_ms: int) -> dict[str, Any]:
    return {"failure_class": name, "failure_text": text, "failed_ms": at_ms}


def look(address: str, name: str, role: str = "primary", /, **letters: float) -> Look:
    return Look(address, 1.0, said={"name": name, "role": role}, samples={OPEN: letters})


def test_letters_are_counted_by_group_and_cause_with_their_times_the_most_first() -> None:
    causes = Causes(["b1", "b2"])
    causes.take("b1", "a", [letter("ValueError", "x", 3), letter("ValueError", "y", 1), letter(None, "odd\ntext", 5)])
    causes.take("b1", "b", [letter("ValueError", "x", 2)])
    causes.take("b1", "a", [letter("ValueError", None, 9), letter(None, None, 4)])
    assert [each[:2] + each[3:6] for each in causes.all()] == [
        ("a", "ValueError", 3, 1, 9),
        ("a", "", 1, 4, 4),
        ("a", "odd text", 1, 5, 5),
        ("b", "ValueError", 1, 2, 2),
    ]


def test_a_predicate_is_offered_only_for_what_is_a_class_and_needs_no_quotes() -> None:
    causes = Causes(["b1", "b2"])
    causes.take("b1", "a", [letter("a.B", "x", 1), letter("O'Brien", "x", 1), letter(None, "text", 1)])
    causes.take("b1", "a", [letter("Mixed", "x", 1), letter(None, "Mixed", 1), letter(None, None, 1)])
    assert {each.name: each.where for each in causes.all()} == {
        "a.B": "failure_class = 'a.B'",
        "O'Brien": "",
        "text": "",
        "Mixed": "",
        "": "",
    }


def test_a_cause_at_several_brokers_is_one() -> None:
    causes = Causes(["b1", "b2"])
    causes.take("b2", "a", [letter(None, "Mixed", 3), letter("Mixed", "y", 9)])
    causes.take("b1", "a", [letter("Mixed", "x", 5), letter(None, "only here", 6)])
    causes.take("b2", "b", [letter("Mixed", "x", 1)])
    assert causes.all() == [
        ("a", "Mixed", False, 3, 3, 9, ("b1", "b2")),
        ("a", "only here", False, 1, 6, 6, ("b1",)),
        ("b", "Mixed", True, 1, 1, 1, ("b2",)),
    ]


def test_as_many_causes_are_shown_as_a_page_has_room_for(visitor: Visitor, http: httpx.Client, name: str) -> None:
    bury(http, name, *[f"order {number} is odd" for number in range(CAUSES_SHOWN_MAX + 3)])
    page = visitor.get(f"/groups/{name}/dead-letters/causes")
    assert page.count('data-label="Cause"') == CAUSES_SHOWN_MAX
    assert "And 3 more causes." in page


def test_each_cause_of_a_groups_dead_letters_leads_to_those_that_died_of_it(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    bury(http, name, *REASONS)
    page = visitor.get(f"/groups/{name}/dead-letters")
    assert f'hx-get="/groups/{name}/dead-letters/causes"' in page
    page = visitor.get(f"/groups/{name}/dead-letters/causes")
    assert SCRIPT not in page
    assert "Of the newest" not in page
    found = re.findall(r'data-label="Cause"><a href="([^"]+)">(.*?)</a></td>\s*<td[^>]*>(\d+)<', page)
    assert [(unescape(cause), number) for _, cause, number in found] == [
        ("TimeoutError", "3"),
        ("no such address", "2"),
        ("no reason given", "1"),
        (f"O'Brien {SCRIPT}", "1"),
    ]
    for link, cause, number in found:
        listed = visitor.get(unescape(link))
        assert listed.count('type="checkbox"') == int(number)
        assert f"<strong>{cause}</strong>" in listed
        assert ("failure_class = &#39;TimeoutError&#39;" in listed) == (cause == "TimeoutError")
        kept = re.search(r'href="([^"]+format=jsonl[^"]+)"', listed)
        assert kept is not None
        assert len(visitor.get(unescape(kept[1])).splitlines()) == int(number)
        assert visitor.get(unescape(link), state="redriven").count("No redriven dead letters.") == 1
    counted = visitor.post(f"/groups/{name}/dead-letters", where="failure_class = 'TimeoutError'", rate="10")
    assert "3 dead letters would be sent again" in counted.text


def test_the_newest_are_counted_where_there_are_more(visitor: Visitor, http: httpx.Client, name: str) -> None:
    bury(http, name, *["one"] * 100)
    many = 1_000
    for _ in range(5):
        ids = [each["message_id"] for each in produce(http, name, *["x"] * many)]
        nacks = [{"message_id": each, "delay_level": -1, "reason": "two"} for each in ids]
        http.post(f"/v1/groups/{name}/nacks", json={"messages": nacks}).raise_for_status()
    dead = f"/v1/topics/%25DLQ%25{name}"
    wait_until(lambda: http.get(dead).json()["queues"][0]["max_offset"] == 100 + 5 * many)
    page = visitor.get(f"/groups/{name}/dead-letters/causes")
    assert re.search(r"Of the newest [\d,]+ open letters\.", page) is not None
    assert ">one<" not in page
    assert ">two<" in page


def test_groups_are_told_by_their_dead_letters_with_causes_of_each(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    bury(http, name, *REASONS)
    assert 'href="/dead-letters"' in visitor.get("/groups")
    wait_until(lambda: f'href="/groups/{name}/dead-letters"' in visitor.get("/dead-letters"))
    row = rf'href="/groups/{name}/dead-letters">{name}</a></td>\s*<td[^>]*>7<'
    wait_until(lambda: re.search(row, visitor.get("/dead-letters")) is not None)
    assert 'hx-get="/dead-letters/causes"' in visitor.get("/dead-letters")

    def are_told() -> bool:  # on a busy machine the time ends before all groups are counted
        causes = visitor.get("/dead-letters/causes")
        return (
            f'<a href="/groups/{name}">{name}</a>' in causes
            and f'<a href="/groups/{name}/dead-letters?cause=TimeoutError' in causes
        )

    wait_until(are_told)


def test_those_with_most_letters_come_first_of_each_brokers_leader() -> None:
    many = {f"g{number:02}": float(number) for number in range(GROUPS_MAX + 3)}
    looks = [
        look("http://a1", "a", "follower", many=99.0),
        look("http://a0", "a", **many, other=5.0),
        look("http://b", "b", g21=30.0, few=1.0, none=0.0),
    ]
    found = letter_groups_of([*map(told_by, looks), Told("http://c", None, problem="gone")])
    assert found.rows[:3] == [("b", "g21", 30.0), ("a", "g22", 22.0), ("a", "g21", 21.0)]
    assert ("b", "few", 1.0) in found.rows
    assert len(found.rows) == GROUPS_MAX + 2
    assert (found.more, found.others, found.silent) == ([("a", 2)], [("a", 5.0)], [("http://c", "gone")])


def test_where_no_replica_leads_the_first_one_is_asked() -> None:
    looks = [look("http://a1", "a", "follower", g=1.0), look("http://a2", "a", "follower", g=2.0)]
    assert letter_groups_of([told_by(each) for each in looks]).rows == [("a", "g", 1.0)]


def test_dead_letters_of_all_brokers_are_shown_and_opened_where_they_are(
    http: httpx.Client, gateway: GatewayProcess, tmp_path: Path, name: str
) -> None:
    bury(http, name, "one", "two")
    with (
        start_gateway(tmp_path / "data", broker__name="broker-b") as other,
        connect(other) as second,
        ConsoleProcess(gateway.url, other.url) as console,
    ):
        bury(second, name, "two", "two", "two")
        visitor = Visitor(console.url)

        def rows_are(page: str, *expected: str) -> bool:
            text = " ".join(re.sub(r"<[^>]+>", " ", visitor.get(page)).split())
            return all(each in text for each in expected)

        wait_until(lambda: rows_are("/dead-letters", f"{name} broker-b 3", f"{name} broker-a 2"))
        # On a busy machine the time ends before all groups are counted.
        wait_until(lambda: rows_are("/dead-letters/causes", f"{name} broker-a, broker-b two 4"))
        dead = f"/groups/{name}/dead-letters"
        for page in (visitor.get("/dead-letters/causes"), visitor.get(f"{dead}/causes")):
            assert f'<a href="{dead}?cause=two">two</a>' in page
        assert rows_are(f"{dead}/causes", "broker-a, broker-b two 4", "broker-a one 1")
        assert visitor.get(f"{dead}?cause=two").count('type="checkbox"') == 4
        assert f'<a href="{dead}">{name}</a>' in visitor.get("/dead-letters")
        for elsewhere in ("https://example.org/", "//example.org", "/sign-out"):
            assert visitor.post("/broker", "/dead-letters", at=other.url, next=elsewhere).headers["location"] == "/"
        visitor.close()


def test_a_broker_that_does_not_answer_is_said_to_be_missing(
    http: httpx.Client, gateway: GatewayProcess, name: str
) -> None:
    bury(http, name, "one")
    missing = "Dead letters that only this broker has are missing here."
    pages: list[str] = []

    def is_shown() -> bool:
        """By the one broker that answers: maybe not in time, at first."""
        pages.append(visitor.get("/dead-letters"))
        return f"{name}</a></td>" in pages[-1] and pages[-1].count(missing) == 2

    with socket.create_server(("127.0.0.1", 0)) as hung, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else will
        gone, silent = (f"http://127.0.0.1:{each.getsockname()[1]}" for each in (closed, hung))
        with ConsoleProcess(gateway.url, gone, silent) as console:
            visitor = Visitor(console.url)
            wait_until(is_shown)
            page = pages[-1]
            assert f"{silent} tells nothing: No answer within 5 s. {missing}" in page
            assert f"{gone} tells nothing: " in page
            causes = visitor.get("/dead-letters/causes")
            assert f"{silent} tells nothing: No answer within 5 s.</p>" in causes
            visitor.close()


def test_a_broker_that_does_not_take_the_token_says_so(guarded: Guarded, tmp_path: Path, name: str) -> None:
    token = token_of(guarded.http, name, (f"Group:{name}", ["Get"]))
    with (
        start_gateway(tmp_path / "data", auth__required=True, broker__name="broker-b") as second,
        ConsoleProcess(guarded.gateway.url, second.url) as console,
    ):
        visitor = Visitor(console.url)
        visitor.sign_in(token)
        page = visitor.get("/dead-letters")
        assert f"{second.url} tells nothing: This broker doesn&#39;t take your token. Dead letters" in page
        assert f'href="/groups/{name}/dead-letters"' in page
        visitor.close()


def test_who_is_told_no_figures_sees_the_groups_that_policies_name(guarded: Guarded, name: str) -> None:
    bury(guarded.http, name, "one")
    rights = ((f"Group:{name}", ["Get"]), (f"Group:none-{name}", ["Get"]), (f"Topic:{name}", ["Get"]))
    visitor = Visitor(guarded.console.url)
    visitor.sign_in(token_of(guarded.http, name, *rights))
    page = visitor.get("/dead-letters")
    assert re.search(rf'href="/groups/{name}/dead-letters">{name}</a></td>\s*<td[^>]*>–<', page) is not None
    causes = visitor.get("/dead-letters/causes")
    assert re.search(r">one</a></td>\s*<td[^>]*>1<", causes) is not None
    assert f"none-{name} wasn't counted" in causes
    visitor.close()


def test_where_nobody_died_that_is_said(visitor: Visitor, http: httpx.Client, name: str) -> None:
    produce(http, name, "x")
    http.put(f"/v1/groups/{name}", json={"consume_enabled": True}).raise_for_status()
    assert "No open dead letters." in visitor.get(f"/groups/{name}/dead-letters/causes")
    visitor.get(f"/groups/none-{name}/dead-letters/causes", 404)
