"""The commands about brokers and their replicas, with a primary and its follower."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from lakemq.testing import GatewayProcess, start_gateway
from tests.cli.shell import Run
from tests.client.consuming import wait_until
from tests.client.name_server import NameServer
from tests.gateway.fleet.following import SMALL, broker_of, start_follower
from tests.gateway.http_client import connect


class Fleet(NamedTuple):
    """A name server, `broker-a` with two replicas, and `lone` with one."""

    server: NameServer
    primary: GatewayProcess
    follower: GatewayProcess
    lone: GatewayProcess

    @property
    def named(self) -> list[str]:
        return ["--nameservers", self.server.url]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with ExitStack() as stack:
        server = stack.enter_context(NameServer())
        options: dict[str, Any] = {"fleet__nameservers": server.url}
        # None is let go as it stands still, and commands wait for it.
        patient = {"replication__silent_ms": 90_000, "replication__confirm_ms_max": 100_000}
        stack.enter_context(pytest.MonkeyPatch.context()).setattr("lakemq.cli.replicas.ANSWER_S", 60.0)
        primary = stack.enter_context(start_gateway(folder / "a", **SMALL, **options, **patient))
        follower = stack.enter_context(start_follower(folder / "b", primary.url, **options))
        lone = stack.enter_context(start_gateway(folder / "c", broker__name="lone", **SMALL, **options))
        with connect(primary) as http:
            wait_until(lambda: broker_of(http)["in_sync"] == [0, 1])
        wait_until(lambda: sum(len(each["replicas"]) for each in server.brokers()) == 3)
        yield Fleet(server, primary, follower, lone)


def listed(run: Run, *where: str) -> list[dict[str, Any]]:
    done = run("broker", "list", "--json", *where)
    assert done.code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_list_says_who_leads_who_is_in_sync_and_how_far(run: Run, fleet: Fleet) -> None:
    rows = listed(run, *fleet.named)
    found = [(row["broker"], row["replica"], row["role"], row["in_sync"], row["problem"]) for row in rows]
    assert found == [
        ("broker-a", 0, "primary", True, ""),
        ("broker-a", 1, "follower", True, ""),
        ("lone", 0, "primary", True, ""),
    ]
    assert [row["lag"] is None for row in rows] == [True, False, True]
    by_address = listed(run, "--broker", f"{fleet.follower.url},{fleet.primary.url}")
    assert [(row["replica"], row["address"]) for row in by_address] == [(0, fleet.primary.url), (1, fleet.follower.url)]
    table = run("broker", "list", *fleet.named).stdout
    assert "in sync" in table
    assert "follower" in table
    for each in (fleet.primary.url, fleet.follower.url):
        assert each in table, "an address that is cut can't be used"


def test_who_gives_no_answer_is_listed_and_said(run: Run, fleet: Fleet) -> None:
    gone = "http://127.0.0.1:1"
    with NameServer() as server:
        server.put("broker-a", gone, topics={})
        assert [(row["role"], row["in_sync"]) for row in listed(run, "--nameservers", server.url)] == [
            ("no answer", None)
        ]
        said = run("broker", "list", "--nameservers", server.url)
        assert (said.code, said.stderr.count(gone)) == (0, 2)
        refused = run("broker", "switch", "--replica", "1", "--nameservers", server.url)
        assert refused.code == 1
        assert "no replica leads the broker now" in refused.stderr
    assert run("broker", "list", "--broker", gone).code == 1


@pytest.mark.parametrize("command", [["switch", "--replica", "1"], ["elect", "--unclean", "--yes", "--replica", "1"]])
def test_what_settings_say_is_not_changed_by_command(run: Run, fleet: Fleet, command: list[str]) -> None:
    name, *options = command
    for where in (["broker-a", *fleet.named], ["--broker", f"{fleet.primary.url},{fleet.follower.url}"]):
        refused = run("broker", name, *where, *options)
        assert (refused.code, "fleet.leader is static" in refused.stderr) == (1, True)


def test_a_replica_is_removed_wherever_that_is_asked(run: Run, fleet: Fleet) -> None:
    removed = run("broker", "remove", "--replica", "7", "--broker", fleet.follower.url)
    assert (removed.code, removed.stderr) == (0, "broker-a has forgotten replica 7\n")
    said = run("broker", "remove", "broker-a", "--replica", "7", "--json", *fleet.named)
    assert json.loads(said.stdout)["in_sync"] == [0, 1]
    refused = run("broker", "remove", "broker-a", "--replica", "1", *fleet.named)
    assert (refused.code, "in sync" in refused.stderr) == (1, True)


def test_it_is_said_of_what_a_command_speaks(run: Run, fleet: Fleet) -> None:
    several = run("broker", "switch", "--replica", "1", *fleet.named)
    assert (several.code, "say which of broker-a, lone" in several.stderr) == (1, True)
    unknown = run("broker", "switch", "nobody", "--replica", "1", *fleet.named)
    assert (unknown.code, "no broker is called 'nobody'" in unknown.stderr) == (1, True)
    which = run("broker", "elect", "broker-a", "--unclean", "--yes", *fleet.named)
    assert (which.code, "which of 0, 1" in which.stderr) == (1, True)
    none = run("broker", "elect", "broker-a", "--unclean", "--yes", "--replica", "5", *fleet.named)
    assert (none.code, "replica 5 of broker-a isn't there" in none.stderr) == (1, True)
    clean = run("broker", "elect", "--broker", fleet.primary.url)
    assert (clean.code, "--unclean" in clean.stderr) == (2, True)
    asked = run("broker", "elect", "--unclean", "--broker", fleet.primary.url, stdin="n\n")
    assert (asked.code, "lose what it lacks?" in asked.stderr) == (1, True)


def levels(run: Run, *arguments: str) -> list[tuple[str, int, dict[str, str], list[str]]]:
    done = run("broker", "log-level", *arguments, "--json")
    assert done.code == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [(row["broker"], row["replica"], row["levels"], list(row["back_in_ms"])) for row in rows]


def test_log_levels_are_changed_at_each_replica_and_go_back(run: Run, fleet: Fleet) -> None:
    before = {"lakemq": "INFO"}
    everywhere = [("broker-a", 0), ("broker-a", 1), ("lone", 0)]
    assert levels(run, *fleet.named) == [(*each, before, []) for each in everywhere]
    changed = {"lakemq": "INFO", "lakemq.gateway": "DEBUG"}
    found = levels(run, "lakemq.gateway", "debug", *fleet.named)
    assert found == [(*each, changed, ["lakemq.gateway"]) for each in everywhere]
    shown = run("broker", "log-level", *fleet.named).stdout
    assert "lakemq.gateway" in shown
    assert shown.count("lakemq.gateway") == len(everywhere)
    assert levels(run, "lakemq.gateway", "as-before", *fleet.named) == [(*each, before, []) for each in everywhere]
    only = ["--broker", fleet.follower.url]
    assert levels(run, "lakemq", "WARNING", *only) == [("broker-a", 1, {"lakemq": "WARNING"}, [])]
    assert levels(run, "--broker", fleet.primary.url) == [("broker-a", 0, before, [])]
    assert levels(run, "lakemq", "as-before", *only) == [("broker-a", 1, before, [])]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["lakemq"], 2, "a logger and its level"),
        (["lakemq", "DEBUG", "--for", "long"], 2, "no duration"),
        (["--for", "5m"], 2, "for a level"),
        (["lakemq", "LOUD"], 1, "no level"),
        (["lakemq.none", "DEBUG"], 1, "no logger"),
    ],
)
def test_a_level_that_can_not_be_is_refused(run: Run, fleet: Fleet, arguments: list[str], code: int, said: str) -> None:
    done = run("broker", "log-level", *arguments, "--broker", fleet.lone.url)
    assert (done.code, said in done.stderr, done.stdout) == (code, True, ""), done.stderr
