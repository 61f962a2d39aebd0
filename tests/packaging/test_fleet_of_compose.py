"""The fleet of deploy/compose: its commands and environments run here without containers, each in a folder of its own,
at a port of this machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx

from lakemq.testing import gateway_process
from lakemq.testing.gateway_process import environment_of
from lakemq.testing.server_process import ServerProcess
from tests.console.visitor import Visitor
from tests.packaging.containers import DEPLOY, of_compose
from tests.ports import free_port

TOKEN = f"lmq_admin_{'0123456789abcdef' * 4}"
NAMES = ("nameserver", "broker-a-0", "broker-a-1", "console")
WAIT_S_MAX = 120


class Fleet:
    """Its processes, by the names of their services."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ports = {name: free_port() for name in NAMES}
        self._services = {each.place.split(": ")[1]: each for each in of_compose(DEPLOY / "compose/fleet.yml")}
        secrets = root / "secrets"
        secrets.mkdir()
        (secrets / "admin.token").write_text(TOKEN + "\n")
        (secrets / "nameserver.token").write_text(f"lmq_names_{'fedcba9876543210' * 4}\n")

        for file in secrets.iterdir():
            file.chmod(0o600)

    def start(self, name: str) -> ServerProcess:
        service = self._services[name]
        kind = service.command.upper()
        environment = {key: self._placed(name, value) for key, value in service.environment.items()}
        environment |= {f"LAKEMQ_{kind}__HOST": "127.0.0.1", f"LAKEMQ_{kind}__PORT": str(self._ports[name])}
        command = [sys.executable, "-m", "lakemq", *service.arguments]
        return ServerProcess(service.command, command, environment_of() | environment, gateway_process.spawn_by_default)

    def http(self, name: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return httpx.Client(base_url=f"http://127.0.0.1:{self._ports[name]}", headers=headers, timeout=60)

    def _placed(self, name: str, value: str) -> str:
        for other, port in self._ports.items():
            value = value.replace(f"http://{other}:{8080 if 'broker' in other else 9876}", f"http://127.0.0.1:{port}")
        value = value.replace("/run/secrets", str(self._root / "secrets"))
        value = value.replace("/var/lib/lakemq/log", str(self._root / name))
        return value.replace("/var/lib/lakemq", str(self._root / "shared"))


def until(done: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + WAIT_S_MAX
    while not done():
        assert time.monotonic() < end_s, what
        time.sleep(0.05)


def in_sync(http: httpx.Client) -> list[int]:
    answer = http.get("/v1/broker")
    return answer.json().get("in_sync", []) if answer.status_code == 200 else []


def look_at_the_console(fleet: Fleet, running: ExitStack) -> None:
    running.enter_context(fleet.start("console"))
    with fleet.http("console") as console:
        assert console.get("/healthz").status_code == 200
        assert console.get("/").headers["location"].startswith("/sign-in")
    visitor = Visitor(str(console.base_url))
    assert visitor.sign_in(TOKEN).status_code == 303
    overview = visitor.get("/")
    visitor.close()
    assert overview.count('<option value="http://127.0.0.1:') == 2  # both replicas, as the name server told


def test_one_leads_the_other_follows_and_takes_its_place(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    (tmp_path / "shared/leader").mkdir(parents=True)
    with ExitStack() as running:
        running.enter_context(fleet.start("nameserver"))
        first = running.enter_context(fleet.start("broker-a-0"))
        with fleet.http("broker-a-0") as leads, fleet.http("broker-a-1") as follows:
            until(lambda: leads.get("/readyz").status_code == 200, "it did not lead")
            running.enter_context(fleet.start("broker-a-1"))
            until(lambda: in_sync(leads) == [0, 1], "it did not follow")
            assert leads.post("/v1/topics/t/messages", content=b"hello").status_code == 200
            assert httpx.get(f"{leads.base_url}/v1/topics", timeout=60).status_code == 401
            look_at_the_console(fleet, running)
            assert first.stop() == 0, first.log
            until(lambda: follows.get("/readyz").status_code == 200, "nobody took its place")
            until(
                lambda: follows.post("/v1/topics/t/messages", content=b"again").status_code == 200, "it does not lead"
            )
            topics = [each["topic"] for each in follows.get("/v1/topics").json()["topics"]]
            assert "t" in topics
