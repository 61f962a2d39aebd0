"""What an installation has to be able to do."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.client.consuming import wait_until
from tests.packaging.installed import Installed
from tests.traces.collector import collecting

PARENT = f"00-{'a' * 32}-{'b' * 16}-01"
CLIENT = Path(__file__).with_name("client_alone.py")


def client_works(installed: Installed, url: str, *alone: str) -> None:
    """The client loads nothing of what only a gateway or jobs need; with `"alone"` none of it is there. And its
    commands, which look at the environment."""
    done = installed.run("python", CLIENT, url, *alone)
    assert (done.returncode, done.stdout) == (0, "sent, pulled, received\n"), done.stderr
    done = installed.run("lakemq", "produce", "letters", "hello", broker=url)
    assert done.returncode == 0, done.stderr
    done = installed.run("lakemq", "pull", "letters", "--json", broker=url)
    assert "hello" in done.stdout, (done.stdout, done.stderr)
    done = installed.run("lakemq", "topic", "list", "--json", broker=url)
    assert {json.loads(line)["topic"] for line in done.stdout.splitlines()} >= {"books", "letters"}, done.stderr


@contextmanager
def gateway_works(installed: Installed) -> Generator[str]:
    """One that is told all by its environment; it stops in order. Its URL."""
    data = installed.folder / "data"
    gateway = installed.serve("gateway", "lakemq", "gateway", gateway__port=0, storage__data_dir=data)
    with gateway:
        request = urllib.request.Request(f"{gateway.url}/v1/topics/first/messages", data=b"hello")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["messages"][0]["message_id"]
        with urllib.request.urlopen(f"{gateway.url}/readyz", timeout=60) as answer:
            assert answer.status == 200
        yield gateway.url
        assert gateway.stop() == 0, gateway.log
    assert "Traceback" not in "".join(gateway.log)
    done = installed.run("lakemq", "log", "verify", storage__data_dir=data)
    assert (done.returncode, "sound" in done.stdout) == (0, True), done.stderr


def traces_work(installed: Installed) -> None:
    """A gateway tells a collector of what it is asked."""
    data = installed.folder / "traced"
    with collecting() as collector:
        settings = {"gateway__port": 0, "storage__data_dir": data, "traces__endpoint": collector.url}
        with installed.serve("gateway", "lakemq", "gateway", **settings) as gateway:
            request = urllib.request.Request(f"{gateway.url}/healthz", headers={"traceparent": PARENT})
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert answer.status == 200
            wait_until(lambda: [span.name for span in collector.of("a" * 32)] == ["GET /healthz"])
            assert gateway.stop() == 0, gateway.log
