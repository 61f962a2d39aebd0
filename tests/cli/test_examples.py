"""Every command with every flag, from the examples that its own help shows, against a real broker and its jobs.

A flag that no example shows is run here too, or it must be one that several commands share; else a test fails.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from lakemq.testing import start_gateway
from tests.cli.examples import Call, Flag, all_examples, all_flags, call_of, shell_lines
from tests.cli.shell import Run
from tests.demo.test_demo import COMMAND as DEMO
from tests.gateway.http import produce

ROOT = Path(__file__).parents[2]
WAIT_S_MAX = 300.0
pytestmark = pytest.mark.timeout(500)

SHARED = {"broker": "--broker http://127.0.0.1:9000", "lake": "--lake lake", "as_json": "--json"}
"""Options that are the same everywhere: not each help shows them, so its first example is run with them too."""

SLOW = {"lake", "sql", "replay", "erase", "maintenance", "notebook"}
"""Commands that use Spark: their first example is run with those options only."""

BEFORE = {
    "": "",
    "tail -f access.log": "GET /\nGET /about\n",
    "jq -c '{body: .text, keys: [.id]}' events.json": '{"body": "text", "keys": ["id"]}\n',
}
"""What the other commands in the examples' pipes write."""

UNTIL = {
    "up": "stop with Ctrl-C",
    "gateway": "listening on",
    "consume": "Ctrl-C ends it",
    "jobs": "",
}
"""Commands that run until Ctrl-C, and when they have begun to."""

FLIGHTS = [{"body": "{}", "tag": "UA", "keys": ["UA1545"]}]
ORDERS = [{"body": '{"amount": 20}', "tag": "paid", "keys": ["42", "user-17"], "properties": {"amount": "200"}}]


def all_calls() -> dict[str, Call]:
    """The examples, and for each command the shared options that none of its examples shows."""
    calls = {**all_examples(), "lakemq --version": Call(["--version"])}
    missing = all_flags() - flags_of(calls)
    for path in dict.fromkeys(call.path for call in all_examples().values()):
        first = next(line for line, call in calls.items() if call.path == path and not call.before)
        more = [text for name, text in SHARED.items() if Flag(path, name) in missing]
        if more:
            line = " ".join([first, *more])
            calls[line] = call_of(line)
            if path[0] in SLOW:
                del calls[first]
    return calls


def flags_of(calls: dict[str, Call]) -> set[Flag]:
    return {flag for call in calls.values() for flag in call.flags()}


CALLS = all_calls()
IN_DEMO = {line for line, call in CALLS.items() if call.path == ("demo",)}
"""The demo is run by its own test."""
BACKUPS = "backups"
JOBS = "lakemq jobs"
"""Runs all the while."""


def test_there_is_no_command_and_no_flag_that_was_never_run() -> None:
    run = flags_of({line: call for line, call in CALLS.items() if line not in IN_DEMO})
    run |= call_of(DEMO).flags()
    run.add(Flag((), "_"))  # --version, which ends all else
    assert sorted(all_flags() - run) == []


def test_every_example_is_understood() -> None:
    """So that none is left out unseen."""
    assert len(CALLS) >= 80
    assert {call.before for call in CALLS.values()} == set(BEFORE)


@dataclass(frozen=True)
class Site:
    """A broker with its jobs, and the folder that commands are given in."""

    folder: Path
    url: str
    http: httpx.Client

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LAKEMQ_BROKER": self.url,
            "LAKEMQ_LAKE__DIR": "lake",
            "LAKEMQ_GATEWAY__PORT": "0",
            "LAKEMQ_STORAGE__DATA_DIR": "own",
            "LAKEMQ_SPARK__DRIVER_MEMORY": "1g",
            "LAKEMQ_SPARK__NICENESS": "0",
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }

    def start(self, arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
        with log.open("wb") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "lakemq", *arguments],
                cwd=self.folder,
                env=environment | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def placed(self, call: Call) -> list[str]:
        """The arguments, with what is elsewhere on this machine, and ids that there are."""
        scheduled = produce(self.http, "reminders", {"body": "later", "delay_ms": 3_600_000})[0]["message_id"]
        stored = produce(self.http, "orders", *ORDERS)[0]["message_id"]
        produce(self.http, "flights", *FLIGHTS)
        for topic in ("greetings", "shop"):
            produce(self.http, topic, "hello")
        reset = {"topic": "orders", "to": "earliest"}
        assert self.http.post("/v1/groups/billing/offsets/reset", json=reset).status_code == 200
        words = [re.sub(r"^/(?=var/|srv/|backups/)", f"{self.folder}/", word) for word in call.arguments]
        replaced = {"http://127.0.0.1:9000": self.url, "9000": "0", "30000": "100"}
        if call.path in (("message", "get"), ("message", "recall")):
            replaced[words[2]] = stored if call.path[1] == "get" else scheduled
        return [replaced.get(word, word) for word in words]


