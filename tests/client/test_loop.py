"""The loop behind the synchronous clients, and what its thread may not do."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest

from lakemq.client import Producer, SendFuture
from lakemq.client.loop import background
from lakemq.testing import GatewayProcess
from tests.client.producing import bodies

FORKED = """
import os, sys
from lakemq.client import Producer
with Producer(sys.argv[1]) as producer:
    producer.send(sys.argv[2], "parent")
child = os.fork()
if child == 0:
    with Producer(sys.argv[1]) as producer:
        producer.send(sys.argv[2], "child")
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""

USED_AFTER_FORK = """
import os, sys
from lakemq.client import Closed, Producer, PullConsumer
def refused(use):
    try:
        use()
    except Closed:
        return
    os._exit(1)
url, topic = sys.argv[1:]
consumer = PullConsumer("group", brokers=url)
producer = Producer(url, linger_ms=0)
producer.send(topic, "parent")
waiting = [producer.send_async(topic, str(number)) for number in range(50)]
child = os.fork()
if child == 0:
    refused(lambda: producer.send(topic, "child"))
    refused(lambda: producer.send(topic, b"child"))
    refused(lambda: producer.send(topic, "child", ordering_key="k"))
    refused(lambda: producer.send_batch(topic, ["child"]))
    refused(lambda: producer.request(topic, "child"))
    refused(producer.flush)
    refused(lambda: consumer.queues_of(topic))
    if not all(future.done() for future in waiting):
        os._exit(2)
    producer.close()
    del producer, consumer
    sys.exit(0)
status = os.waitpid(child, 0)[1]
producer.send(topic, "parent again")
producer.close()
consumer.close()
sys.exit(status)
"""


async def _give(value: int) -> int:
    return value


def test_all_clients_of_a_process_share_one_loop() -> None:
    assert background() is background()
    assert background().run(_give(3)) == 3


def test_who_waits_no_longer_ends_what_he_waits_for() -> None:
    ended = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        background().run(wait(), 0.05)
    assert ended.wait(60)


def test_its_own_thread_must_not_wait_for_it(gateway: GatewayProcess, topic: str) -> None:
    errors: list[BaseException] = []
    done = threading.Event()

    with Producer(gateway.url) as producer:

        def misuse(future: SendFuture) -> None:
            waits: list[Any] = [lambda: producer.send(topic, "again"), producer.flush]
            for wait in waits:
                try:
                    wait()
                except RuntimeError as error:
                    errors.append(error)
            done.set()

        producer.send_async(topic, "first").add_done_callback(misuse)
        assert done.wait(60)
    assert ["aio" in str(error) for error in errors] == [True, True]
    assert sorted(bodies(gateway.url, topic)) == [b"again", b"first"]


def test_a_forked_child_has_a_loop_of_its_own(gateway: GatewayProcess, topic: str) -> None:
    command = [sys.executable, "-c", FORKED, gateway.url, topic]
    done = subprocess.run(command, timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(bodies(gateway.url, topic)) == [b"child", b"parent"]


def test_what_was_made_before_a_fork_is_closed_in_the_child_and_goes_on_in_the_parent(
    gateway: GatewayProcess, topic: str
) -> None:
    command = [sys.executable, "-c", USED_AFTER_FORK, gateway.url, topic]
    done = subprocess.run(command, timeout=60, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(bodies(gateway.url, topic)) == sorted([b"parent", b"parent again", *(b"%d" % n for n in range(50))])
