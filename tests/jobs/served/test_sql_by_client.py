"""SQL as a user, by the client and by `lakemq sql`."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from lakemq.client.errors import Unreachable
from lakemq.client.http import HttpClient
from lakemq.model.errors import Forbidden, InvalidSql
from tests.cli.shell import Run
from tests.gateway.access.asking import ask_as
from tests.jobs.served.scene import WAIT_S, Scene

COUNTS = "SELECT topic, count(*) AS messages FROM messages GROUP BY topic ORDER BY topic"


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, capsys, monkeypatch)


@contextmanager
def named(scene: Scene, address: str) -> Generator[None]:
    """The broker names that address, as long as it is told again and again: the jobs that do so aren't here."""
    ends, said = Event(), {"jobs": [], "sql": address}

    def say() -> None:
        with ask_as(scene.gateway, scene.tokens["admin"]) as admin:
            told.append(admin.put("/v1/jobs", json=said).status_code)
            begun.set()
            while not ends.wait(1):
                admin.put("/v1/jobs", json=said)

    told, begun, thread = list[int](), Event(), Thread(target=say)
    thread.start()
    try:
        assert begun.wait(WAIT_S)
        assert told == [200]
        yield
    finally:
        ends.set()
        thread.join()


@pytest.fixture
def broker(scene: Scene) -> Iterator[Scene]:
    with named(scene, scene.server.url):
        yield scene


def test_the_client_asks_the_jobs_that_the_broker_names(broker: Scene) -> None:
    with HttpClient(broker.gateway.url, token=broker.tokens["olga"]) as client:
        found = client.sql(COUNTS)
        assert (found.table.to_pylist(), found.truncated) == ([{"topic": "orders", "messages": 10}], False)
        found = client.sql("SELECT position FROM messages", rows_max=4, timeout_ms=200_000)
        assert (found.table.num_rows, found.truncated) == (4, True)
        with pytest.raises(InvalidSql):
            client.sql("DROP TABLE messages")
    with HttpClient(broker.gateway.url, token=broker.tokens["nobody"]) as client, pytest.raises(Forbidden):
        client.sql(COUNTS)


def test_an_address_that_is_none_is_an_error(scene: Scene) -> None:
    with (
        named(scene, "http://127.0.0.1:1"),
        HttpClient(scene.gateway.url, token=scene.tokens["olga"]) as client,
        pytest.raises(Unreachable),
    ):
        client.sql(COUNTS)


def test_the_command_asks_as_a_user_where_it_is_told_to_or_has_no_lake(
    broker: Scene, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEMQ_TOKEN", broker.tokens["olga"])
    where = ("--broker", broker.gateway.url, "--lake", str(tmp_path / "none"), "--format", "json")
    for options in (("--http",), ()):
        told = run("sql", COUNTS, *options, *where)
        assert [json.loads(line) for line in told.stdout.splitlines()] == [{"topic": "orders", "messages": 10}], told
    assert "answered as to a user" in told.stderr