def wait_for(condition: Callable[[], bool], said: Path, process: subprocess.Popen[bytes] | None = None) -> None:
    end_s = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < end_s, said.read_text()
        assert process is None or process.poll() is None, said.read_text()
        time.sleep(0.05)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("examples")
    (folder / "orders.ndjson").write_text('{"body": "one"}\n{"body": "two"}\n')
    (folder / "report.sql").write_text("SELECT topic, count(*) FROM messages GROUP BY topic\n")
    shutil.copytree(ROOT / "conf", folder / "conf")
    (folder / "notebooks").mkdir()
    for name in ("1_quick_start", "2_exploring_history", "6_operating"):  # which have tests of their own
        (folder / "notebooks" / f"{name}.py").write_text("# Databricks notebook source\nspark.range(1).count()\n")
    with start_gateway(folder / "var/lib/lakemq") as gateway, httpx.Client(base_url=gateway.url) as http:
        produce(http, "orders", *ORDERS)
    with (
        start_gateway(folder / "data", lake__dir=folder / "lake") as gateway,
        httpx.Client(base_url=gateway.url, timeout=60) as http,
    ):
        made = Site(folder, gateway.url, http)
        produce(http, "orders", *ORDERS)
        log = folder / "jobs.log"
        jobs = made.start(CALLS[JOBS].arguments, log)
        try:
            wait_for(lambda: http.get("/v1/broker").json()["compacted_position"] > 0, log, jobs)
            wait_for(lambda: (folder / "lake" / "_connect.json").exists(), log, jobs)
            yield made
            jobs.send_signal(signal.SIGINT)
            assert jobs.wait(WAIT_S_MAX) == 0, log.read_text()
        finally:
            jobs.kill()
            jobs.wait()


@pytest.mark.parametrize("line", [line for line in CALLS if line not in {JOBS, *IN_DEMO}])
def test_an_example_does_what_it_shows(
    line: str, site: Site, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    call = CALLS[line]
    arguments = site.placed(call)
    if call.path and call.path[0] in UNTIL:
        run_until_told(site, arguments, UNTIL[call.path[0]])
        return
    for name, value in (site.environment | {"LAKEMQ_STORAGE__DATA_DIR": "data"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(site.folder)
    shutil.rmtree(BACKUPS, ignore_errors=True)
    if call.path == ("restore",):
        assert run("backup", f"{BACKUPS}/monday").code == 0
        monkeypatch.chdir(tmp_path)
    stdin = (site.folder / call.files["<"]).read_text() if "<" in call.files else BEFORE[call.before]
    done = run(*arguments, stdin=stdin or "y\n")
    assert done.code == 0, done.stderr
    files = re.findall(r"--(?:output|chart) (\S+)", line)
    assert files or "--json" in line or done.stdout + done.stderr
    assert all((site.folder / name).stat().st_size for name in files)


def test_commands_in_the_documents_are_such_as_there_are() -> None:
    documents = [ROOT / "README.md", ROOT / "notebooks/README.md", *(ROOT / "docs").glob("*.md")]
    lines = [line for document in documents for line in shell_lines(document) if "lakemq " in line]
    calls = [call_of("lakemq " + line.partition("lakemq ")[2]) for line in lines if "curl " not in line]
    assert len(calls) > 40
    assert all(call.flags() <= all_flags() for call in calls)


def test_the_readme_shows_what_a_first_user_gets(site: Site) -> None:
    """Its commands one after the other, with the ids that they answer."""
    site.placed(Call(["topic", "list"]))
    ids: dict[str, str] = {}
    for line in shell_lines(ROOT / "README.md"):
        if "lakemq up" in line or "lakemq gateway" in line:
            run_until_told(site, line.partition("lakemq ")[2].split(), UNTIL[line.split("lakemq ")[1].split()[0]])
        elif "lakemq consume" in line:
            run_until_told(site, line.partition("lakemq ")[2].split(), '{"amount": 30}')
        else:
            answer = in_shell(site, line, ids)
            ids |= dict(re.findall(r'"(transaction_id|receipt)": ?"([^"]+)"', answer))
            if "/topics/orders/messages" in line:
                ids |= dict(re.findall(r'"(message_id)": ?"([^"]+)"', answer))
            assert '"code":' not in answer, line
    assert (site.folder / "orders.csv").read_text().count("\n") > 1


def in_shell(site: Site, line: str, ids: dict[str, str]) -> str:
    """What a line answers; other places, and ids for the words that stand for them."""
    placed = line.replace("http://127.0.0.1:8080", site.url).replace("wait_ms=10000", "wait_ms=100")
    placed = placed.replace(".venv/bin/lakemq", f"{sys.executable} -m lakemq").replace("demo/lake", "lake")
    placed = placed.replace("transactions/ID", f"transactions/{ids.get('transaction_id')}")
    placed = placed.replace('"ID"', f'"{ids.get("message_id")}"').replace("RECEIPT", ids.get("receipt", ""))
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", placed],
        cwd=site.folder,
        env=os.environ | site.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (line, done.stderr)
    assert done.stdout or done.stderr or "--output" in line, line
    if "is_system" in line:
        assert "RMQ_SYS_" not in done.stdout
    return done.stdout


def run_until_told(site: Site, arguments: list[str], begun: str) -> None:
    """Run the command until it says that it has begun, or has a JVM; Ctrl-C then ends it in order."""
    log = site.folder / "said.log"
    process = site.start(arguments, log)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        wait_for(lambda: begun in log.read_text() if begun else children.read_text() != "", log, process)
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S_MAX) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
