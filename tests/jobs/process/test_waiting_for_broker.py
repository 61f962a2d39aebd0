"""Jobs without a broker say which one they wait for, so that nobody waits for them for long."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import pytest

from lakemq.jobs.process import broker_watch
from lakemq.jobs.process.broker_watch import BrokerWatch
from lakemq.jobs.session import starting
from lakemq.jobs.session.starting import awaited_by_starting, find_server_once_up, marked
from lakemq.testing import start_gateway
from lakemq.wire.name_servers import NameServers
from tests.client.consuming import wait_until
from tests.ports import free_port


def test_the_broker_that_is_waited_for_is_said_until_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_watch, "BEAT_S", 0.2)
    monkeypatch.setattr(starting, "WITHOUT_BROKER_S_MAX", 0.0)
    lake, port, stop = tmp_path / "lake", free_port(), Event()
    address = f"http://127.0.0.1:{port}"
    said: list[str] = []
    with marked(lake) as mark:
        watch = BrokerWatch(address, stop)
        watch.on_waiting = mark.waits_for_broker
        watch.start()
        waiting = Thread(target=watch.wait)
        waiting.start()
        try:
            wait_until(lambda: awaited_by_starting(lake) == f"a broker at {address}")
            assert find_server_once_up(lake, said.append) is None
            with start_gateway(tmp_path / "data", gateway__port=port):
                waiting.join(120)
                assert awaited_by_starting(lake) == ""
        finally:
            stop.set()
            waiting.join(120)
    assert said[1:] == [
        f"the jobs wait for a broker at {address}",
        "not waiting for the jobs any longer: start the broker they wait for, or run lakemq doctor",
    ]


def test_where_name_servers_say_who_there_is_these_are_waited_for() -> None:
    stop, said = Event(), list[str]()
    watch = BrokerWatch("", stop, NameServers(["http://127.0.0.1:1"]))
    watch.on_waiting = said.append
    waiting = Thread(target=watch.wait)
    waiting.start()
    try:
        wait_until(lambda: bool(said))
    finally:
        stop.set()
        waiting.join(120)
    assert said == ["a name server that answers"]
