"""`lakemq message why`, and searches by key of all topics and of what waits."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.model import all_topics
from lakemq.testing import GatewayProcess
from tests.cli.shell import Run, Shell
from tests.gateway.access.asking import allow, make_user
from tests.gateway.http_client import connect, produce
from tests.gateway.routing.asking import nack, wait_until


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def stored(shell: Shell, topic: str, key: str, **more: Any) -> str:
    """The id of a new message."""
    with httpx.Client(base_url=shell.url, timeout=60) as http:
        return str(produce(http, topic, {"body": "x", "keys": [key], "queue_id": 0} | more)[0]["message_id"])


def half(shell: Shell, topic: str, key: str) -> str:
    content = {"messages": [{"body": "x", "keys": [key]}]}
    path = f"{shell.url}/v1/topics/{topic}/transactions"
    answer = httpx.post(path, params={"producer_group": "why_pg"}, json=content, timeout=60).raise_for_status()
    return str(answer.json()["transactions"][0]["message_id"])


def test_each_group_is_told_with_the_command_that_mends_it(run: Run, shell: Shell) -> None:
    message_id = stored(shell, "why_groups", "w1")
    for group in ("why_paused", "why_gone"):
        shell("group", "reset", group, "why_groups", "--to", "earliest", "--yes")
    run("group", "pause", "why_paused", "--broker", shell.url)
    nacks = {
        "messages": [{"message_id": message_id, "delay_level": -1, "reason": {"class": "E", "text": "no\x1b[31m"}}]
    }
    httpx.post(f"{shell.url}/v1/groups/why_dead/nacks", json=nacks, timeout=60).raise_for_status()
    shell("group", "reset", "why_dead", "why_groups", "--to", "latest", "--yes")
    text = shell("message", "why", message_id)
    assert text.startswith(f"{message_id}  why_groups queue 0 offset 0\n")
    assert "why_paused: The group is paused: it is at offset 0, this is at 0. Resume it.\n" in text
    assert "next: lakemq group resume why_paused\n" in text
    assert "why_gone: The group has no consumers now: it is at offset 0, this is at 0. Start its consumers.\n" in text
    assert "why_dead: Dead letter since " in text
    assert "\x1b" not in text
    assert "next: lakemq dead-letters show why_dead " in text
    assert "why_dead  Became a dead letter" in text
    only = shell("message", "why", message_id, "--group", "why_gone")
    assert "why_gone: The group has no consumers" in only
    assert "why_dead" not in only
    (told,) = lines(shell("message", "why", message_id, "--json"))
    assert (told["message_id"], told["topic"], told["complete"]) == (message_id, "why_groups", True)
    assert {each["group"]: each["tone"] for each in told["answers"]} == dict.fromkeys(
        ("why_paused", "why_gone", "why_dead"), "bad"
    )
    assert told["steps"][0]["title"] == "Stored"


def test_a_group_that_does_not_consume_the_topic_is_told_from_one_that_is_not_there(run: Run, shell: Shell) -> None:
    message_id = stored(shell, "why_elsewhere", "w2")
    shell("produce", "why_other", "x")
    shell("group", "reset", "why_stranger", "why_other", "--to", "latest", "--yes")
    assert "The group doesn't consume why_elsewhere." in shell("message", "why", message_id, "--group", "why_stranger")
    assert "No group consumes why_elsewhere." in shell("message", "why", message_id)
    for arguments, code in (
        ([message_id, "--group", "why_nobody"], 1),
        ([message_id.rpartition(".")[0] + ".99999999"], 1),
        ([], 2),
        ([message_id, "--key", "k"], 2),
        ([message_id, "--topic", "why_elsewhere"], 2),
    ):
        done = run("message", "why", *arguments, "--broker", shell.url)
        assert (done.code, done.stderr.count("\n"), done.stdout) == (code, 1, "")


def test_a_key_finds_what_is_there_and_what_waits_in_one_topic_or_in_all(run: Run, shell: Shell) -> None:
    here, there = stored(shell, "why_key_a", "w3"), stored(shell, "why_key_b", "w3")
    later, open_half = stored(shell, "why_key_a", "w3", delay_ms=3_600_000), half(shell, "why_key_b", "w3")
    found = lines(shell("message", "search", "--key", "w3", "--json"))
    assert [(each["message_id"], each["topic"]) for each in found[:2]] == [(there, "why_key_b"), (here, "why_key_a")]
    waiting = {each["message_id"]: (each["topic"], each["waits_for"], each["group"]) for each in found[2:]}
    assert waiting == {later: ("why_key_a", "time", None), open_half: ("why_key_b", "commit", "why_pg")}
    one = lines(shell("message", "search", "why_key_a", "--key", "w3", "--json"))
    assert [each["message_id"] for each in one] == [here, later]
    text = shell("message", "search", "--key", "w3")
    assert f"{later} of why_key_a is delayed until " in text
    assert f"{open_half} of why_key_b is a half message: its producer (group why_pg) hasn't committed it" in text
    assert lines(shell("message", "search", "--key", "w3", "--end", "2000-01-01", "--json")) == []
    told = run("message", "why", "--key", "w3", "--max", "3", "--json", "--broker", shell.url)
    assert [each["message_id"] for each in lines(told.stdout)] == [later, open_half, there]
    assert told.stderr.startswith(f"lakemq: 3 with the key 'w3': {later}, {open_half}, {there}\n")
    assert "It is delayed: no group gets it before" in shell("message", "why", "--topic", "why_key_a", "--key", "w3")
    assert run("message", "search", "--broker", shell.url).code == 2


def test_a_key_that_no_message_has_is_an_error_that_says_what_was_searched(run: Run, shell: Shell) -> None:
    stored(shell, "why_none", "w7")
    for where, named in (
        ([], "any topic that this user may list and read"),
        (["--topic", "why_none"], "topic why_none"),
    ):
        done = run("message", "why", "--key", "w7-none", *where, "--json", "--broker", shell.url)
        searched = "searched its messages in the log and the lake, and what waits"
        assert (done.code, done.stdout) == (1, "")
        assert done.stderr.endswith(f"lakemq: no message of {named} has the key 'w7-none': {searched}\n")


def test_who_may_not_list_topics_is_told_to_name_one_or_which_right_to_ask_for(
    run: Run, shell: Shell, gateway: GatewayProcess, tmp_path: Path
) -> None:
    message_id = stored(shell, "why_rights", "w8")
    with connect(gateway) as admin:
        token = make_user(admin, "why_user", allow("Topic:why_rights", "Sub", "Get"))
    file = tmp_path / "why.token"
    file.write_text(token)
    file.chmod(0o600)
    as_user = ("--token-file", str(file), "message")
    for command, option in ((["search", "--key", "w8"], "TOPIC"), (["why", "--key", "w8"], "--topic TOPIC")):
        done = run(*as_user, *command, "--broker", shell.url)
        assert (done.code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        hint = f"give a topic with {option}, or ask an administrator for List on Topic:*"
        assert f"can't list the topics to search: {hint}" in done.stderr
    found = run(*as_user, "search", "why_rights", "--key", "w8", "--json", "--broker", shell.url)
    assert [each["message_id"] for each in lines(found.stdout)] == [message_id]


def test_a_long_key_of_what_waits_is_compared_whole(shell: Shell) -> None:
    """Regression: 200 characters of it were compared."""
    keys = ["w6" * 150 + end for end in "ab"]
    later = [stored(shell, "why_long_key", key, delay_ms=3_600_000) for key in keys]
    for key, message_id in zip(keys, later, strict=True):
        found = lines(shell("message", "search", "--key", key, "--json"))
        assert [each["message_id"] for each in found] == [message_id]


def test_a_retry_that_waits_is_told_of_its_message_which_is_found_once(shell: Shell, gateway: GatewayProcess) -> None:
    message_id = stored(shell, "why_retry", "w4")
    with connect(gateway) as http:
        nack(http, "why_again", {"message_id": message_id, "delay_level": 18})
    shell("group", "reset", "why_again", "why_retry", "--to", "latest", "--yes")
    why = ("message", "why", "--topic", "why_retry", "--key", "w4", "--group", "why_again")
    wait_until(lambda: "why_again: In retry 1 until " in shell(*why))  # the gateway decides it without jobs
    for where in ([], ["why_retry"]):
        assert [each["message_id"] for each in lines(shell("message", "search", *where, "--key", "w4", "--json"))] == [
            message_id
        ]


def test_a_search_of_all_topics_is_bounded_and_says_where_it_stopped(
    run: Run, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("why_many_a", "why_many_b"):
        stored(shell, topic, "w5")
    monkeypatch.setattr(all_topics, "TOPICS_MAX", 1)
    done = run("message", "search", "--key", "w5", "--broker", shell.url)
    assert "the search stopped after 1 topics, before " in done.stderr


def test_a_key_that_nothing_has_any_more_may_be_a_recalled_messages(run: Run, shell: Shell) -> None:
    told = run("message", "why", "--key", "why'recalled", "--broker", shell.url)
    assert (told.code, told.stdout) == (1, "")
    (command,) = re.findall(r"to see whether it was recalled: (.*)", told.stderr)
    assert shlex.split(command)[-1].endswith(r"FROM scheduled WHERE array_contains(keys, 'why\'recalled')")


def test_an_expired_message_is_told_from_one_that_waits_for_its_consumers(shell: Shell) -> None:
    message_id = stored(shell, "why_expired", "e1", ttl_ms=1)
    shell("group", "reset", "why_late", "why_expired", "--to", "earliest", "--yes")
    text = shell("message", "why", message_id)
    assert "why_late: Expired at " in text
    assert "    Expired\n" in "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def test_a_key_in_the_place_of_an_id_gets_the_command_that_finds_it(run: Run, shell: Shell) -> None:
    told = run("message", "why", "o-3", "--broker", shell.url)
    assert (told.code, told.stdout) == (1, "")
    assert "if it is a key: lakemq message why --key o-3" in told.stderr
