"""A client whose every operation is in the history."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpx

from lakemq.testing.history import Recorder, name_of_payload
from tests.as_administrator import AsAdministrator
from tests.chaos.target import Target

TIMEOUT_S = 30.0
PAUSE_S = 0.05
PROBLEM = "application/problem+json"
TLS = ssl.create_default_context()
"""Unused; to make one for each client takes longer than all else of it."""


class Violation(Exception):
    """An answer that no fault excuses: a 500."""


class Caller:
    """One thread's connection to the broker, over all its lives."""

    def __init__(self, name: str, target: Target) -> None:
        self.name = name
        self.target = target
        self.recorder: Recorder = target.recorder
        self._http: httpx.Client | None = None
        self.answers = 0
        self.refused = 0

    def ask(self, number: int, method: str, path: str, **options: Any) -> httpx.Response | None:
        """Send the request of operation `number`. An answer of success is the caller's to record as ok;
        None: it was refused or nobody knows, and that is recorded."""
        response = self.send(number, method, path, **options)
        if response is not None and response.is_success:
            return response
        if response is not None:
            self.refuse(number, response)
        time.sleep(PAUSE_S)
        return None

    def refuse(self, number: int, response: httpx.Response) -> None:
        """Record an answer that is no success."""
        self.refused += 1
        # What a 5xx says may come after the message was written: whether it stays nobody knows.
        self.recorder.end(number, "unknown" if response.status_code >= 500 else "failed", code=code_of(response))

    def send(self, number: int, method: str, path: str, **options: Any) -> httpx.Response | None:
        http = self._connect()
        if http is None:
            self.recorder.end(number, "failed")
            return None
        try:
            response = http.request(method, path, **options)
        except httpx.ConnectError:
            self.recorder.end(number, "failed")
        except httpx.TransportError:
            self.recorder.end(number, "unknown")
        else:
            self.answers += 1
            if response.status_code == 500:
                raise Violation(f"{method} {path}: {response.status_code} {response.text[:500]}")
            return response
        self.close()
        return None

    def _connect(self) -> httpx.Client | None:
        url = self.target.url
        if self._http is not None and str(self._http.base_url).rstrip("/") != url:
            self.close()
        if self._http is None and url is not None:
            self._http = httpx.Client(
                base_url=url, trust_env=False, timeout=TIMEOUT_S, verify=TLS, auth=AsAdministrator()
            )
        return self._http

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._http is not None:
            self._http.close()
            self._http = None


def code_of(response: httpx.Response) -> str | None:
    """The code of an error."""
    if response.headers.get("content-type") != PROBLEM:
        return None
    return response.json().get("code")


def row_of(message: dict[str, Any]) -> list[Any]:
    """A message of an answer as a row of the history."""
    payload = name_of_payload(message["body"].encode())
    place = [message["topic"], message["queue_id"], message["queue_offset"], message["position"], payload]
    return [*place, message["store_time_ms"], message["message_id"], message["reconsume_times"]]


def promised(topic: str, placed: Iterable[dict[str, Any]], payloads: Iterable[str]) -> list[list[Any]]:
    """What a produce was answered as rows of the history."""
    return [
        [topic, each["queue_id"], each["queue_offset"], each["position"], payload, None, each["message_id"], 0]
        for each, payload in zip(placed, payloads, strict=True)
    ]
