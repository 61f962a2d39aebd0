"""The jobs hear of changed schemas as they say that they are alive."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from lakemq.jobs.process import broker_watch
from lakemq.jobs.process.broker_watch import BrokerWatch
from lakemq.testing import start_gateway
from tests.client.consuming import wait_until
from tests.gateway.http_client import connect, put_topic

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}


def test_each_change_is_told_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_watch, "BEAT_S", 0.2)
    stop, told = Event(), list[None]()
    with start_gateway(tmp_path / "data") as gateway, connect(gateway) as http:
        put_topic(http, "t")
        watch = BrokerWatch(gateway.url, stop)
        watch.on_schemas = lambda: told.append(None)
        watch.start()
        try:
            wait_until(lambda: len(told) == 1)
            put_topic(http, "other")
            for change, count in (
                (lambda: http.put("/v1/topics/t/schema", json={"schema": SCHEMA}), 2),
                (lambda: http.delete("/v1/topics/t/schema"), 3),
                (lambda: http.put("/v1/topics/t/schema", json={"schema": SCHEMA}), 4),
                (lambda: http.delete("/v1/topics/t"), 5),
            ):
                change().raise_for_status()
                wait_until(lambda count=count: len(told) == count)
        finally:
            stop.set()
