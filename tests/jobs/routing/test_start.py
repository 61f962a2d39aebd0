"""What a start of the wheel knows: what the broker lists as pending, and the log from there on."""

from __future__ import annotations

import errno
import secrets
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from lakemq.model.names import CHECK_MAX_TOPIC
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, produce
from tests.gateway.receive.asking import ack, receive
from tests.gateway.routing.asking import begin, nack, resolve
from tests.jobs.routing.conftest import bodies, kept_running, running, wait_until

YEAR_MS = 365 * 24 * 3_600_000
SETTINGS: dict[str, Any] = {
    **{"routing__lead_ms": 0, "routing__grace_ms": -1, "delay__levels": "100ms 200ms 300ms 400ms"},
    **{"transactions__timeout_ms": 1_000, "transactions__check_interval_ms": 1_000, "transactions__check_max": 1},
}


def let_the_head_go(http: httpx.Client) -> None:
    """Fill two segments, and let the first leave."""
    for _ in range(6):
        produce(http, "filler", secrets.token_hex(250_000))
    (end,) = [http.get("/v1/broker").json()["max_position"]]
    assert http.put("/v1/broker/compacted", json={"compacted_position": end}).status_code == 200
    wait_until(lambda: http.get("/v1/broker").json()["min_position"] > 3)


def what_waits(http: httpx.Client) -> tuple[int, int, int, int]:
    """Delays, transactions, nacks and receipts."""
    waiting = http.get("/v1/routing").json()
    delayed, nacked = waiting["delay"]["waiting"], waiting["retry"]["waiting"]
    return delayed, waiting["transactions"]["open"], nacked, waiting["receive"]["out"]


def test_all_that_waits_is_taken_up_whatever_of_the_log_has_left(spark: SparkSession, tmp_path: Path) -> None:
    """No query ran before, or all that it knew is lost: it is the same to a start."""
    settings = SETTINGS | {"storage__segment_bytes": 2**20, "storage__retention_ms": 0}
    settings |= {"storage__compacted_grace_ms": 0, "lake__verify": 0}
    with start_gateway(tmp_path / "data", **settings) as gateway, connect(gateway) as http:
        delays = (1, 2_000, YEAR_MS)
        produce(http, "t", *[{"body": str(each), "delay_ms": each} for each in delays])
        let_the_head_go(http)
        _, committed, rolled_back = begin(http, "u", "given up", "committed", "rolled back")
        assert (
            resolve(http, committed, "commit").status_code == resolve(http, rolled_back, "rollback").status_code == 200
        )
        nacked, dead, held, done = produce(http, "v", "nacked", "dead", "held", "done")
        nack(http, "g", nacked["message_id"], {"message_id": dead["message_id"], "delay_level": -1})
        handed = {each["body"]: each for each in receive(http, "h", "v", max=4, invisible_ms=1_000)}
        assert len({nacked["message_id"], held["message_id"], done["message_id"], *handed}) == 7
        assert ack(http, "h", handed["done"]) == ["ok"]
        assert (bodies(http, "t"), bodies(http, "u"), bodies(http, "%DLQ%g")) == ([], [], [])
        with running(spark, gateway.url, tmp_path / "lake", "delay transaction retry"):
            wait_until(lambda: bodies(http, "t") == ["1", "2000"])
            wait_until(lambda: bodies(http, "u") == ["committed"])
            wait_until(lambda: bodies(http, CHECK_MAX_TOPIC) == ["given up"])
            wait_until(lambda: (bodies(http, "%RETRY%g"), bodies(http, "%DLQ%g")) == (["nacked"], ["dead"]))
            wait_until(lambda: bodies(http, "%RETRY%h") == ["dead", "held", "nacked"])
            wait_until(lambda: what_waits(http) == (1, 0, 0, 0))


def test_a_log_that_may_have_lost_its_tail_is_begun_anew_with_what_waits_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A start after a loss of power begins an epoch: what was decided of the one before is refused, all of it."""
    settings = SETTINGS | {"storage__memory_survives": False}
    with start_gateway(tmp_path / "data", **settings) as gateway, connect(gateway) as http:
        port = httpx.URL(gateway.url).port
        with kept_running(spark, gateway.url, tmp_path / "lake", "delay", "transaction", "retry"):
            delays = {"before": 1_200_000, "late": YEAR_MS, "first": 1}
            produce(http, "t", *[{"body": body, "delay_ms": delay} for body, delay in delays.items()], ack="sync")
            wait_until(lambda: bodies(http, "t") == ["first"])
            gateway.kill()
            again = start_gateway(tmp_path / "data", 1_300_000, gateway__port=port, **settings)
            with again, connect(again) as http_again:
                produce(http_again, "t", {"body": "after", "delay_ms": 1})
                wait_until(lambda: bodies(http_again, "t") == ["after", "before", "first"])
                assert http_again.get("/v1/routing").json()["delay"]["waiting"] == 1


def test_a_disk_that_fails_as_a_batch_begins_is_what_ended_the_query(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was raised: who starts the query again has to know that the disk is away."""

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("lakemq.jobs.routing.query.end_of_batch", fail)
    with (
        start_gateway(tmp_path / "data", **SETTINGS) as gateway,
        pytest.raises(OSError, match="Input/output error"),
        running(spark, gateway.url, tmp_path / "lake", "delay"),
    ):
        pass
