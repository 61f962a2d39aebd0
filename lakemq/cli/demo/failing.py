"""A consumer that fails on some flights until they are dead letters, and their redrive."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakemq.cli.demo.queries import TOPIC
from lakemq.client import MessageView
from lakemq.client.http import HttpClient
from lakemq.client.message import Nack
from lakemq.model.errors import LakemqError

GROUP = "crew"
RETRY_TOPIC, DEAD_TOPIC = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
FAILING_MAX = 12
LEVEL = 1
"""Every retry comes after a second: the demo has no hours to wait."""
ATTEMPTS = 3
"""The first, and two retries."""
WAIT_MS = 1_000
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Failing:
    """What became of the messages that the consumer fails on."""

    failing: int
    attempts: int
    """Of all of them together."""
    dead: int
    predicate: str
    matched: int
    redriven: int
    processed: int
    """Of the redriven, by a consumer that is mended: each once, with its count of attempts at 0."""
    still_dead: int


def fail_and_redrive(url: str) -> Failing:
    """Fail on a few flights until all are dead letters; then redrive those of one carrier."""
    with HttpClient(url) as client:
        failing = client.pull(TOPIC, 0, 0, FAILING_MAX, wait_ms=WAIT_MS).messages
        if not failing:
            raise LakemqError("the first queue has no flights to fail on")
        retried = _fail(client, failing)
        dead = list(_consume(client, DEAD_TOPIC, 0, len(failing)))
        ((carrier, _),) = Counter(each.tag for each in failing).most_common(1)
        predicate = f"tag = '{carrier}' AND real_topic = '{TOPIC}'"
        started = client.redrive(GROUP, predicate)
        redriven = _wait(client, started.redrive_id)
        again = list(_consume(client, RETRY_TOPIC, retried, redriven))
    return Failing(
        failing=len(failing),
        attempts=len(failing) + retried,
        dead=len({each.origin_message_id for each in dead}),
        predicate=predicate,
        matched=started.matched,
        redriven=redriven,
        processed=len({each.origin_message_id for each in again if each.tag == carrier and not each.reconsume_times}),
        still_dead=sum(each.tag != carrier for each in dead),
    )


def _fail(client: HttpClient, failing: Sequence[MessageView]) -> int:
    """Nack these, and every retry of them, until none comes any more; how many retries came."""
    _nack(client, failing)
    retried, expected = 0, len(failing) * (ATTEMPTS - 1)
    for message in _consume(client, RETRY_TOPIC, 0, expected):
        _nack(client, [message])
        retried += 1
    return retried


def _nack(client: HttpClient, messages: Sequence[MessageView]) -> None:
    client.nack(GROUP, [Nack(each.message_id, LEVEL, ATTEMPTS - 1) for each in messages], "crew-1")


def _consume(client: HttpClient, topic: str, offset: int, count: int) -> Iterator[MessageView]:
    """`count` messages of a topic with one queue, as they come; fewer when none comes for a minute."""
    moved_s = time.monotonic()
    while count > 0 and time.monotonic() - moved_s < PATIENCE_S:
        pulled = client.pull(topic, 0, offset, count, WAIT_MS)
        if pulled.messages:
            moved_s = time.monotonic()
        yield from pulled.messages
        count -= len(pulled.messages)
        offset = pulled.next_offset


def _wait(client: HttpClient, redrive_id: str) -> int:
    """How many a redrive has sent, once it is over."""
    while True:
        found = client.redrive_progress(redrive_id)
        if found["state"] != "running":
            return found["redriven"]
        time.sleep(0.1)
