"""How soon the queues of a consumer that is gone are another's: `python -m benchmarks.handover`.

Two consumers of a group share 8 queues. One leaves, or is killed with kill -9; time runs until the
other has all queues, as its own list of them says. While it goes on messages are sent; in the end each
must have been processed.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.options import sizes
from benchmarks.results import emit
from lakemq.client import MessageView, Producer, PushConsumer

TOPIC = "handover"
QUEUES = 8
WAIT_S_MAX = 60.0
_OTHER = """
import os, sys
from lakemq.client import PushConsumer
def listen(message):
    os.write(1, f"{message.text()}\\n".encode())
consumer = PushConsumer("group", listen, brokers=sys.argv[1], consume_from="first")
consumer.subscribe("handover")
consumer.start()
sys.stdin.read()
consumer.close()
"""


def _wait_for(queues: int, consumer: PushConsumer) -> None:
    end = time.monotonic() + WAIT_S_MAX
    while len(consumer.queues) != queues:
        if time.monotonic() > end:
            raise RuntimeError(f"the consumer has {len(consumer.queues)} queues, not {queues}")
        time.sleep(0.002)


def _measure(url: str, kill: bool) -> tuple[float, int, int]:
    """Seconds until all queues are the one's, and how many messages were sent, and never processed."""
    seen: set[str] = set()

    def listen(message: MessageView) -> None:
        seen.add(message.text())

    sent, stop = 0, threading.Event()
    with Producer(url) as producer, PushConsumer("group", listen, brokers=url, consume_from="first") as consumer:
        consumer.subscribe(TOPIC)
        command = [sys.executable, "-c", _OTHER, url]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdin is not None
            assert other.stdout is not None
            stream = other.stdout
            reader = threading.Thread(target=lambda: seen.update(line.strip() for line in stream))
            reader.start()
            _wait_for(QUEUES // 2, consumer)

            def produce() -> None:
                nonlocal sent
                while not stop.wait(0.005):
                    producer.send(TOPIC, f"{kill} {sent}")
                    sent += 1

            load = threading.Thread(target=produce)
            load.start()
            time.sleep(2)
            begin = time.monotonic()
            if kill:
                other.kill()
            else:
                other.stdin.close()
            _wait_for(QUEUES, consumer)
            took = time.monotonic() - begin
            stop.set()
            load.join()
            other.wait()
            reader.join()
        end = time.monotonic() + WAIT_S_MAX
        expected = {f"{kill} {number}" for number in range(sent)}
        while not expected <= seen and time.monotonic() < end:
            time.sleep(0.05)
        return took, sent, len(expected - seen)


def main() -> None:
    arguments = sizes(__doc__, expiry_ms=(5_000, 2_000), rounds=(3, 1))
    with scratch() as folder, gateway(folder, groups__member_expiry_ms=arguments.expiry_ms) as process:
        make_topic(process.url, TOPIC, QUEUES)
        for number in range(arguments.rounds):
            for kill in (False, True):
                took, sent, lost = _measure(process.url, kill)
                settings = {"expiry_ms": arguments.expiry_ms, "round": number, "sent": sent, "lost": lost}
                emit("queues moved after " + ("kill -9" if kill else "leaving"), took, "s", settings)


if __name__ == "__main__":
    main()
