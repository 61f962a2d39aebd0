"""A program of the lakemq in the folder that it is started in: `python old_client.py NAMESERVERS`.

It sends messages, consumes the topic, and writes a line of JSON for each that was acknowledged or heard. It ends
sending with its input. It imports nothing of the tests, as that lakemq is an older one.
"""

from __future__ import annotations

import json
import sys
import threading

from lakemq.client import MessageView, Producer, PushConsumer

TOPIC = "orders"
WRITER = "8"
"""As the ledger's writers are called: none of them."""
PAUSE_S = 0.02
_LOCK = threading.Lock()


def tell(**what: object) -> None:
    """Write a line."""
    with _LOCK:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


def hear(message: MessageView) -> None:
    """A message has come."""
    tell(heard=message.body.decode())


def main(nameservers: str) -> None:
    """Send until the input ends; consume until the process is killed."""
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
    consumer = PushConsumer("of-old", hear, nameservers=nameservers, consume_from="first")
    consumer.subscribe(TOPIC)
    consumer.start()
    with Producer(nameservers=nameservers, timeout_s=60.0) as producer:
        number = 0
        while not ends.wait(PAUSE_S):
            body = f"{WRITER}-{number}"
            tell(sends=body)
            receipt = producer.send(TOPIC, body, ordering_key=WRITER)
            tell(sent=body, message_id=receipt.message_id, position=receipt.position)
            number += 1
    tell(ends=number)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
