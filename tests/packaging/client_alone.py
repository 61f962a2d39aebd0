"""Run by the Python of an environment, with a gateway's URL: sends, pulls, receives. With `alone` nothing of others is
there; else they are there, and aren't loaded.

It is no part of the tests' package there: it imports nothing but lakemq.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from threading import Event

OTHERS = ("fastapi", "starlette", "uvicorn", "uvloop", "pyspark", "deltalake", "crc32c", "prometheus_client", "sqlglot")
"""Packages of the gateway and of the jobs."""
BY_ARROW = ("numpy", "pandas")
"""What Arrow loads where it is there."""


def main(url: str, alone: bool) -> None:
    if alone:
        here = [name for name in (*OTHERS, *BY_ARROW) if find_spec(name) is not None]
        assert not here, here
    import lakemq.client as client

    for name in client.__all__:
        assert getattr(client, name) is not None, name
    got: list[str] = []
    done = Event()

    def listen(message: client.MessageView) -> None:
        got.append(message.text())
        done.set()

    with client.Producer(brokers=url) as producer:
        sent = producer.send("books", "one book", tag="paid", keys=["k"])
    with client.PullConsumer("readers", brokers=url, consume_from="first") as consumer:
        consumer.subscribe("books")
        pulled = consumer.poll(wait_s=30)
        assert [each.message_id for each in pulled] == [sent.message_id], pulled
    with client.PushConsumer("others", listen, brokers=url, consume_from="first") as consumer:
        consumer.subscribe("books")
        assert done.wait(30)
    assert got == ["one book"], got
    assert client.write_topic("books", {"title": ["two"]}, key="title", brokers=url) == 1
    assert len(client.read_topic("books", body="text", brokers=url)) == 2
    loaded = [name for name in OTHERS if name in sys.modules]
    assert not loaded, loaded
    sys.stdout.write("sent, pulled, received\n")


if __name__ == "__main__":
    main(sys.argv[1], "alone" in sys.argv)
