"""An application that a test runs as a process of its own, and asks to stop: `python -m tests.client.app_program KIND
BROKER TOPIC SECONDS FOLDER`. A call of its listener takes so long; files in the folder say what has happened."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from lakemq.client import App, MessageView, aio


def threads(broker: str, topic: str, seconds: float, folder: Path) -> None:
    app = App(topic, brokers=broker, consume_from="first", stop_timeout_s=60)

    @app.listener(topic)
    def listen(message: MessageView) -> None:
        (folder / "begun").touch()
        time.sleep(seconds)
        (folder / message.text()).touch()

    app.on_start(lambda: (folder / "started").touch())
    app.on_stop(lambda: (folder / "stopped").touch())
    app.run()
    (folder / "ended").touch()


def loop(broker: str, topic: str, seconds: float, folder: Path) -> None:
    app = aio.App(topic, brokers=broker, consume_from="first", stop_timeout_s=60)

    @app.listener(topic)
    async def listen(message: MessageView) -> None:
        (folder / "begun").touch()
        await asyncio.sleep(seconds)
        (folder / message.text()).touch()

    app.on_start(lambda: (folder / "started").touch())
    app.on_stop(lambda: (folder / "stopped").touch())
    app.run()
    (folder / "ended").touch()


if __name__ == "__main__":
    kind, broker, topic, seconds, folder = sys.argv[1:]
    {"threads": threads, "loop": loop}[kind](broker, topic, float(seconds), Path(folder))
