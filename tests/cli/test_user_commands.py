"""The commands about users, and what they may do."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest

from lakemq.client.errors import Unreachable
from lakemq.client.http import HttpClient
from lakemq.client.user_api import UserApi
from lakemq.model.token import parse_token
from lakemq.testing import ManualClock, MemoryBroker, start_gateway
from tests.cli.fleet import Fleet, lines
from tests.cli.shell import Run, Shell

_numbers = count()


@pytest.fixture
def root(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, run: Run) -> Fleet:
    """The fleet, asked by a super user of it: after `run`, which forgets what the environment says."""
    monkeypatch.setenv("LAKEMQ_TOKEN", fleet.token)
    return fleet


@pytest.fixture
def user() -> str:
    """A name that no other test uses."""
    return f"user-{next(_numbers)}"


def test_a_user_is_made_shown_changed_and_deleted(run: Run, shell: Shell, user: str) -> None:
    shell("user", "put", user)
    assert {"user": user, "type": "normal", "status": "enabled"} in lines(shell("user", "list", "--json"))
    shell("user", "put", user, "--type", "super")
    shell("user", "put", user, "--status", "disabled")
    shown = json.loads(shell("user", "show", user, "--json"))
    assert (shown["type"], shown["status"], shown["tokens"], shown["policies"]) == ("super", "disabled", [], [])
    assert "disabled" in shell("user", "show", user)
    assert user in shell("user", "list")
    asked = run("user", "delete", user, "--broker", shell.url, stdin="n\n")
    assert (asked.code, user in shell("user", "list")) == (1, True)
    shell("user", "delete", user, "--yes")
    gone = run("user", "show", user, "--broker", shell.url)
    assert (gone.code, gone.stderr) == (1, f"lakemq: there is no user {user!r}\n")
    wrong = run("user", "put", user, "--type", "root", "--broker", shell.url)
    assert (wrong.code, wrong.stderr.count("\n")) == (1, 1)


def test_a_broker_that_serves_requests_without_a_token_is_warned_of(
    run: Run, shell: Shell, user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warned(*arguments: str, url: str = shell.url) -> bool:
        done = run(*arguments, "--broker", url)
        assert done.code == 0, done.stderr
        return "serves requests without a token" in done.stderr and "until auth.required = true" in done.stderr

    assert warned("user", "put", user)
    assert warned("user", "token", "add", user)
    assert warned("acl", "add", user, "Pub", "Topic:warned")
    assert warned("acl", "check", user, "Pub", "Topic:warned")
    assert "warning" not in run("user", "delete", "nobody", "--yes", "--broker", shell.url).stderr
    with start_gateway(tmp_path / "data", auth__required=True) as gateway:
        monkeypatch.setenv("LAKEMQ_TOKEN", (tmp_path / "data/admin.token").read_text("ascii").strip())
        assert not warned("user", "put", user, url=gateway.url)


def test_quotas_are_given_shown_and_taken_back(run: Run, shell: Shell, user: str) -> None:
    shell("user", "put", user, "--requests-per-s", "0.5", "--bytes-per-s", "1048576")
    shell("user", "put", user, "--connections", "0", "--bytes-per-s", "default")
    shell("user", "put", user, "--topics", "20", "--queues", "100")
    quotas = json.loads(shell("user", "show", user, "--json"))["quotas"]
    said = {"requests_per_s": 0.5, "bytes_per_s": None, "connections": 0, "topics": 20, "queues": 100}
    assert quotas == said
    assert "quotas: requests_per_s 0.5, connections none, topics 20, queues 100" in shell("user", "show", user)
    shell("user", "put", user, "--requests-per-s", "default", "--connections", "default")
    shell("user", "put", user, "--topics", "default", "--queues", "default")
    assert "quotas" not in shell("user", "show", user)
    for option, text in (("--requests-per-s", "many"), ("--bytes-per-s", "inf"), ("--connections", "1.5")):
        wrong = run("user", "put", user, option, text, "--broker", shell.url)
        assert (wrong.code, option in wrong.stderr) == (2, True)
    wrong = run("user", "put", user, "--bytes-per-s", "-1", "--broker", shell.url)
    assert (wrong.code, wrong.stderr.count("\n")) == (1, 1)


def test_a_token_alone_is_written_and_says_who_it_is(run: Run, shell: Shell, user: str) -> None:
    shell("user", "put", user, "--type", "super")
    text = shell("user", "token", "add", user).removesuffix("\n")
    token = parse_token(text)
    with HttpClient(shell.url, token=text) as http:
        assert user in [each["user"] for each in http.users.all()]
    timed = parse_token(shell("user", "token", "add", user, "--expires", "90d").strip())
    listed = lines(shell("user", "token", "list", user, "--json"))
    assert [each["token_id"] for each in listed] == [token.id, timed.id]
    assert [each["expires_ms"] is None for each in listed] == [True, False]
    assert listed[1]["expires_ms"] - listed[1]["created_ms"] == pytest.approx(90 * 86_400_000, abs=60_000)
    for command in (("user", "show", user), ("user", "token", "list", user)):
        told = shell(*command)
        assert token.id in told
        assert token.secret not in told
        assert token.secret_hash not in told
    shell("user", "token", "delete", user, token.id)
    again = run("user", "token", "delete", user, token.id, "--broker", shell.url)
    assert (again.code, again.stderr.count("\n")) == (1, 1)
    assert [each["token_id"] for each in lines(shell("user", "token", "list", user, "--json"))] == [timed.id]
    assert run("user", "token", "add", user, "--expires", "soon", "--broker", shell.url).code == 2


def test_a_token_is_valid_so_long_by_the_clock_of_its_broker(
    run: Run, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was over at once where the broker's was ahead, and valid for years where it was behind."""
    with MemoryBroker(ManualClock()) as broker, HttpClient(broker.url, token=broker.token) as http:
        monkeypatch.setenv("LAKEMQ_TOKEN", broker.token)
        http.users.put(user)
        for expires in ("1h", "1000d"):
            done = run("user", "token", "add", user, "--expires", expires, "--broker", broker.url)
            assert done.code == 0, done.stderr
        tokens = http.users.tokens(user)
        assert [each["expires_ms"] - each["created_ms"] for each in tokens] == [3_600_000, 86_400_000_000]
        done = run("user", "token", "add", user, "--expires", "2000d", "--broker", broker.url)
        assert done.code == 0, done.stderr
        assert http.users.tokens(user)[-1]["expires_ms"] > 2000 * 86_400_000


