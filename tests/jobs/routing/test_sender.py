"""Decisions reach brokers that are away for a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.routing.sender import ROWS_PER_REQUEST_MAX, Decision, DecisionSender, Whereto
from lakemq.model.errors import LogReplaced
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, is_problem, produce
from tests.gateway.routing.asking import log_of, position
from tests.jobs.routing.conftest import bodies


def test_decisions_wait_for_a_broker_that_is_away_and_count_once(tmp_path: Path) -> None:
    with start_gateway(tmp_path, routing__lead_ms=0, routing__grace_ms=-1) as gateway, connect(gateway) as http:
        port = httpx.URL(gateway.url).port
        sent = produce(http, "t", *({"body": str(number), "delay_ms": 1} for number in range(3)))
        decisions = [Decision("broker-a", position(each["message_id"]), "deliver", 1) for each in sent]
        sender = DecisionSender({"broker-a": Whereto(gateway.url, **log_of(http))})
        gateway.kill()
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
    sender = DecisionSender({"broker-a": Whereto("http://127.0.0.1:1", "", 1)})
    sender.stop()
    with pytest.raises(BrokerUnavailable):
        sender.send([Decision("broker-a", 0, "deliver", 1)])


def test_a_sender_holds_no_more_than_a_request_of_each_broker() -> None:
    """A million that are due at once, as objects of Python, are hundreds of MB."""
    sender = DecisionSender({broker: Whereto("http://127.0.0.1:1", "", 1) for broker in "ab"})
    sender.stop()
    taken = 0

    def decisions() -> Iterator[Decision]:
        nonlocal taken
        for cause in range(4 * ROWS_PER_REQUEST_MAX):
            taken += 1
            yield Decision("ab"[cause % 2], cause, "deliver", 1)

    with pytest.raises(BrokerUnavailable):
        sender.send(decisions())
    sender.close()
    assert ROWS_PER_REQUEST_MAX <= taken < 2 * ROWS_PER_REQUEST_MAX


def test_decisions_of_a_former_life_of_the_log_do_nothing(tmp_path: Path) -> None:
    """Another log, and a later epoch of it, have messages of their own at the positions that were decided on."""
    options: dict[str, Any] = {
        **{"routing__lead_ms": 0, "routing__grace_ms": -1, "topics__default_queues": 1},
        "storage__memory_survives": False,
    }
    later = {"body": "x", "delay_ms": 3_600_000}
    former: list[dict[str, Any]] = []
    for life, folder in enumerate(("data", "data", "other")):
        with start_gateway(tmp_path / folder, **options) as gateway, connect(gateway) as http:
            causes = [position(each["message_id"]) for each in produce(http, "t", *[later] * 40, ack="sync")]
            for before in former:
                sender = DecisionSender({"broker-a": Whereto(gateway.url, **before)})
                with pytest.raises(LogReplaced, match="none is carried out"):
                    sender.send([Decision("broker-a", cause, "deliver", 1) for cause in causes])
                sender.close()
                columns = {"cause": causes, "action": ["deliver"] * 40, "due_ms": [1] * 40}
                assert is_problem(http.post("/v1/log/decisions", json=columns | before), 409, "log_replaced")
            waiting = http.get("/v1/routing").json()
            assert waiting["delay"]["waiting"] == (80 if life == 1 else 40)
            assert waiting["delay"]["decided"] == 0
            now = log_of(http)
            assert now == {name: waiting[name] for name in ("log_id", "epoch")}
            assert now not in former
            former.append(now)
            gateway.kill()
