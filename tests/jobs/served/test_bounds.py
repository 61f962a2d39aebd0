"""How much a statement may take: time, bytes, places; and what becomes of one that is cancelled."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.served.places import Places
from lakemq.jobs.served.server import SqlServer
from lakemq.model.errors import Busy, FlowControl
from lakemq.settings import SqlHttp
from lakemq.settings import Tls as TlsFiles
from lakemq.web.listen import CantListen
from lakemq.web.tls import Tls
from tests.certificates import Authority
from tests.jobs.served.scene import Scene
from tests.ports import free_port

LONG = "SELECT count(*) FROM messages a, live.messages b WHERE a.position + b.position < 0"
"""Rows in such a number that nobody waits for them."""
WAIT_S = 300


def wait_for(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def running(spark: SparkSession) -> int:
    """Tasks that run, and not only those that somebody still waits for."""
    context: Any = spark.sparkContext
    return sum(each.numRunningTasks() for each in context._jsc.sc().statusTracker().getExecutorInfos())


def wait_until_idle(scene: Scene, spark: SparkSession) -> None:
    """No statement has its place any more, and none of its tasks runs."""
    wait_for(lambda: running(spark) == 0)
    wait_for(lambda: not scene.server._handler._works)  # pyright: ignore[reportPrivateUsage]


def test_a_statement_that_takes_too_long_is_ended_and_so_are_its_tasks(scene: Scene, spark: SparkSession) -> None:
    answer = scene.ask(LONG, "max", timeout_ms=3_000)
    assert (answer.status_code, answer.json()["code"]) == (504, "request_timeout")
    wait_until_idle(scene, spark)
    assert scene.rows("SELECT 1", "olga") == [[1]]


def test_a_statement_whose_client_has_gone_is_ended(scene: Scene, spark: SparkSession) -> None:
    with suppress(httpx.ReadTimeout), httpx.Client(trust_env=False, timeout=httpx.Timeout(WAIT_S, read=2)) as http:
        http.post(f"{scene.server.url}/v1/sql", json={"statement": LONG, "timeout_ms": 300_000})
    wait_until_idle(scene, spark)


def test_a_user_has_so_many_at_once_and_others_go_on(scene: Scene, spark: SparkSession) -> None:
    with ThreadPoolExecutor(2) as pool:
        long = [pool.submit(scene.ask, LONG, "max", timeout_ms=15_000) for _ in range(2)]
        wait_for(lambda: len(scene.server._handler._works) == 2)  # pyright: ignore[reportPrivateUsage]
        answer = scene.ask("SELECT 1", "max")
        assert (answer.status_code, answer.json()["code"]) == (429, "flow_control")
        assert answer.headers["retry-after"] == "1"
        assert scene.rows("SELECT 1", "admin") == [[1]]
        assert {each.result().status_code for each in long} == {504}
    wait_until_idle(scene, spark)


def test_places_are_given_back() -> None:
    places = Places(SqlHttp(statements_max=2, user_statements_max=1))
    places.take("a")
    with pytest.raises(FlowControl):
        places.take("a")
    places.take("b")
    with pytest.raises(Busy):
        places.take("c")
    places.give_back("a")
    places.take("a")


def test_an_answer_has_so_many_bytes_at_most(scene: Scene, spark: SparkSession) -> None:
    server = SqlServer(spark, lambda: scene.gateway.url, SqlHttp(bytes_max=1024))
    server.start()
    try:
        small = Scene(scene.gateway, server, scene.tokens, scene.lake)
        statement = "SELECT a.body || b.body AS x FROM messages a, messages b"
        said = small.ask(statement, "olga", rows_max=100_000, timeout_ms=60_000).json()
        assert said["truncated"]
        assert 0 < sum(len(row[0]) for row in said["rows"]) <= 1024
    finally:
        server.stop()


def test_a_port_that_is_taken_is_said(scene: Scene, spark: SparkSession) -> None:
    port = int(scene.server.url.rpartition(":")[2])
    with pytest.raises(CantListen):
        SqlServer(spark, lambda: scene.gateway.url, SqlHttp(port=port))


def test_it_is_asked_at_the_address_that_brokers_tell(scene: Scene, spark: SparkSession) -> None:
    """Regression: under that name it answered 421, unless `sql_http.hosts` had it too. So it is in deploy/compose."""
    port = free_port()
    server = SqlServer(
        spark, lambda: scene.gateway.url, SqlHttp(host="0.0.0.0", port=port, advertise=f"http://jobs:{port}")
    )
    server.start()
    try:
        assert server.url == f"http://jobs:{port}"
        headers = {"Authorization": f"Bearer {scene.tokens['max']}", "Host": f"jobs:{port}"}
        asked: dict[str, Any] = {"json": {"statement": "SELECT 1 AS x"}, "headers": headers, "timeout": WAIT_S}
        assert httpx.post(f"http://127.0.0.1:{port}/v1/sql", **asked).json()["rows"] == [[1]]
    finally:
        server.stop()


def test_with_certificates_it_is_asked_by_tls(scene: Scene, spark: SparkSession, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.pair("sql")
    tls = Tls(TlsFiles(cert_file=str(pair.cert), key_file=str(pair.key)))
    server = SqlServer(spark, lambda: scene.gateway.url, SqlHttp(), tls)
    server.start()
    try:
        assert server.url.startswith("https://")
        headers = {"Authorization": f"Bearer {scene.tokens['max']}"}
        trusted = ssl.create_default_context(cafile=str(authority.file))
        asked: dict[str, Any] = {"json": {"statement": "SELECT 1 AS x"}, "headers": headers, "timeout": WAIT_S}
        answer = httpx.post(f"{server.url}/v1/sql", verify=trusted, **asked)
        assert answer.json()["rows"] == [[1]]
        with pytest.raises(httpx.ConnectError):
            httpx.post(f"{server.url}/v1/sql", verify=ssl.create_default_context(), **asked)
    finally:
        server.stop()
