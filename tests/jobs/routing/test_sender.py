"""Decisions reach brokers that are away for a while."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx
import pytest

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.routing.sender import Decision, DecisionSender
from lakemq.testing import start_gateway
from tests.gateway.http import connect, produce
from tests.gateway.routing import position
from tests.jobs.routing.conftest import bodies


def test_decisions_wait_for_a_broker_that_is_away_and_count_once(tmp_path: Path) -> None:
    with start_gateway(tmp_path, routing__lead_ms=0, routing__grace_ms=-1) as gateway, connect(gateway) as http:
        port = httpx.URL(gateway.url).port
        sent = produce(http, "t", *({"body": str(number), "delay_ms": 1} for number in range(3)))
        decisions = [Decision("broker-a", position(each["message_id"]), "deliver", 1) for each in sent]
        gateway.kill()
        sender = DecisionSender({"broker-a": gateway.url})
        sending = threading.Thread(target=sender.send, args=(decisions,))
        sending.start()
        with (
            start_gateway(tmp_path, routing__lead_ms=0, routing__grace_ms=-1, gateway__port=port) as again,
            connect(again) as http_again,
        ):
            sending.join()
            sender.send(decisions)
            assert bodies(http_again, "t") == ["0", "1", "2"]
        sender.close()


def test_a_sender_that_is_stopped_waits_no_longer() -> None:
    sender = DecisionSender({"broker-a": "http://127.0.0.1:1"})
    sender.stop()
    with pytest.raises(BrokerUnavailable):
        sender.send([Decision("broker-a", 0, "deliver", 1)])
