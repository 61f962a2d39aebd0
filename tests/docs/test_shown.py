"""Nothing is shown in a document that isn't so: each block is one that a test runs, and each command, flag and path
within a sentence is one that there is. `tests/cli/test_documents.py` runs the blocks."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from lakemq.contract.jobs_routes import ALL as JOBS
from lakemq.contract.nameserver_routes import ALL as NAMESERVER
from lakemq.contract.sql_routes import CATALOG, STATEMENT
from lakemq.jobs.maintenance.catalogue import schedules
from lakemq.settings import Settings, load
from lakemq.testing import start_gateway
from tests.cli.examples import ROOT as COMMANDS
from tests.cli.examples import commands
from tests.docs.commands import check, check_module
from tests.docs.documents import ROOT, SEEN, TYPED, Block, blocks, spans

SPANS = spans()
BLOCKS = blocks()
COMMAND = re.compile(r"^(?:\.venv/bin/)?(?:lakemq|make|pytest|python(?: -m)?) [^\s=]")
TYPED_COMMAND = re.compile(r"^(?:\S*/)?(?:lakemq|make|python|curl|uv) ", re.MULTILINE)
REQUEST = re.compile(r"(GET|PUT|POST|DELETE) (/[^\s?]+)")
FLAG = re.compile(r"^--[a-z][a-z-]+$")
OF_OTHERS = {
    "--gib": ("benchmarks.restart", "--gib", "4"),
    "--kinds": ("tests.chaos", "--kinds", "kill"),
    "--seed": ("tests.chaos", "--seed", "1"),
    "--to-goals": ("tests.reliability.crash", "--to-goals"),
    "--steps": ("tests.reliability.mixed", "--old", "HEAD", "--steps", "switch 1"),
    "--replicas": ("tests.reliability.mixed", "--old", "HEAD", "--replicas", "3", "--min-in-sync", "2"),
    "--old-nameserver": ("tests.reliability.mixed", "--old", "HEAD", "--old-nameserver"),
    "--switches": ("tests.reliability.switch", "--switches", "1"),
    "--consumers": ("tests.reliability.switch", "--consumers"),
    "--deaths": ("tests.reliability.switch", "--deaths", "1"),
    "--pauses": ("tests.reliability.switch", "--pauses", "1"),
    "--follower-deaths": ("tests.reliability.switch", "--follower-deaths", "1"),
    "--store": ("tests.reliability.switch", "--store", "etcd"),
    "--store-deaths": ("tests.reliability.switch", "--store-deaths", "1"),
    "--lost-replies": ("tests.reliability.switch", "--lost-replies", "1"),
    "--damages": ("tests.reliability.switch", "--damages", "1"),
    "--wipes": ("tests.reliability.switch", "--wipes", "1"),
    "--start-deaths": ("tests.reliability.switch", "--start-deaths", "1"),
    "--one-way": ("tests.reliability.switch", "--one-way", "1"),
    "--partitions": ("tests.reliability.switch", "--partitions", "1"),
}
"""Flags that are no command's of `lakemq`: whose, and how they are given."""


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_each_block_is_in_a_language_that_is_run_or_only_seen(block: Block) -> None:
    assert block.language in TYPED | SEEN, f"{block.place}: shown but never run"
    if block.language in SEEN:
        assert not TYPED_COMMAND.search(block.text), f"{block.place}: shown but never run"


def test_settings_that_are_shown_are_such_as_there_are(tmp_path: Path) -> None:
    for block in BLOCKS:
        if block.language == "toml":
            file = tmp_path / "shown.toml"
            file.write_text(block.text)
            schedules(load(file, {}).maintenance)


def test_the_file_of_settings_has_the_defaults() -> None:
    assert load(ROOT / "conf/lakemq.toml", {}) == Settings()


IN_SENTENCES = [span for span in SPANS if COMMAND.match(span) and "…" not in span]


@pytest.mark.parametrize("command", IN_SENTENCES)
def test_a_command_in_a_sentence_is_one_that_there_is(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(command.replace(" NAME", " disk"), monkeypatch)


def test_commands_are_found_in_sentences() -> None:
    assert len(IN_SENTENCES) > 60
    assert {"lakemq up", "make demo", "python -m benchmarks single"} <= set(IN_SENTENCES)


def test_a_flag_in_a_sentence_is_one_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    params = [param for _, command in commands() for param in command.params]
    options = {option for param in params for option in (*param.opts, *param.secondary_opts)}
    options |= {option for param in COMMANDS.params for option in param.opts}
    shown = {span.split()[0] for span in SPANS if span.startswith("--")}
    assert {flag for flag in shown if FLAG.match(flag)} - options == set(OF_OTHERS)
    for module, *arguments in OF_OTHERS.values():
        check_module(module, arguments, monkeypatch)


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    """Methods and paths of the gateway, the name server and the server of SQL, with `{}` for what differs."""
    with start_gateway(tmp_path_factory.mktemp("log")) as gateway:
        paths = httpx.get(f"{gateway.url}/openapi.json", trust_env=False, timeout=60).json()["paths"]
    known = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    known |= {(route.method, route.path) for route in (*NAMESERVER, STATEMENT, CATALOG, *JOBS)}
    return {(method, re.sub(r"\{\w+\}", "{}", path)) for method, path in known}


def test_a_request_in_a_sentence_is_one_that_a_server_takes(routes: set[tuple[str, str]]) -> None:
    shown = {(method, path): span for span in SPANS for method, path in REQUEST.findall(span)}
    assert len(shown) > 20
    for (method, path), span in shown.items():
        assert (method, re.sub(r"\{\w+\}", "{}", path)) in routes, f"{span} in {SPANS[span]}"
