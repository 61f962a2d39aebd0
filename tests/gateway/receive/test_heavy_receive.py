"""A receive whose filter takes long: the others are served meanwhile."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from lakemq.testing import GatewayProcess
from tests.gateway.http_client import connect, produce, put_topic
from tests.gateway.receive.asking import bodies, receive

SLOW = "text LIKE '%a" + "_" * 200 + "b%d'"
"""A pattern that takes seconds to look through what follows."""
BULK = "".join(random.Random(1).choices("ab", k=16_000)) + "c"
ROUNDS_MIN, TRIES = 5, 6
"""Of many, on a machine with nothing else to do: while it is looked through the loop goes on. Where who asks stood
still meanwhile it is seen by another receive."""


@pytest.mark.parametrize("ordered", [False, True])
def test_others_are_served_while_a_receive_looks_through_much(
    gateway: GatewayProcess, http: httpx.Client, topic: str, ordered: bool
) -> None:
    put_topic(http, topic)
    put_topic(http, f"{topic}-others")
    wanted = {"body": "wanted", "properties": {"text": "a" + "-" * 200 + "b-d"}}
    most = 0
    with connect(gateway) as patient, ThreadPoolExecutor(1) as threads:
        for number in range(TRIES):
            group = f"g{number}-{topic}"
            receiving = threads.submit(receive, patient, group, topic, sql=SLOW, ordered=ordered, wait_ms=60_000)
            if number == 0:  # who waits is woken
                produce(http, topic, *[{"body": "x", "properties": {"text": BULK}}] * 10, wanted)
            rounds = 0
            while not receiving.done():
                assert http.get("/healthz").status_code == 200
                produce(http, f"{topic}-others", "y")
                rounds += 1
            assert bodies(receiving.result()) == ["wanted"]
            most = max(most, rounds)
            if most > ROUNDS_MIN:
                break
    assert most > ROUNDS_MIN
