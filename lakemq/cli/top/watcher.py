"""Asks all brokers, each by itself, again and again: one that hangs holds up nobody, and the view goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from threading import Condition, Thread
from typing import NamedTuple

from lakemq.cli.top.rows import Watched
from lakemq.cli.top.seen import Seen, look_at
from lakemq.model.errors import LakemqError

ANSWER_S = 3.0
"""So long each answer is waited for."""
THREADS_MAX = 16
REPLICAS_MAX = 500
FLEET_S = 10.0
"""So often it is asked which brokers there are."""


class Place(NamedTuple):
    """Where one is, as far as that is known beforehand. `refused`: why it isn't asked; empty: it is."""

    address: str
    broker: str = ""
    replica: int | None = None
    refused: str = ""


class Watcher:
    """`find` says which there are, and may raise `LakemqError`."""

    def __init__(self, find: Callable[[], Sequence[Place]], look: Callable[[str, float], Seen] = look_at) -> None:
        self._find, self._look = find, look
        self._found = Condition()
        self._watched: dict[str, Watched] = {}
        self._asked_s: dict[str, float] = {}
        self._refused: dict[str, str] = {}
        self.looks = 0
        """How often something was heard."""
        self._left_out = 0
        self._fleet_s: float | None = None
        self._finding = False
        self._problem = ""
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        for _ in range(THREADS_MAX + 1):  # one asks the name servers
            Thread(target=self._work, daemon=True, name="top").start()

    def begin(self) -> None:
        """Find out which there are. Raises `LakemqError`."""
        self._take(self._find())
        self._fleet_s = time.monotonic()

    def ask(self) -> None:
        """Ask each that isn't being asked."""
        now_s = time.monotonic()
        with self._found:
            if self._fleet_s is not None and now_s - self._fleet_s >= FLEET_S and not self._finding:
                self._finding = True
                self._jobs.put(self._find_again)
            for address in self._watched:
                if address not in self._asked_s and address not in self._refused:
                    self._asked_s[address] = now_s
                    self._jobs.put(lambda address=address: self._ask_one(address))

    def wait(self, timeout_s: float) -> None:
        """Until all that were asked have answered; or so long."""
        with self._found:
            self._found.wait_for(lambda: not self._asked_s, timeout_s)

    def watched(self) -> list[Watched]:
        """All, as they are now."""
        now_s = time.monotonic()
        with self._found:
            return [
                each._replace(
                    late_s=late_s if (late_s := now_s - self._asked_s.get(each.address, now_s)) > ANSWER_S else 0
                )
                for each in self._watched.values()
            ]

    @property
    def said(self) -> str:
        """What is to be known of the whole; empty: nothing."""
        with self._found:
            if self._problem:
                return f"can't look up the brokers now: {self._problem}"
            if self._left_out:
                return f"{self._left_out} more replicas are not asked"
            silent = next((each for each in self._watched.values() if each.now is not None and each.now.silent), None)
            return (
                ""
                if silent is None or silent.now is None
                else f"{silent.address} doesn't say all: {silent.now.silent[0]}"
            )

    def _work(self) -> None:
        while True:
            self._jobs.get()()

    def _ask_one(self, address: str) -> None:
        seen = self._look(address, ANSWER_S)
        with self._found:
            self._asked_s.pop(address, None)
            self.looks += 1
            known = self._watched.get(address)
            if known is not None:
                self._watched[address] = known._replace(before=known.now, now=seen)
            self._found.notify_all()

    def _find_again(self) -> None:
        try:
            found: Iterable[Place] | None = self._find()
            problem = ""
        except LakemqError as error:
            found, problem = None, error.detail
        with self._found:
            if found is not None:
                self._take(list(found))
            self._problem, self._finding, self._fleet_s = problem, False, time.monotonic()

    def _take(self, found: Sequence[Place]) -> None:
        kept, self._left_out = found[:REPLICAS_MAX], max(len(found) - REPLICAS_MAX, 0)
        places = {each.address: each for each in kept}
        self._watched = {
            address: self._watched.get(address, Watched(address))._replace(broker=each.broker, replica=each.replica)
            for address, each in places.items()
        }
        self._refused = {address: each.refused for address, each in places.items() if each.refused}
        for address, why in self._refused.items():
            self._watched[address] = self._watched[address]._replace(now=Seen(time.monotonic(), why), before=None)
        self.looks += 1
