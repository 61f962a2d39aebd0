"""SQL as a user, by the client and by `lakemq sql`."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakemq import client as plain
from lakemq.client import SqlOptions, aio
from lakemq.client.errors import Unreachable
from lakemq.client.http import HttpClient
from lakemq.model.errors import Forbidden, InvalidSql
from lakemq.testing.gateway_process import environment_of
from tests.cli.shell import Run
from tests.gateway.access.asking import ask_as
from tests.jobs.served.scene import WAIT_S, Scene

COUNTS = "SELECT topic, count(*) AS messages FROM messages GROUP BY topic ORDER BY topic"


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, capsys, monkeypatch)


ALONE = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from lakemq.cli import main
sys.argv[:2] = ["lakemq"]
main()
"""
"""`lakemq`, where some modules aren't installed."""
OF_JOBS = "pyspark,grpc,google,py4j,delta,apscheduler,deltalake,crc32c,pandas,numpy,fastapi,sqlglot,prometheus_client"


def name_jobs(scene: Scene, address: str) -> None:
    """From now on the broker names that address: the jobs that tell it aren't here."""
    with ask_as(scene.gateway, scene.tokens["admin"]) as admin:
        assert admin.put("/v1/jobs", json={"jobs": [], "sql": address}).status_code == 200


@pytest.fixture
def broker(scene: Scene) -> Scene:
    name_jobs(scene, scene.server.url)
    return scene


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


def test_rows_are_a_frame(broker: Scene) -> None:
    where: plain.AdminOptions = {"brokers": broker.gateway.url, "token": broker.tokens["olga"]}
    frame = plain.read_sql("SELECT position FROM messages", rows_max=4, timeout_s=timedelta(minutes=3), **where)
    assert (len(frame.to_pandas()), len(frame.to_polars()), frame.truncated) == (4, 4, True)
    with plain.Admin(**where) as admin:
        assert admin.sql(COUNTS).to_arrow().to_pylist() == [{"topic": "orders", "messages": 10}]
        with pytest.raises(plain.InvalidSql) as raised:
            admin.sql("SELECT\n  no_such_column FROM messages")
    assert raised.value.line == 2


def test_an_address_that_is_none_is_an_error(scene: Scene) -> None:
    name_jobs(scene, "http://127.0.0.1:1")
    with HttpClient(scene.gateway.url, token=scene.tokens["olga"]) as client, pytest.raises(Unreachable):
        client.sql(COUNTS)


def test_the_command_asks_as_a_user_where_it_is_told_to_or_has_no_lake(
    broker: Scene, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEMQ_TOKEN", broker.tokens["olga"])
    where = ("--broker", broker.gateway.url, "--lake", str(tmp_path / "none"), "--format", "json")
    for options in (("--http",), ()):
        told = run("sql", COUNTS, *options, *where)
        assert [json.loads(line) for line in told.stdout.splitlines()] == [{"topic": "orders", "messages": 10}], told
    assert "asking the jobs over HTTP" in told.stderr


def test_both_clients_ask_in_one_call(broker: Scene) -> None:
    async def ask() -> plain.Frame:
        return await aio.sql(COUNTS, brokers=broker.gateway.url, token=broker.tokens["olga"])

    for found in (asyncio.run(ask()), plain.sql(COUNTS, brokers=broker.gateway.url, token=broker.tokens["olga"])):
        assert (found.table.to_pylist(), found.truncated) == ([{"topic": "orders", "messages": 10}], False)
    where: SqlOptions = {"brokers": broker.gateway.url, "token": broker.tokens["olga"]}
    bounded: SqlOptions = {**where, "rows_max": 4, "timeout_ms": 200_000}
    found = plain.sql("SELECT position FROM messages", **bounded)
    assert (found.table.num_rows, found.truncated) == (4, True)
    with pytest.raises(InvalidSql):
        plain.sql("DROP TABLE messages", **where)


def test_a_client_that_is_told_of_no_jobs_says_so(scene: Scene) -> None:
    name_jobs(scene, "http://127.0.0.1:1")
    with pytest.raises(Unreachable):
        plain.sql(COUNTS, brokers=scene.gateway.url, token=scene.tokens["olga"])


@pytest.mark.parametrize("option", ["--http", ""])
def test_the_command_writes_every_format_without_spark(broker: Scene, tmp_path: Path, option: str) -> None:
    """Also a VARIANT, which Arrow knows nothing of. Without the option it finds by itself that there is no Spark."""
    environment = environment_of(token=broker.tokens["olga"], broker=broker.gateway.url)
    made = """body_json(concat('["', tag, '"]'))"""
    statement = f"SELECT 7 AS n, {made} AS v FROM messages LIMIT 2"

    def ask(form: str) -> bytes:
        command = [
            sys.executable,
            "-c",
            ALONE,
            OF_JOBS,
            "sql",
            statement,
            "--format",
            form,
            *([option] if option else []),
        ]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, timeout=WAIT_S, check=False)
        assert done.returncode == 0, done.stderr
        assert (b"asking the jobs over HTTP" in done.stderr) == (not option)
        return done.stdout

    assert [json.loads(line) for line in ask("json").splitlines()] == [{"n": 7, "v": ["T"]}] * 2
    if option:
        rows = list(csv.reader(io.StringIO(ask("csv").decode())))
        assert rows == [["n", "v"], ["7", '["T"]'], ["7", '["T"]']]
        assert pa.ipc.open_stream(ask("arrow")).read_all()["n"].to_pylist() == [7, 7]
        assert pq.read_table(io.BytesIO(ask("parquet")))["n"].to_pylist() == [7, 7]
        assert b"(2 rows)" in ask("table")
