"""Clients of a broker whose replicas elect their leader: it is killed, or gives its place away, and nobody is told."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lakemq.client import MessageView, Producer, PushConsumer, SendReceipt, SimpleConsumer, broker_requests
from lakemq.client.http import HttpClient
from tests.client.consuming import wait_until
from tests.client.name_server import NameServer
from tests.gateway.fleet.electing import LONGEST, PATIENT, STILL_S, replicas
from tests.standstill import begins_again_after

WAIT_S = 60.0


class Traffic:
    """Sends ordered messages without end, in a thread, and hears them; `error` is what a caller was told."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent: list[SendReceipt] = []
        self.heard: list[str] = []
        self.error: Exception | None = None

    def listen(self, message: MessageView) -> None:
        self.heard.append(message.text())

    def start(self) -> None:
        self._thread.start()

    def more(self, count: int = 20) -> None:
        """Wait until so many more were sent and heard."""
        until = len(self.sent) + count
        wait_until(lambda: self.error is not None or len(self.sent) >= until)
        wait_until(lambda: self.error is not None or f"{until - 1}" in self.heard)
        assert self.error is None

    def end(self) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._end.wait(0.005):
                self.sent.append(self._producer.send("orders", f"{len(self.sent)}", ordering_key="one"))
        except Exception as error:  # noqa: BLE001  the test is told
            self.error = error


@pytest.mark.parametrize(
    ("killed", "named"),
    [
        (True, True),
        (False, False),
        pytest.param(True, False, marks=pytest.mark.long),
        pytest.param(False, True, marks=pytest.mark.long),
    ],
)
@begins_again_after(STILL_S)
def test_clients_go_through_a_change_of_leader(
    tmp_path: Path, killed: bool, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_requests, "SWITCH_S", WAIT_S)  # a slow machine needs more than ten seconds
    with ExitStack() as stack:
        server = stack.enter_context(NameServer())
        names: dict[str, Any] = {"fleet__nameservers": server.url} if named else {}
        fleet = stack.enter_context(replicas(tmp_path, **(PATIENT if killed else LONGEST), **names))
        urls = [process.url for process in fleet.running.values()]
        given: dict[str, Any] = {"nameservers": server.url} if named else {"brokers": urls}
        clients = stack.enter_context(ExitStack())
        traffic = Traffic(clients.enter_context(Producer(**given, timeout_s=WAIT_S)))
        simple = clients.enter_context(SimpleConsumer("simple", **given))
        consumer = PushConsumer("push", traffic.listen, orderly=True, consume_from="first", **given)
        clients.enter_context(consumer)
        consumer.subscribe("orders")
        clients.callback(traffic.end)
        traffic.start()
        traffic.more()
        received = simple.receive("orders", wait_s=WAIT_S)
        if killed:
            fleet.kill(0)
        else:
            with HttpClient(urls[1]) as http:
                http.switch(1)
        assert simple.ack(received) == ["ok"] * len(received)
        traffic.more()
        assert fleet.leader() == 1
        if killed:
            fleet.start(0)
        fleet.in_sync(0, 1)
        traffic.more()
        traffic.end()
        order = list(dict.fromkeys(int(text) for text in traffic.heard))
        assert order == sorted(order), "nothing overtakes another, and nothing is passed over"
        assert order == list(range(len(order)))
        offsets = [receipt.queue_offset for receipt in traffic.sent]
        assert offsets == sorted(set(offsets)), "nothing was stored twice"
