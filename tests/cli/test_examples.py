"""Every command with every flag, from the examples that its own help shows, against a real broker and its jobs.

A flag that no example shows is run here too, or it must be one that several commands share; else a test fails.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.examples import Call, Flag, all_examples, all_flags, call_of, explained, shell_lines, together
from tests.cli.shell import Run
from tests.cli.site import EXITS, ROOT, UNTIL, Site, run_until_told
from tests.demo.test_demo import COMMAND as DEMO
from tests.demo.test_fleet import COMMAND as FLEET

pytestmark = pytest.mark.timeout(500)

SHARED = {"broker": "--broker http://127.0.0.1:9000", "lake": "--lake lake", "as_json": "--json"}
"""Options that are the same everywhere: not each help shows them, so its first example is run with them too."""

SLOW = {"lake", "sql", "replay", "erase", "maintenance", "notebook"}
"""Commands that use Spark: their first example is run with those options only."""

REPLAY = "lakemq replay --where \"topic = 'orders' AND tag = 'paid'\" --to audit"
TOGETHER = {
    f"{REPLAY} --rate 1000": f"{REPLAY} --again",
    "lakemq jobs --broker http://127.0.0.1:9000 --lake /srv/lake": "lakemq jobs delay transaction retry",
    "lakemq up --data-dir /var/lib/lakemq --lake /srv/lake --port 9000": (
        "lakemq up --host 127.0.0.1 --broker-name broker-b --flush sync"
    ),
}
"""Examples of what takes long, each with options of its own: one run has those of both."""

REFUSED: dict[tuple[str, ...], str] = {
    ("broker", "switch"): "fleet.leader is static",
    ("broker", "elect"): "fleet.leader is static",
}
"""Commands that change what a lone broker's settings say, and in which words it refuses that."""

BEFORE = {
    "": "",
    "tail -f access.log": "GET /\nGET /about\n",
    "jq -c '{body: .text, keys: [.id]}' events.json": '{"body": "text", "keys": ["id"]}\n',
}
"""What the other commands in the examples' pipes write."""


def all_calls() -> dict[str, Call]:
    """The examples, and for each command the shared options that none of its examples shows."""
    calls = {**all_examples(), "lakemq --version": Call(["--version"])}
    for first, second in TOGETHER.items():
        del calls[first], calls[second]
        line = together(first, second)
        calls[line] = call_of(line)
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
IN_DEMO = {line for line, call in CALLS.items() if call.path in (("demo",), ("fleet",))}
"""These are run by their own tests."""
BACKUPS = "backups"


def test_there_is_no_command_and_no_flag_that_was_never_run() -> None:
    run = flags_of({line: call for line, call in CALLS.items() if line not in IN_DEMO})
    run |= call_of(DEMO).flags() | call_of(FLEET).flags()
    run.add(Flag((), "_"))  # --version, which ends all else
    assert sorted(all_flags() - run) == []


def test_every_example_is_understood() -> None:
    """So that none is left out unseen."""
    assert len(CALLS) >= 80
    assert {call.before for call in CALLS.values()} == set(BEFORE)


@pytest.mark.parametrize("line", [line for line in CALLS if line not in IN_DEMO])
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
    if "--lake-in" in arguments:
        assert run("backup", arguments[-1]).code == 0
    if call.path == ("restore",):
        assert run("backup", f"{BACKUPS}/monday").code == 0
        monkeypatch.chdir(tmp_path)
    if call.path == ("log", "show"):
        cut = site.folder / next(each for each in arguments if each.endswith(".frames"))
        cut.parent.mkdir(parents=True, exist_ok=True)
        cut.write_bytes(site.http.get("/v1/log/frames", params={"from": 0}).content)
    stdin = (site.folder / call.files["<"]).read_text() if "<" in call.files else BEFORE[call.before]
    done = run(*arguments, stdin=stdin or "y\n")
    if call.path in REFUSED:
        assert done.code == 1
        assert REFUSED[call.path] in done.stderr
        return
    assert done.code in EXITS.get(call.path, (0,)), done.stderr
    files = re.findall(r"--(?:output|chart) ([^\s-]\S*)", line)
    assert files or "--json" in line or done.stdout + done.stderr
    assert all((site.folder / name).stat().st_size for name in files)


def test_the_readme_and_the_first_page_show_what_a_first_user_gets(
    site: Site, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands one after the other, with the ids that they answer."""
    site.make("orders billing flights greetings shop")
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(site.folder)
    ids: dict[str, str] = {}
    for line in (*shell_lines(ROOT / "README.md"), *shell_lines(ROOT / "docs/get_started.md")):
        if "lakemq up" in line or "lakemq gateway" in line:
            run_until_told(site, line.partition("lakemq ")[2].split(), UNTIL[line.split("lakemq ")[1].split()[0]])
        elif "lakemq consume" in line:
            run_until_told(site, line.partition("lakemq ")[2].split(), '{"amount": 30}')
        else:
            answer = answer_of(site, run, line, ids)
            ids |= dict(re.findall(r'"(transaction_id|receipt)": ?"([^"]+)"', answer))
            if "/topics/orders/messages" in line:
                ids |= dict(re.findall(r'"(message_id)": ?"([^"]+)"', answer))
            assert '"code":' not in answer, line
    assert (site.folder / "orders.csv").read_text().count("\n") > 1


def answer_of(site: Site, run: Run, line: str, ids: dict[str, str]) -> str:
    """What a line answers; other places, and ids for the words that stand for them."""
    placed = line.replace("http://127.0.0.1:8080", site.url).replace("wait_ms=10000", "wait_ms=100")
    placed = placed.replace("demo/lake", "lake").replace("transactions/ID", f"transactions/{ids.get('transaction_id')}")
    placed = placed.replace('"ID"', f'"{ids.get("message_id")}"').replace("RECEIPT", ids.get("receipt", ""))
    if placed.startswith(".venv/bin/lakemq "):
        call = call_of(placed.removeprefix(".venv/bin/"))
        assert call.flags() <= all_flags(), line
        # An example of the help does what takes long.
        done = run("sql", explained(call)) if call.path in (("replay",), ("erase",)) else run(*call.arguments)
        code, answer, said = done.code, done.stdout, done.stderr
    else:
        shell = ["bash", "-o", "pipefail", "-c", placed]
        ended = subprocess.run(shell, cwd=site.folder, capture_output=True, text=True, check=False)
        code, answer, said = ended.returncode, ended.stdout, ended.stderr
    assert code == 0, (line, said)
    assert answer or said or "--output" in line, line
    if "is_system" in line or "FROM live.messages" in line:
        assert "RMQ_SYS_" not in answer
    return answer
