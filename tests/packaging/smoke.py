"""What an installation has to be able to do."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.packaging.installed import Installed

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
