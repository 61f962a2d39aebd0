"""Dead letters that are given up for good."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.client import Admin, Discarded, InvalidFilter
from lakemq.client.aio import Admin as AsyncAdmin
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.http_client import connect, is_problem, pull_all
from tests.gateway.redrive.test_dead_letter_list import bury, letters, redrive
from tests.gateway.routing.asking import wait_until

_numbers = count()


@pytest.fixture
def group() -> str:
    """A name that no other test uses."""
    return f"discarded-{next(_numbers)}"


def discard(http: httpx.Client, group: str, **asked: Any) -> dict[str, Any]:
    return http.post(f"/v1/groups/{group}/dead-letters/discard", json=asked).raise_for_status().json()


def states(http: httpx.Client, group: str) -> dict[str, str]:
    """By tag."""
    return {each["tag"]: each["state"] for each in letters(http, group)}


def bury_each(http: httpx.Client, group: str, tags: str) -> None:
    bury(http, group, f"t-{group}", *[{"body": "x", "tag": tag} for tag in tags])


def open_letters(http: httpx.Client, group: str) -> float | None:
    name = f'lakemq_group_dead_letters_open{{group="{group}"}} '
    lines = http.get("/metrics").text.splitlines()
    return next((float(line.removeprefix(name)) for line in lines if line.startswith(name)), None)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[httpx.Client]:
    """A gateway with few groups, so that metrics name all."""
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        yield http


def test_those_that_match_are_discarded_and_stay_readable(alone: httpx.Client, group: str) -> None:
    http = alone
    bury_each(http, group, "abc")
    dead = [each["position"] for each in pull_all(http, f"%DLQ%{group}")]
    assert discard(http, group, where="tag = 'b'", dry_run=True) == {"matched": 1, "discarded": 0, "last": dead[1]}
    assert set(states(http, group).values()) == {"open"}
    assert discard(http, group, where="tag IN ('b', 'c')") == {"matched": 2, "discarded": 2, "last": dead[2]}
    assert states(http, group) == {"a": "open", "b": "discarded", "c": "discarded"}
    assert [each["tag"] for each in letters(http, group, state="discarded")] == ["c", "b"]
    assert [each["tag"] for each in letters(http, group, state="open")] == ["a"]
    assert len(pull_all(http, f"%DLQ%{group}")) == 3
    wait_until(lambda: open_letters(http, group) == 1, "the letters are still counted")
    assert discard(http, group, where="tag = 'b'") == {"matched": 0, "discarded": 0}
    assert discard(http, group) == {"matched": 1, "discarded": 1, "last": dead[0]}


def test_what_has_died_since_it_was_counted_is_left_alone(http: httpx.Client, group: str) -> None:
    bury_each(http, group, "ab")
    counted = discard(http, group, dry_run=True)
    bury_each(http, group, "cd")
    done = discard(http, group, up_to=counted["last"])
    assert (done["matched"], done["discarded"]) == (2, 2)
    assert states(http, group) == {"a": "discarded", "b": "discarded", "c": "open", "d": "open"}
    assert discard(http, group, up_to=0) == {"matched": 0, "discarded": 0}
    assert discard(http, group, up_to=2**53)["discarded"] == 2  # however large a number a client chooses


def test_no_redrive_sends_what_is_discarded(http: httpx.Client, group: str) -> None:
    bury_each(http, group, "ab")
    discard(http, group, where="tag = 'a'")
    redrive(http, group, "true")
    assert states(http, group) == {"a": "discarded", "b": "redriven"}
    assert [each["tag"] for each in pull_all(http, f"%RETRY%{group}")] == ["b"]
    assert discard(http, group)["matched"] == 0
    assert states(http, group) == {"a": "discarded", "b": "redriven"}


def test_the_record_says_which_and_why(http: httpx.Client, group: str) -> None:
    bury_each(http, group, "abcd")
    dead = [each["position"] for each in pull_all(http, f"%DLQ%{group}")]
    where = f"tag <> 'b' AND real_topic = 't-{group}'"
    discard(http, group, where=where)
    said = [json.loads(each["body"]) for each in pull_all(http, "RMQ_SYS_DISCARD_TOPIC")]
    (ranges,) = [each["ranges"] for each in said if (each["where"], each["by"]) == (where, "")]
    named = [position for first, last in ranges for position in range(first, last + 1)]
    assert named == [dead[0], *dead[2:]]


def test_what_is_wrong_is_said(http: httpx.Client, group: str) -> None:
    path = f"/v1/groups/{group}/dead-letters/discard"
    assert http.post(path, json={}).json() == {"matched": 0, "discarded": 0}  # a group without any
    assert is_problem(http.post(path, json={"where": "tag ="}), 400, "invalid_filter")
    for asked in ({"rate_per_s": 1}, {"up_to": -1}, {"up_to": "1"}):
        assert is_problem(http.post(path, json=asked), 400, "invalid_request")
    assert is_problem(http.post("/v1/groups/no%20group/dead-letters/discard", json={}), 400, "invalid_request")


def test_a_restart_and_a_deleted_group_change_nothing(tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        for group in ("kept", "left"):
            bury_each(http, group, "abc")
            discard(http, group, where="tag = 'a'")
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        assert states(http, "kept") == {"a": "discarded", "b": "open", "c": "open"}
        http.delete("/v1/groups/left").raise_for_status()
        bury_each(http, "left", "d")
        assert states(http, "left") == {"d": "open"}
        discard(http, "kept", where="tag = 'b'")
        gateway.kill()
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        assert states(http, "kept") == {"a": "discarded", "b": "discarded", "c": "open"}
        assert states(http, "left") == {"d": "open"}


def test_a_predicate_needs_the_right_to_read_the_group(tmp_path: Path) -> None:
    with start_gateway(tmp_path, auth__required="true") as gateway, ask_as(gateway, token_of(tmp_path)) as admin:
        bury_each(admin, "mine", "ab")
        token = make_user(admin, "ken", allow("Group:mine", "Update"))
        with ask_as(gateway, token) as ken:
            path = "/v1/groups/mine/dead-letters/discard"
            assert is_problem(ken.post(path, json={"where": "tag = 'a'"}), 403, "forbidden")
            counted = ken.post(path, json={"dry_run": True}).json()
            assert (counted["matched"], counted["discarded"]) == (2, 0)
            assert ken.post(path, json={"up_to": counted["last"]}).json()["discarded"] == 2
            (record,) = pull_all(admin, "RMQ_SYS_DISCARD_TOPIC")
            assert json.loads(record["body"])["by"] == "ken"
            assert is_problem(ken.post("/v1/groups/other/dead-letters/discard", json={}), 403, "forbidden")


def test_programs_discard(gateway: GatewayProcess, http: httpx.Client, group: str) -> None:
    bury_each(http, group, "abc")
    with Admin(brokers=gateway.url) as admin:
        assert admin.discard(group, "tag = 'a'", dry_run=True) == Discarded(1, 0, 0)
        assert admin.discard(group, "tag = 'a'") == Discarded(1, 1, 0)
        assert [each.tag for each in admin.dead_letters(group, state="discarded")] == ["a"]
        with pytest.raises(InvalidFilter):
            admin.discard(group, "tag =")

    async def rest() -> Discarded:
        async with AsyncAdmin(brokers=gateway.url) as admin:
            return await admin.discard(group)

    assert asyncio.run(rest()) == Discarded(2, 2, 0)
