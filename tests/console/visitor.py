"""A console in a process of its own, and who visits it."""

from __future__ import annotations

import html
import re
import sys
from typing import Any, NamedTuple

import httpx

from lakemq.testing import GatewayProcess, gateway_process
from lakemq.testing.gateway_process import environment_of
from lakemq.testing.server_process import ServerProcess
from tests.gateway.http_client import TLS

WAIT_S = 60.0
_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]+)"')
_AT = re.compile(r'name="at" value="([^"]+)"')


class ConsoleProcess(ServerProcess):
    """A console on a free port of 127.0.0.1. `log` is what it has written to stderr."""

    def __init__(self, *brokers: str, **options: Any) -> None:
        environment = environment_of(**{"console__port": 0, **options})
        command = [sys.executable, "-m", "lakemq.console", *brokers]
        super().__init__("console", command, environment, gateway_process.spawn_by_default)


class Visitor:
    """A browser without scripts: it keeps cookies, and sends the forms of pages that it has seen."""

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=WAIT_S, trust_env=False, verify=TLS)
        self.url = url

    def get(self, path: str, status: int = 200, /, **query: str | int) -> str:
        """A page, as text."""
        response = self.http.get(path, params=query or None)
        assert response.status_code == status, (path, response.status_code, response.text[-2000:])
        return response.text

    def post(self, path: str, form: str | None = None, /, **fields: str) -> httpx.Response:
        """Send the form that is on that page, at `path` without one, with these fields."""
        return self.http.post(path, data=self.hidden(form or path) | fields)

    def hidden(self, path: str) -> dict[str, str]:
        """What each form of that page sends beside its fields."""
        page = self.get(path)
        return {"form_token": found(_TOKEN, page), "at": html.unescape(found(_AT, page, ""))}

    def sign_in(self, token: str, **fields: str) -> httpx.Response:
        """Say who it is."""
        return self.post("/sign-in", "/sign-in", token=token, **fields)

    def close(self) -> None:
        """Close its connections."""
        self.http.close()


def found(pattern: re.Pattern[str], page: str, default: str | None = None) -> str:
    """What the pattern finds on a page."""
    match = pattern.search(page)
    if match is None:
        assert default is not None, page
        return default
    return match[1]


def went_to(response: httpx.Response) -> str:
    """Where a form led, without what it says was done."""
    assert response.status_code == 303, (response.status_code, response.text[-2000:])
    return re.sub(r"[?&]done=[a-z-]+$", "", response.headers["location"])


class Guarded(NamedTuple):
    """A broker that wants to know who asks, and its console. `http` asks as the administrator."""

    gateway: GatewayProcess
    console: ConsoleProcess
    admin: str
    http: httpx.Client


def token_of(http: httpx.Client, user: str, *policies: tuple[str, list[str]]) -> str:
    """A new user with these policies."""
    assert http.put(f"/v1/users/{user}", json={"type": "normal"}).status_code == 201
    listed = [{"resource": resource, "actions": actions} for resource, actions in policies]
    assert http.put(f"/v1/users/{user}/policies", json={"policies": listed}).status_code == 200
    return http.post(f"/v1/users/{user}/tokens", json={}).json()["token"]