def test_policies_are_added_removed_set_and_asked(run: Run, shell: Shell, user: str, tmp_path: Path) -> None:
    shell("user", "put", user)
    first = run("acl", "add", user, "Pub,Sub", "Topic:orders*", "--from", "10.0.0.0/8", "--broker", shell.url)
    assert f"user {user} has 1 policy\n" in first.stderr
    shell("acl", "add", user, "Pub", "Topic:orders-old", "--deny")
    listed = shell("acl", "list", user, "--json")
    assert lines(listed) == [
        {"resource": "Topic:orders*", "actions": ["Pub", "Sub"], "sources": ["10.0.0.0/8"], "decision": "allow"},
        {"resource": "Topic:orders-old", "actions": ["Pub"], "sources": [], "decision": "deny"},
    ]
    assert "10.0.0.0/8" in shell("acl", "list", user)
    may = ["acl", "check", user, "Pub", "Topic:orders"]
    assert shell(*may, "--from", "10.1.2.3") == "allowed: allow Pub, Sub on Topic:orders* from 10.0.0.0/8\n"
    denied = run(*may, "--broker", shell.url)
    assert (denied.code, denied.stdout) == (1, "denied: no policy allows it\n")
    old = run("acl", "check", user, "Pub", "Topic:orders-old", "--from", "10.1.2.3", "--json", "--broker", shell.url)
    assert (old.code, json.loads(old.stdout)) == (1, {"allowed": False, "by": "deny Pub on Topic:orders-old"})
    shell("acl", "remove", user, "Topic:orders-old")
    assert run("acl", "remove", user, "Topic:orders-old", "--broker", shell.url).code == 1
    file = tmp_path / "policies.ndjson"
    file.write_text(listed)
    shell("acl", "set", user, str(file))
    assert shell("acl", "list", user, "--json") == listed
    shell("acl", "set", user, "-", stdin="\n")
    assert shell("acl", "list", user, "--json") == ""
    for text in ("{", "[]", "\xff"):
        file.write_text(text, encoding="latin-1")
        bad = run("acl", "set", user, str(file), "--broker", shell.url)
        assert (bad.code, bad.stderr.count("\n")) == (2, 1)
    assert run("acl", "set", user, str(tmp_path / "none"), "--broker", shell.url).code == 2
    bad = run("acl", "add", user, "Fly", "Topic:orders", "--broker", shell.url)
    assert (bad.code, "policies[0]: an action is one of" in bad.stderr) == (1, True)


