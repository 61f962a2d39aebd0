"""So many requests at a gateway and a name server, and what was wrong with their answers."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import requests

from lakemq.contract import nameserver_routes
from lakemq.testing import start_nameserver
from lakemq.testing.server_process import ServerProcess
from tests.fuzz_access.drawn import Answered, Names, ask, document_of, strategies_of
from tests.fuzz_access.scene import leaks, names_in, open_scene
from tests.gateway.http_client import check_problem

ALLOWED_5XX = {503: {"busy", "store_unwritable"}, 504: {"request_timeout"}}
EACH = 100
"""Requests of one route in a row."""
_FOUND_MAX = 20
_SHOWN = 600


def run(folder: Path, count: int, seed: int, statuses: dict[str, Counter[int]], each: int = EACH) -> list[str]:
    """About `count` requests, the same number by each who asks; what was found, at most so many things."""
    found: list[str] = []
    with open_scene(folder) as scene, start_nameserver() as nameserver:
        share = count // (len(scene.tokens) + 1)
        strategies = strategies_of(scene.document)
        for who, token in scene.tokens.items():
            told = ask(strategies, scene.gateway.url, token, scene.names, itertools.count(seed), each)
            found += _asked(who, told, share, statuses)
        described = strategies_of(document_of(nameserver_routes.ALL))
        told = ask(described, nameserver.url, "", _FLEET, itertools.count(seed), each)
        found += _asked("who reaches a name server", told, share, statuses)
        for server in (scene.gateway, nameserver):
            found += _goes_on(server)
    return found[:_FOUND_MAX]


_FLEET: Names = {"broker": ["broker-a", "broker-b"], "replica": ["0", "1"], "wait_ms": ["0", "1"]}


def _asked(who: str, told: Iterator[list[Answered]], share: int, statuses: dict[str, Counter[int]]) -> Iterator[str]:
    counted = statuses.setdefault(who, Counter())
    named: set[str] = set()  # by who asks, who may be told it again: a group shows what it was given
    for answers in told:
        for answered in answers:
            counted[answered.status] += 1
            named |= names_in(answered.text)
            for wrong in _wrong(who, answered, named):
                yield f"{who}: {wrong}: {answered.text[:_SHOWN]} -> {answered.status} {answered.body[:_SHOWN]!r}"
        if sum(counted.values()) >= share:
            return


def _wrong(who: str, answered: Answered, named: Set[str]) -> Iterator[str]:
    if answered.status >= 400 and answered.method.upper() != "HEAD":
        try:
            check_problem(answered.status, _small(answered.headers), answered.body)
        except (AssertionError, ValueError, KeyError) as error:
            yield f"no problem as the contract has it ({error!r})"
            return
        if answered.status >= 500 and json.loads(answered.body)["code"] not in ALLOWED_5XX.get(answered.status, ()):
            yield "an error of the server"
    if who in ("nobody", "limited"):
        for name in leaks(answered, named):
            yield f"{name!r} is told"


def _small(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _goes_on(server: ServerProcess) -> Iterator[str]:
    answer: Any = requests.get(f"{server.url}/healthz", timeout=60)
    if answer.status_code != 200:
        yield f"{server.url} is not well: {answer.status_code}"
    if traces := [line for line in server.log if "Traceback" in line]:
        yield f"{len(traces)} tracebacks: {''.join(server.log)[-2_000:]}"
