"""A consumer in a process of its own, for tests that kill it: `python -m tests.client.consumer_process`.

Prints a line for each message, `{queue_id} {text}`, and waits so many seconds for each.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Self

from lakemq.client import MessageView, PushConsumer
from lakemq.client.consume.push_options import PushOptions


class ConsumerProcess:
    """Such a process. `texts` are what it has processed."""

    def __init__(
        self, url: str, group: str, topic: str, orderly: bool, message_s: float, nameserver: bool = False
    ) -> None:
        command = [sys.executable, "-m", "tests.client.consumer_process", url, group, topic, str(message_s)]
        command += ["--orderly"] if orderly else []
        command += ["--nameserver"] if nameserver else []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.texts: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.texts.append(line.strip())

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait(60)
        self._reader.join(60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("group")
    parser.add_argument("topic")
    parser.add_argument("message_s", type=float)
    parser.add_argument("--orderly", action="store_true")
    parser.add_argument("--nameserver", action="store_true", help="the url is a name server's")
    chosen = parser.parse_args()

    def listener(message: MessageView) -> None:
        time.sleep(chosen.message_s)
        sys.stdout.write(f"{message.text()}\n")
        sys.stdout.flush()

    options: PushOptions = {"consume_from": "first", "orderly": chosen.orderly}
    options["nameservers" if chosen.nameserver else "brokers"] = chosen.url
    with PushConsumer(chosen.group, listener, **options) as consumer:
        consumer.subscribe(chosen.topic)
        time.sleep(3_600)  # whoever started it kills it


if __name__ == "__main__":
    _main()
