"""Levels of the jobs' loggers are changed at the broker, which tells them as they say that they are alive."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from lakemq.jobs.process import broker_watch
from lakemq.jobs.process.broker_watch import BrokerWatch
from lakemq.logs import LEVELS as OF_PROCESS
from lakemq.model.names import AUDIT_TOPIC
from lakemq.testing import GatewayProcess, start_gateway
from tests.cli.shell import Run
from tests.client.consuming import wait_until
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.http_client import is_problem, pull_all

LEVELS = "/v1/broker/log-levels"
OURS = "lakemq.jobs.process.broker_watch"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("levels") / "data"


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[GatewayProcess]:
    with start_gateway(folder, auth__audit="true") as process:
        yield process


@pytest.fixture(scope="module")
def admin(gateway: GatewayProcess, folder: Path) -> Iterator[httpx.Client]:
    with ask_as(gateway, token_of(folder)) as http:
        yield http


@pytest.fixture
def watch(gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerWatch]:
    """The jobs, which are this process."""
    monkeypatch.setattr(broker_watch, "BEAT_S", 0.2)
    stop, level = Event(), logging.getLogger(OURS).level
    found = BrokerWatch(gateway.url, stop)
    with found.telling(("lake",)):
        found.start()
        yield found
    stop.set()
    OF_PROCESS.change({OURS: None})
    assert logging.getLogger(OURS).level == level


def put(http: httpx.Client, levels: Mapping[str, str | None], **more: Any) -> httpx.Response:
    return http.put(LEVELS, json={"levels": dict(levels), "of": "jobs", **more})


def taken(http: httpx.Client, change: str) -> dict[str, Any]:
    """What the jobs say once they have taken the change."""

    found: list[dict[str, Any]] = []

    def is_there() -> bool:
        found[:] = [each for each in http.get(LEVELS).json()["jobs"] if each["change"] == change]
        return bool(found)

    wait_until(is_there)
    return found[0]


def test_they_take_a_level_for_a_while_and_put_it_back(
    gateway: GatewayProcess, admin: httpx.Client, watch: BrokerWatch
) -> None:
    wait_until(lambda: bool(admin.get(LEVELS).json()["jobs"]))
    said = taken(admin, put(admin, {OURS: "DEBUG"}, for_ms=3_600_000).json()["change"])
    assert (said["levels"][OURS], said["jobs"]) == ("DEBUG", ["lake"])
    assert not [why for why in said["refused"] if OURS in why]
    assert 0 < said["back_in_ms"][OURS] <= 3_600_000
    assert logging.getLogger(OURS).level == logging.DEBUG
    assert OURS not in admin.get(LEVELS).json()["levels"], "the broker's own are as they were"
    said = taken(admin, put(admin, {OURS: None}).json()["change"])
    assert OURS not in said["levels"]
    assert logging.getLogger(OURS).level == logging.NOTSET
    changes = [json.loads(each["body"]) for each in pull_all(admin, AUDIT_TOPIC) if each["tag"] == "allowed"]
    assert [each["what"] for each in changes].count(f"PUT {LEVELS}") >= 2


def test_what_is_no_logger_there_the_jobs_say(admin: httpx.Client, watch: BrokerWatch) -> None:
    said = taken(admin, put(admin, {"lakemq.none": "DEBUG", OURS: "DEBUG"}).json()["change"])
    assert said["levels"][OURS] == "DEBUG"
    (why,) = said["refused"]
    assert "there is no logger 'lakemq.none'" in why
    put(admin, {"lakemq.none": None, OURS: None})


def test_it_takes_the_right_and_a_level(gateway: GatewayProcess, admin: httpx.Client) -> None:
    token = make_user(admin, "greta", allow("Cluster:*", "Get", "List"))
    with ask_as(gateway, token) as greta:
        assert is_problem(put(greta, {OURS: "DEBUG"}), 403, "forbidden")
    for wrong in ({}, {"aiohttp": "DEBUG"}, {"lakemq.": "DEBUG"}, {OURS: "LOUD"}):
        assert is_problem(put(admin, wrong), 400, "invalid_request")
    for for_ms in (0, 1, 24 * 3_600_000 + 1):
        assert is_problem(put(admin, {OURS: "DEBUG"}, for_ms=for_ms), 400, "invalid_request")


def test_the_command_tells_them_and_says_what_became_of_it(
    gateway: GatewayProcess,
    watch: BrokerWatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, where = Run(tmp_path, capsys, monkeypatch), ("--broker", gateway.url)
    done = run("broker", "log-level", OURS, "DEBUG", "--jobs", *where, "--json")
    assert done.code == 0, done.stderr
    (jobs,) = json.loads(done.stdout)["jobs"]
    assert (jobs["levels"][OURS], list(jobs["back_in_ms"])) == ("DEBUG", [OURS])
    assert OURS in run("broker", "log-level", *where).stdout
    done = run("broker", "log-level", OURS, "as-before", "--jobs", *where)
    assert done.code == 0, done.stderr
    assert OURS not in done.stdout
