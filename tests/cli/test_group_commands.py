"""The commands about groups, and those that consume and search."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from lakemq.cli import output, search
from lakemq.cli.pace import Pace
from lakemq.client.http import HttpClient
from tests.cli.shell import Run, Shell
from tests.gateway.routing.asking import wait_until


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def fill(shell: Shell, folder: Path, topic: str, count: int = 10) -> None:
    """A topic of one queue with so many messages: tags A and B, key k0 …, property amount."""
    shell("topic", "create", topic, "--queues", "1")
    rows = [
        {
            "body": str(number),
            "tag": "AB"[number % 2],
            "keys": [f"k{number}", "it's"],
            "properties": {"amount": str(number)},
        }
        for number in range(count)
    ]
    file = folder / "rows.ndjson"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shell("produce", topic, "--file", str(file))


def test_a_group_goes_on_where_it_ended(run: Run, shell: Shell, tmp_path: Path) -> None:
    fill(shell, tmp_path, "cli_consume")
    options = ["cli_consume", "--group", "cli_g"]  # a group that is new begins with the first message
    shown = lines(shell("consume", *options, "--max", "4", "--json"))
    assert [message["body"] for message in shown] == ["0", "1", "2", "3"]
    assert shown[0]["properties"] == {"amount": "0"}
    assert shell("consume", *options, "--max", "2").split("\n")[0].endswith("cli_consume/0@4 A k4 it's 4")
    shown = lines(shell("consume", *options, "--filter", "amount > 7 AND TAGS = 'B'", "--max", "1", "--json"))
    assert [message["body"] for message in shown] == ["9"]
    assert json.loads(shell("group", "lag", "cli_g", "--json").splitlines()[0])["lag"] == 0
    shell("group", "reset", "cli_g", "cli_consume", "--to", "earliest", "--yes")
    assert [message["body"] for message in lines(shell("consume", *options, "--max", "1", "--json"))] == ["0"]
    both = run("consume", *options, "--tags", "A", "--filter", "amount > 1", "--broker", shell.url)
    assert (both.code, both.stderr.count("\n")) == (2, 1)


def test_a_group_is_listed_shown_and_reset(run: Run, shell: Shell, tmp_path: Path) -> None:
    fill(shell, tmp_path, "cli_reset")
    (offset,) = lines(shell("group", "reset", "cli_r", "cli_reset", "--to", "latest", "--yes", "--json"))
    assert offset == {"topic": "cli_reset", "queue_id": 0, "offset": 10}
    (listed,) = [group for group in lines(shell("group", "list", "--json")) if group["group"] == "cli_r"]
    assert (listed["topics"], listed["lag_total"]) == (["cli_reset"], 0)
    assert "10" in shell("group", "reset", "cli_r", "cli_reset", "--to", "2100-01-01", "--yes")
    shell("group", "reset", "cli_r", "cli_reset", "--to", "0", "--yes")
    assert lines(shell("group", "lag", "cli_r", "--json"))[0]["lag"] == 10
    assert json.loads(shell("group", "show", "cli_r", "--json"))["lag_total"] == 10
    for command in (("list",), ("show", "cli_r"), ("lag", "cli_r")):
        assert {"cli_r", "cli_reset", "10"} <= set(shell("group", *command).replace(":", " ").split())
    asked = run("group", "reset", "cli_r", "cli_reset", "--to", "latest", "--broker", shell.url, stdin="n\n")
    assert (asked.code, lines(shell("group", "lag", "cli_r", "--json"))[0]["lag"]) == (1, 10)
    for unknown in (("show", "nobody"), ("lag", "nobody"), ("reset", "g", "nothing", "--to", "latest", "--yes")):
        done = run("group", *unknown, "--broker", shell.url)
        assert (done.code, done.stderr.count("\n")) == (1, 1)
    assert run("group", "reset", "g", "t", "--to", "soon", "--yes", "--broker", shell.url).code == 2


def test_a_group_is_deleted(run: Run, shell: Shell, tmp_path: Path) -> None:
    fill(shell, tmp_path, "cli_delete")
    shell("group", "reset", "cli_d", "cli_delete", "--to", "latest", "--yes")
    kept = run("group", "delete", "cli_d", "--broker", shell.url, stdin="n\n")
    assert (kept.code, json.loads(shell("group", "show", "cli_d", "--json"))["group"]) == (1, "cli_d")
    shell("group", "delete", "cli_d", "--yes")
    for _ in range(2):
        done = run("group", "delete", "cli_d", "--yes", "--broker", shell.url)
        assert (done.code, done.stderr.count("\n")) == (1, 1)


def test_dead_letters_are_counted_and_sent_again(run: Run, shell: Shell) -> None:
    ids = [shell("produce", "cli_dead", body, "--tag", body).split()[0] for body in ("a", "b", "c")]
    reason = {"class": "ValueError", "text": "\x1b[31mno\namount"}
    nacks = [{"message_id": message_id, "delay_level": -1, "reason": reason} for message_id in ids]
    answer = httpx.post(f"{shell.url}/v1/groups/cli_d/nacks", json={"client_id": "c", "messages": nacks}, timeout=60)
    assert answer.status_code == 200
    assert shell("pull", "%DLQ%cli_d").count("ValueError: \\x1b[31mno") == 3
    by_class = "failure_class = 'ValueError' AND deliveries = 1 AND tag > 'a'"
    letters = lines(shell("dead-letters", "list", "cli_d", "--json", "--reason", "valueerror"))
    assert [each["tag"] for each in letters] == ["c", "b", "a"]
    assert {(each["state"], each["deliveries"]) for each in letters} == {("open", 1)}
    shown = json.loads(shell("dead-letters", "show", "cli_d", letters[0]["message_id"], "--json"))
    assert (shown["body"], shown["topic"], shown["state"], shown["tag"]) == ("c", "cli_dead", "open", "c")
    assert "ValueError" in shell("dead-letters", "list", "cli_d", "--begin", "2020-01-01", "--max", "1")
    causes = lines(shell("dead-letters", "causes", "cli_d", "--json", "--max", "2"))
    assert [(each["cause"], each["letters"]) for each in causes] == [("ValueError", 2)]
    assert len(lines(shell("dead-letters", "list", "cli_d", "--json", "--cause", "ValueError"))) == 3
    assert lines(shell("dead-letters", "list", "cli_d", "--json", "--cause", "Value")) == []
    hopeless = ("dead-letters", "discard", "cli_d", "--where", "tag = 'a'")
    assert shell(*hopeless, "--dry-run") == "1 dead letter of cli_d would be discarded; none was\n"
    kept = run(*hopeless, "--broker", shell.url, stdin="n\n")
    assert (kept.code, "Discard 1 dead letter of cli_d?" in kept.stderr) == (1, True)
    assert len(lines(shell("dead-letters", "list", "cli_d", "--json"))) == 3
    elsewhere = run("dead-letters", "show", "cli_other", letters[0]["message_id"], "--broker", shell.url)
    assert (elsewhere.code, "no dead letter" in elsewhere.stderr) == (1, True)
    assert shell("group", "redrive", "cli_d", "--where", by_class, "--dry-run").startswith("2 dead letters of cli_d")
    assert shell("group", "redrive", "cli_d", "--where", "tag = 'a'").startswith("1 of 1 dead letters")
    done = json.loads(shell("group", "redrive", "cli_d", "--where", "true", "--rate", "99.5", "--json"))
    assert (done["redriven"], done["failed"], done["rate_per_s"]) == (2, 0, 99.5)
    results = lines(shell("dead-letters", "watch", done["redrive_id"], "--json"))
    assert [each["status"] for each in results] == ["redriven", "redriven"]
    assert lines(shell("dead-letters", "list", "cli_d", "--json")) == []
    assert len(lines(shell("dead-letters", "list", "cli_d", "--state", "redriven", "--json"))) == 3


def test_dead_letters_are_discarded_once_that_is_confirmed(run: Run, shell: Shell) -> None:
    ids = [shell("produce", "cli_hopeless", body, "--tag", body).split()[0] for body in ("a", "b", "c")]
    nacks = {"messages": [{"message_id": message_id, "delay_level": -1} for message_id in ids]}
    httpx.post(f"{shell.url}/v1/groups/cli_h/nacks", json=nacks, timeout=60).raise_for_status()
    discard = ("dead-letters", "discard", "cli_h", "--where")
    agreed = run(*discard, "tag = 'a'", "--broker", shell.url, stdin="y\n")
    assert (agreed.code, agreed.stdout.strip()) == (0, "discarded 1 of 1 dead letters of cli_h")
    assert json.loads(shell(*discard, "tag = 'b'", "--yes", "--json"))["discarded"] == 1
    assert shell(*discard, "tag = 'a'") == "discarded 0 of 0 dead letters of cli_h\n"  # nothing to agree to
    states = lines(shell("dead-letters", "list", "cli_h", "--state", "all", "--json"))
    assert [each["state"] for each in states] == ["open", "discarded", "discarded"]
    discarded = lines(shell("dead-letters", "list", "cli_h", "--state", "discarded", "--json"))
    assert [each["tag"] for each in discarded] == ["b", "a"]


@pytest.mark.parametrize("columns", [80, 120, None])
def test_ids_stay_whole_while_other_columns_shrink(
    run: Run, shell: Shell, monkeypatch: pytest.MonkeyPatch, columns: int | None
) -> None:
    topic, group = f"cli_whole_{columns}_{'t' * 60}", f"cli_whole_{columns}_{'g' * 60}"
    message_id = shell("produce", topic, "b" * 200, "--key", "k" * 60).split()[0]
    reason = {"class": "lakemq.client.DecodeErrorOfOurs", "text": "no answer in time " * 20}
    nacks = {"messages": [{"message_id": message_id, "delay_level": -1, "reason": reason}]}
    httpx.post(f"{shell.url}/v1/groups/{group}/nacks", json=nacks, timeout=60).raise_for_status()
    (letter,) = lines(shell("dead-letters", "list", group, "--json"))
    if columns is not None:
        monkeypatch.setattr(output, "_console", lambda **_: Console(width=columns, force_terminal=True, no_color=True))
    table = shell("dead-letters", "list", group)
    assert letter["message_id"] in table
    rows = re.sub(r"\x1b\[[0-9;]*m", "", table).splitlines()
    assert all(len(row) <= (columns or 100) for row in rows)
    why = "".join(row.split("│")[-3].strip() for row in rows if "│" in row)
    assert why.startswith(reason["class"]), "a predicate takes the class as it is"
    found = shell("message", "search", topic)
    assert message_id in found


def test_messages_are_found_by_key_tag_property_and_time(run: Run, shell: Shell, tmp_path: Path) -> None:
    fill(shell, tmp_path, "cli_search")

    def found(*options: str) -> list[str]:
        return [message["body"] for message in lines(shell("message", "search", "cli_search", "--json", *options))]

    assert found("--max", "3") == ["9", "8", "7"]
    assert found("--key", "k4") == ["4"]
    assert found("--key", "it's", "--max", "2") == ["9", "8"]
    assert found("--key", "k%") == []
    assert found("--tags", "A", "--filter", "amount >= 6") == ["8", "6"]
    assert found("--key", "it's", "--filter", "amount < 2 -- a comment") == ["1", "0"]
    assert found("--begin", "2100-01-01") == []
    assert found("--end", "2000-01-01") == []
    assert len(found("--begin", "2000-01-01", "--end", "2100-01-01")) == 10
    shown = shell("message", "search", "cli_search", "--key", "k4")
    assert "k4 it's" in shown
    bad = run("message", "search", "cli_search", "--key", "k", "--filter", "amount >", "--broker", shell.url)
    assert bad.code == 1
    assert bad.stderr.endswith("at character 8\n")
    assert found("--key", "it's", "--tags", "B", "--max", "2") == ["9", "7"]
    assert found("--key", "it's", "--begin", "2100-01-01") == []
    assert len(found("--key", "it's", "--begin", "2000-01-01", "--end", "2100-01-01")) == 10
    assert [m["body"] for m in lines(shell("pull", "cli_search", "--filter", "amount = 5", "--json"))] == ["5"]


def test_a_search_by_key_goes_on_page_by_page_and_reads_none_of_the_rest(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shell, tmp_path, "cli_pages", 40)
    monkeypatch.setattr(search, "BY_KEY_MAX", 39)
    with HttpClient(shell.url) as client:
        monkeypatch.setattr(client, "pull", lambda *_: pytest.fail("the topic was read"))
        found = search.search(client, "cli_pages", search.SearchQuery("it's", "*", None, None, None, 100))
    # All forty may be of one millisecond: of more than a page in one it says that it didn't see all.
    bodies = [message.body.decode() for message in found.messages]
    assert bodies == [str(number) for number in reversed(range(40))][: len(bodies)]
    assert found.complete == (len(bodies) == 40)
    assert len(bodies) >= 39


def test_a_broker_may_be_named_by_the_environment(run: Run, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell("topic", "create", "cli_environment")
    monkeypatch.setenv("LAKEMQ_BROKER", shell.url)
    assert "cli_environment" in run("topic", "list").stdout
    assert run("topic", "list", "--broker", "http://127.0.0.1:1").code == 1
    monkeypatch.setenv("LAKEMQ_BROKER", f"{shell.url}, http://127.0.0.1:1")
    several = run("group", "list")
    assert (several.code, several.stderr.count("\n")) == (1, 1)
    assert "http://127.0.0.1:1" in several.stderr, "none of several is left out in silence"
    monkeypatch.setenv("LAKEMQ_BROKER", "127.0.0.1:1")
    assert "LAKEMQ_BROKER" in run("topic", "list").stderr
    monkeypatch.setenv("LAKEMQ_GATEWAY_PORT", "1")
    assert "did you mean LAKEMQ_GATEWAY__PORT" in run("gateway").stderr


def test_lines_of_json_come_from_stdin_at_a_rate(shell: Shell) -> None:
    began = time.monotonic()
    rows = "".join(json.dumps({"body": str(number), "tag": "T", "queue_id": 0}) + "\n" for number in range(30))
    shell("produce", "cli_rate", "--file", "-", "--rate", "100", stdin=rows)
    assert [message["tag"] for message in shell.pulled("cli_rate", "--queue", "0")] == ["T"] * 30
    assert time.monotonic() - began >= 0.2, "30 at 100 a second: the last ten wait for 0.2 s"


def test_a_pace_holds_back_what_is_too_much_and_gives_nothing_for_idling() -> None:
    now, slept = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(round(seconds, 3))
        now[0] += seconds

    pace = Pace(50, lambda: now[0], sleep)
    assert pace.step(1_000) == 5
    pace.wait(5)
    pace.wait(5)
    now[0] += 10
    pace.wait(5)
    pace.wait(5)
    assert slept == [0.1, 0.1]
    assert Pace(0.5).step(1_000) == 1
    assert Pace(None).step(1_000) == 1_000


@pytest.fixture
def terminal() -> Iterator[None]:
    """Processes that are begun meanwhile hear of its end, also where these tests run under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_consumer_that_is_ended_leaves_its_group(shell: Shell, tmp_path: Path, end: signal.Signals) -> None:
    group, topic = f"cli_end_{end.value}", f"cli_end_{end.value}"
    fill(shell, tmp_path, topic)
    command = [sys.executable, "-m", "lakemq", "consume", topic, "--group", group, "--from", "first", "--json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
    process = subprocess.Popen(
        [*command, "--broker", shell.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    seen = [json.loads(process.stdout.readline())["body"] for _ in range(10)]
    assert seen == [str(number) for number in range(10)]
    # What was shown is committed a bit later.
    wait_until(lambda: json.loads(shell("group", "show", group, "--json"))["lag_total"] == 0)
    assert len(json.loads(shell("group", "show", group, "--json"))["members"]) == 1
    process.send_signal(end)
    _, said = process.communicate(timeout=120)
    assert (process.returncode, said.count("\n")) == (0, 1), said
    left = json.loads(shell("group", "show", group, "--json"))
    assert (left["members"], left["lag_total"]) == ([], 0)


def test_a_group_is_paused_and_resumed(run: Run, shell: Shell, tmp_path: Path) -> None:
    fill(shell, tmp_path, "cli_pause", 2)
    assert run("group", "pause", "cli_paused", "--broker", shell.url).stderr == "lakemq: group cli_paused is paused\n"
    assert json.loads(shell("group", "show", "cli_paused", "--json"))["consume_enabled"] is False
    assert "paused" in next(line for line in shell("group", "list").splitlines() if "cli_paused" in line)
    shown = run("group", "show", "cli_paused", "--broker", shell.url)
    assert shown.stderr == "lakemq: cli_paused is paused: lakemq group resume cli_paused\n"
    assert run("group", "resume", "cli_paused", "--broker", shell.url).stderr == "lakemq: group cli_paused consumes\n"
    assert run("group", "show", "cli_paused", "--broker", shell.url).stderr == ""
    (message, _) = lines(shell("consume", "cli_pause", "--group", "cli_paused", "--max", "2", "--json"))
    assert message["body"] == "0"


def test_one_client_is_paused_and_resumed_and_who_receives_is_shown(run: Run, shell: Shell) -> None:
    with HttpClient(shell.url) as http:
        http.create_topic("cli_one", 1)
    with httpx.Client(base_url=shell.url, trust_env=False, timeout=60) as http:
        http.post("/v1/groups/cli_one/members/w-7/heartbeat", json={"subscriptions": []}).raise_for_status()
        http.post("/v1/groups/cli_one/receive", json={"topic": "cli_one", "wait_ms": 0}).raise_for_status()
    at = ("--broker", shell.url)
    paused = run("group", "pause", "cli_one", "--client", "w-7", *at)
    assert (paused.code, paused.stderr) == (0, "lakemq: w-7 of group cli_one is paused\n")
    said = {each["kind"]: each for each in lines(shell("group", "clients", "cli_one", "--json"))}
    assert (said["consumer"]["consume_enabled"], said["receiver"]["topics"]) == (False, ["cli_one"])
    table = shell("group", "clients", "cli_one").splitlines()
    assert "paused" in next(line for line in table if "w-7" in line)
    assert any("receiver" in line for line in table)
    assert run("group", "resume", "cli_one", "--client", "w-7", *at).stderr.endswith("w-7 of group cli_one consumes\n")
    assert run("group", "pause", "cli_one", "--client", "nobody", *at).code == 1


def test_who_is_connected_is_shown(run: Run, shell: Shell) -> None:
    with HttpClient(shell.url) as http:
        http.create_topic("cli_clients", 1)
    base = {"base_url": shell.url, "trust_env": False, "timeout": 60}
    with httpx.Client(**base) as http:  # pyright: ignore[reportArgumentType]
        status = {"language": "go", "version": "1.2", "queue_count": 1, "paused": True, "stuck": 2, "buffered": 1_234}
        http.post("/v1/groups/cli_there/members/cli-m/heartbeat", json={"client": status}).raise_for_status()
        producer = {"producer_group": "cli_p", "topics": [f"cli_t{number}" for number in range(7)]}
        http.put("/v1/clients/cli-p%1B%5B2J", json=producer).raise_for_status()
    (member,) = lines(shell("group", "clients", "cli_there", "--json"))
    assert (member["client_id"], member["stuck"]) == ("cli-m", 2)
    assert "address" not in member, "that is shown by a token alone"
    shown = shell("group", "clients", "cli_there")
    for each in ("cli-m", "1 queue", "1,234", "paused"):
        assert each in shown, each
    (sender,) = lines(shell("clients", "--producer-group", "cli_p", "--json"))
    assert sender["kind"] == "producer"
    everybody = shell("clients")
    assert "cli-m" in everybody
    assert "\x1b[2J" not in everybody, "what clients say doesn't steer the terminal"
    assert {each["client_id"] for each in lines(shell("clients", "--json"))} >= {"cli-m", "cli-p\x1b[2J"}
    assert run("group", "clients", "cli_nobody", "--broker", shell.url).code == 1
