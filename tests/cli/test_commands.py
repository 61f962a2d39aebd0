"""The commands against a real gateway, what a user sees."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakemq import __version__
from lakemq.testing import start_gateway
from tests.cli.shell import Run, Shell


def test_a_message_comes_out_as_it_went_in(shell: Shell) -> None:
    options = ["--tag", "paid", "--key", "k1", "--key", "k2", "--property", "a=b=c", "--ordering-key", "o"]
    said = shell("produce", "cli_one", "grüß", *options)
    (message,) = shell.pulled("cli_one")
    assert message["body"] == "grüß"
    assert (message["tag"], message["keys"], message["properties"]) == ("paid", ["k1", "k2"], {"a": "b=c"})
    assert message["ordering_key"] == "o"
    assert said.split()[0] == message["message_id"]
    assert json.loads(shell("message", "get", said.split()[0], "--json")) == message


def test_what_steers_a_terminal_is_an_escape_in_json_and_left_out_of_text(shell: Shell) -> None:
    said = "a\x7f\x9b31m\u202eb\u2066\U000e0001"
    shell("produce", "cli_steering", said, "--key", said, "--tag", said)
    for content in (shell("pull", "cli_steering", "--json"), shell("message", "search", "cli_steering", "--json")):
        assert content.replace("\n", "").isprintable()
        message = json.loads(content)
        assert (message["body"], message["tag"], message["keys"]) == (said, said, [said])
    assert shell("pull", "cli_steering").replace("\n", "").isprintable()


def test_a_topic_is_configured_and_the_rest_stays_as_it_was(run: Run, shell: Shell) -> None:
    shell("topic", "create", "cli_config", "--queues", "3", "--message-type", "priority", "--ttl-ms", "60000")
    shell("topic", "config", "cli_config", "--message-bytes-max", "1000")
    shown = json.loads(shell("topic", "config", "cli_config", "--json"))
    config = {"message_type": "priority", "ttl_ms": 60_000, "message_bytes_max": 1_000}
    assert shown == {"topic": "cli_config", "permission": "rw", **config, "expired": 0}
    assert "priority" in shell("topic", "config", "cli_config")
    shell("produce", "cli_config", "urgent", "--priority", "2", "--ttl-ms", "50000")
    (message,) = shell.pulled("cli_config", "--queue", "2")
    assert (message["body"], message["priority"], message["ttl_ms"]) == ("urgent", 2, 50_000)
    refused = run("produce", "cli_config", "x", "--priority", "3", "--broker", shell.url)
    assert (refused.code, refused.stderr.count("\n")) == (1, 1)
    assert "has priorities 0 to 2, not 3" in refused.stderr
    nowhere = run("topic", "config", "cli_nowhere", "--ttl-ms", "1", "--broker", shell.url)
    assert (nowhere.code, nowhere.stderr) == (1, "lakemq: there is no topic 'cli_nowhere'\n")
    wrong = run("topic", "config", "cli_config", "--message-type", "x", "--broker", shell.url)
    assert (wrong.code, wrong.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize("typed", ["doctor --config x", "topic list --config=x", "topic --config x list"])
def test_an_option_of_all_commands_may_stand_anywhere(run: Run, typed: str) -> None:
    done = run(*typed.split())
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr.startswith("lakemq: can't read the settings in x: ")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("pull t --token-file x", "Invalid value for '--token-file': file 'x' does not exist. (see lakemq --help)"),
        ("topic list --config", "No such option: --config (see lakemq topic list --help)"),
        ("topic list --version", "--version stands alone: lakemq --version"),
        ("topic list --confg x", "No such option: --confg (Possible options: --json) (see lakemq topic list --help)"),
        ("--confg x doctor", "No such option: --confg (Possible options: --config) (see lakemq --help)"),
        ("sql --output", "Option '--output' requires an argument. (see lakemq --help)"),
    ],
)
def test_a_wrong_option_is_said_in_one_line(run: Run, typed: str, said: str) -> None:
    done = run(*typed.split())
    assert (done.code, done.stdout, done.stderr) == (2, "", f"lakemq: {said}\n")


def test_lines_of_stdin_are_messages(shell: Shell) -> None:
    shell("produce", "cli_lines", "--queue", "1", stdin="one\n\ntwo")
    assert [message["body"] for message in shell.pulled("cli_lines", "--queue", "1")] == ["one", "two"]


def test_a_file_carries_each_message_with_all_its_fields(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "orders.ndjson"
    rows = [{"body": str(number), "tag": "t", "queue_id": 0} for number in range(2_500)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shell("produce", "cli_file", "--file", str(file))
    messages = shell.pulled("cli_file", "--queue", "0", "--max", "10000", "--tags", "t")
    assert [message["body"] for message in messages] == [row["body"] for row in rows]


def test_a_topic_is_made_shown_and_deleted(run: Run, shell: Shell) -> None:
    shell("topic", "create", "cli_topic", "--queues", "3", "--permission", "r")
    listed = {topic["topic"]: topic for topic in map(json.loads, shell("topic", "list", "--json").splitlines())}
    assert listed["cli_topic"]["permission"] == "r"
    assert len(json.loads(shell("topic", "show", "cli_topic", "--json"))["queues"]) == 3
    assert "cli_topic" in shell("topic", "list")
    shell("topic", "delete", "cli_topic", "--yes")
    done = run("topic", "show", "cli_topic", "--broker", shell.url)
    assert (done.code, done.stderr.count("\n")) == (1, 1)


def test_a_message_is_delivered_later_or_recalled(run: Run, shell: Shell) -> None:
    shell("topic", "create", "cli_later", "--queues", "1")
    recalled = shell("produce", "cli_later", "never", "--delay", "1.5h").split()[0]
    delivered = shell("produce", "cli_later", "soon", "--delay", "50ms").split()[0]
    shell("produce", "cli_later", "past", "--deliver-at", "2013-01-01T05:15")
    assert "will not be delivered" in run("message", "recall", recalled, "--broker", shell.url).stderr
    assert json.loads(shell("message", "recall", recalled, "--json")) == {"message_id": recalled, "recalled": True}
    assert len(shell.pulled("cli_later", "--queue", "0", "--offset", "1", "--wait-ms", "60000")) == 1
    assert {each["body"] for each in shell.pulled("cli_later")} == {"soon", "past"}
    late = run("message", "recall", delivered, "--broker", shell.url)
    assert (late.code, late.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    "options",
    [["--delay", "5"], ["--delay", "x"], ["--deliver-at", "soon"], ["--delay", "1s", "--delay-level", "1"]],
)
def test_a_delay_that_is_none_is_refused(run: Run, options: list[str]) -> None:
    done = run("produce", "cli_later", "x", *options)
    assert (done.code, done.stderr.count("\n")) == (2, 1)


def test_a_body_can_not_steer_the_terminal(shell: Shell) -> None:
    shell("produce", "cli_escape", "a\x1b[31mred\x07")
    assert "\x1b" not in shell("pull", "cli_escape")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["pull", "x", "--broker", "http://127.0.0.1:1"], 1, "no answer from the gateway at http://127.0.0.1:1"),
        (["pull", "x", "--broker", "127.0.0.1:1"], 1, "is no address"),
        (["pull", "x", "--broker", "http://[::1"], 1, "--broker (or LAKEMQ_BROKER): 'http://[::1' is no address"),
        (["pull", "x", "--broker", "http://a:99999"], 1, "'http://a:99999' is no address"),
        (["produce", "x", "\udcff"], 1, "an argument is no UTF-8: '\\udcff'"),
        (["message", "get", "a\udcff"], 1, "an argument is no UTF-8: '\\udcff'"),
        (
            ["--config", "no-such-file", "pull", "x", "--broker", "http://a"],
            1,
            "can't read the settings in no-such-file",
        ),
        (["pull"], 2, "Missing argument 'TOPIC'"),
        (["topic", "create", "x", "--queues", "9" * 20], 1, "this can't be sent: Integer exceeds 64-bit range"),
        (["produce", "x", "b", "--queue", "9" * 20], 1, "this can't be sent: Integer exceeds 64-bit range"),
        (["produce", "x", "b", "--property", "a=\udcff"], 1, "this can't be sent: str is not valid UTF-8"),
        (["topic", "create", ""], 1, "'' is no name"),
        (["topic", "show", "a/b"], 1, "'a/b' is no name"),
        (["message", "get", ".."], 1, "'..' is no name"),
        (["consume", "x", "--group", "g", "--from", "2099"], 2, "2099 is no time in milliseconds since 1970"),
        (["produce", "x", "b", "--deliver-at", "1798135200"], 2, "1798135200 is no time in milliseconds"),
        (["produce", "x", "b", "--deliver-at", "9" * 30], 2, "is no time like"),
        (["produce", "x", "b", "--delay", "9" * 400 + "d"], 2, "is no duration like"),
        (["pull", "x", "--wait-ms", "5"], 2, "give --queue too"),
        (["produce", "x", "b", "--property", "a"], 2, "NAME=VALUE"),
        (["produce", "x", "--ack", "maybe"], 2, "one of async, sync, none"),
        (["produce", "x", "--file", "no-such-file"], 2, "can't read no-such-file: No such file"),
        (["produce", "x", "--file", "/"], 2, "can't read /: Is a directory"),
        (["produce", "x", "--file", "/proc/self/mem"], 1, "can't read /proc/self/mem: Input/output error"),
        (["produce", "x", "--file", "f", "--tag", "t"], 2, "says it all itself"),
        (["nonsense"], 2, "No such command 'nonsense'"),
        (["--config", "no-such-file", "topic", "list"], 1, "can't read the settings in no-such-file"),
        (["topic", "delete", "x"], 1, "not done"),
        (["log", "verify", "--data-dir", "no-such-folder"], 1, "there is no log in no-such-folder"),
        (["sql", "SELECT 1", "--lake", "no-such-folder"], 1, "there is no lake in no-such-folder yet"),
        (["demo", "--data-dir", "."], 2, "is not empty"),
        (["sql", "SELECT 1", "--output", "no-such-folder/a.csv"], 2, "there is no folder no-such-folder"),
        (["sql", "SELECT 1", "--chart", "no-such-folder/a.png"], 2, "there is no folder no-such-folder"),
        (["notebook", "convert", "stdin", "--output", "no-such-folder/a.html"], 2, "there is no folder no-such-folder"),
    ],
)
def test_an_error_is_one_line_that_names_what_is_wrong(
    arguments: list[str], code: int, said: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.code == code, done.stderr
    assert said in done.stderr
    assert done.stderr.count("lakemq: ") == 1
    assert "Traceback" not in done.stderr


def test_what_a_terminal_has_no_signs_for_is_an_error_in_one_line(shell: Shell) -> None:
    shell("produce", "cli_signs", "ü€")
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "LAKEMQ_BROKER": shell.url}
    command = [sys.executable, "-m", "lakemq", "pull", "cli_signs", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        done.stderr == "lakemq: the output's encoding, ascii, has no '\\xfc\\u20ac'; PYTHONIOENCODING=utf-8 has all\n"
    )


def test_an_unknown_setting_is_named_before_anything_starts(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "lakemq.toml"
    file.write_text("[gateway]\nprot = 1\n")
    done = run("--config", str(file), "gateway", "--data-dir", str(tmp_path / "data"))
    assert done.code == 1
    assert "unknown setting 'gateway.prot'" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_file_of_settings_may_begin_as_some_editors_have_it(run: Run, tmp_path: Path) -> None:
    """Its first line was no valid TOML, and showed nothing wrong."""
    file = tmp_path / "lakemq.toml"
    file.write_text(f"[storage]\ndata_dir = '{tmp_path / 'data'}'\n", encoding="utf-8-sig")
    assert f"there is no log in {tmp_path / 'data'}" in run("--config", str(file), "log", "verify").stderr


def test_options_override_the_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "lakemq.toml"
    file.write_text("[storage]\nflush = 'sync'\n")
    done = run("--config", str(file), "gateway", "--flush", "never")
    assert done.code == 1
    assert "'storage.flush' in the options" in done.stderr


def test_a_log_is_verified_and_needs_no_repair(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start_gateway(data) as gateway:
        Shell(run, gateway.url)("produce", "orders", stdin="a\nb\n")
    verified = run("log", "verify", "--data-dir", str(data))
    assert verified.code == 0, verified.stderr
    assert "sound: " in verified.stdout
    repaired = run("log", "repair", "--data-dir", str(data))
    assert repaired.code == 0, repaired.stderr
    assert "nothing to repair" in repaired.stdout


def test_damage_is_named_and_repair_keeps_the_rest(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start_gateway(data) as gateway:
        shell = Shell(run, gateway.url)
        for body in ("first", "second", "third"):
            shell("produce", "orders", body, "--queue", "0")
    (segment,) = (data / "commitlog").glob("*.log")
    content = segment.read_bytes()
    segment.write_bytes(content.replace(b"second", b"sEcond"))
    verified = run("log", "verify", "--data-dir", str(data))
    assert verified.code == 1
    assert segment.name in verified.stdout
    assert "lakemq log repair" in verified.stderr
    repaired = run("log", "repair", "--data-dir", str(data))
    assert repaired.code == 0, repaired.stderr
    assert "lost 1 positions" in repaired.stdout
    with start_gateway(data) as gateway:
        bodies = [message["body"] for message in Shell(run, gateway.url).pulled("orders", "--queue", "0")]
    assert "first" in bodies
    assert "sEcond" not in bodies


def test_messages_of_a_file_of_frames_are_shown_with_their_ids(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start_gateway(data) as gateway:
        shell = Shell(run, gateway.url)
        shell("produce", "orders", stdin="a\nb\n")
        ids = {message["message_id"] for message in shell.pulled("orders")}
    (segment,) = (data / "commitlog").glob("*.log")
    shown = run("log", "show", str(segment))
    assert shown.code == 0, shown.stderr
    messages = [json.loads(line) for line in shown.stdout.splitlines()]
    assert {each["message_id"] for each in messages if each["topic"] == "orders"} == ids
    segment.write_bytes(segment.read_bytes()[:-8])
    torn = run("log", "show", str(segment))
    assert torn.code == 1
    assert "holds no sound frame at byte" in torn.stderr
    assert run("log", "show", str(data / "none")).code != 0


def test_help_shows_examples(run: Run) -> None:
    done = run("--help")
    assert done.code == 0
    assert 'lakemq produce greetings "hello" --tag first' in done.stdout


def test_the_command_line_loads_neither_spark_nor_a_server_nor_arrow_nor_the_clients_loop() -> None:
    probe = (
        "import sys, lakemq.cli.app, lakemq.client.http;"
        "print([name for name in ('pyspark', 'uvicorn', 'pyarrow', 'aiohttp', 'asyncio') if name in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_every_command_teaches_with_an_example() -> None:
    from lakemq.cli.app import app

    groups = [app, *(group.typer_instance for group in app.registered_groups if group.typer_instance)]
    commands = [command for group in groups for command in group.registered_commands]
    assert len(commands) >= 13
    silent = [
        command.callback.__name__
        for command in commands
        if command.callback is not None and not re.search(r"^ *lakemq ", command.callback.__doc__ or "", re.MULTILINE)
    ]
    assert silent == []


def test_the_installed_command_says_its_version() -> None:
    command = Path(sys.executable).with_name("lakemq")
    said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == f"lakemq {__version__}"