def test_a_fleet_has_a_user_with_one_token_and_the_same_policies(
    run: Run, root: Fleet, user: str, tmp_path: Path
) -> None:
    assert run("user", "put", user, "--type", "super", *root.named).stderr.count("is super and enabled at") == 2
    text = run("user", "token", "add", user, *root.named).stdout.strip()
    for url in root.urls.values():
        with HttpClient(url, token=text) as http:
            assert user in [each["user"] for each in http.users.all()]
    assert run("acl", "add", user, "Pub", "Topic:orders", *root.named).code == 0
    assert [each["broker"] for each in lines(run("acl", "list", user, "--json", *root.named).stdout)] == ["a", "b"]
    assert run("acl", "check", user, "Pub", "Topic:orders", *root.named).stdout.count("allowed at") == 2
    shown = lines(run("user", "show", user, "--json", *root.named).stdout)
    assert [each["broker"] for each in shown] == ["a", "b"]
    token_id = parse_token(text).id
    file = tmp_path / "one.token"
    file.write_text(text)
    assert run("user", "token", "delete", user, token_id, "--broker", root.urls["b"]).code == 0
    again = run("user", "token", "add", user, "--file", str(file), *root.named)
    assert (again.stdout, again.stderr.count(token_id)) == ("", 2), "also where it was known still"
    file.write_text("lmq_")
    assert run("user", "token", "add", user, "--file", str(file), *root.named).code == 2
    assert run("user", "token", "delete", user, token_id, *root.named).stderr.count("deleted") == 2
    assert run("user", "delete", user, "--yes", *root.named).stderr.count("deleted") == 2


def test_a_token_is_at_all_brokers_or_at_none(run: Run, root: Fleet, user: str) -> None:
    assert run("user", "put", user, "--broker", root.urls["a"]).code == 0
    refused = run("user", "token", "add", user, *root.named)
    assert (refused.code, refused.stdout, refused.stderr) == (1, "", f"lakemq: b: there is no user {user!r}\n")
    with HttpClient(root.urls["a"]) as http:
        assert http.users.tokens(user) == []
    assert run("acl", "add", user, "Pub", "Topic:orders", *root.named).code == 1
    assert "null" not in run("acl", "list", user, "--json", *root.named).stdout, "and so is a policy"


def test_a_token_that_was_taken_without_an_answer_is_taken_back(
    run: Run, root: Fleet, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("user", "put", user, *root.named).code == 0
    let_in = UserApi.let_in
    answers: list[None] = []

    def is_not_answered(*arguments: object) -> None:
        let_in(*arguments)  # pyright: ignore[reportArgumentType]
        answers.append(None)
        if len(answers) == 2:
            raise Unreachable("no answer", sent=True)

    monkeypatch.setattr(UserApi, "let_in", is_not_answered)
    assert run("user", "token", "add", user, *root.named).code == 1
    for url in root.urls.values():
        with HttpClient(url) as http:
            assert http.users.tokens(user) == []
