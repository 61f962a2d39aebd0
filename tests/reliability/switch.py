"""Leaders that die, or stand still and go on, one after the other, under load: `python -m tests.reliability.switch
--deaths 20`.

With synchronous replication nothing that was acknowledged may be lost, be there twice, or be out of its order, and no
position may be acknowledged for two messages. It prints how long after a death the next write was taken.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import httpx

from tests.etcd_server import EtcdServer, find_etcd
from tests.gateway.fleet.electing import SYNC, Replicas, role_of
from tests.gateway.fleet.following import broker_of, wait_for
from tests.gateway.http_client import pull_all, put_topic
from tests.gateway.routing.asking import wait_until
from tests.reliability.results import append

TOPIC = "orders"
WRITERS = 4
QUEUES = 3
AGAIN_S = 0.02
MORE = 30
"""So many writes are taken between two deaths."""


class Taken(NamedTuple):
    """A message that was acknowledged: what its answer said, and when that came."""

    message_id: str
    position: int
    at_s: float


@dataclass
class Ledger:
    """What was answered, by each message's body."""

    taken: dict[str, Taken] = field(default_factory=dict[str, Taken])
    sent: dict[str, int] = field(default_factory=dict[str, int])
    refusals: Counter[str] = field(default_factory=Counter[str])


class Writer:
    """Sends the messages of one key, one after the other; one whose answer is lost, or says that it may be stored,
    again with its idempotency key, to whoever leads."""

    def __init__(self, number: int, addresses: Sequence[str], ledger: Ledger, ends: threading.Event) -> None:
        self._number = number
        self._addresses = addresses
        self._address = addresses[0]
        self._ledger = ledger
        self._ends = ends
        self._thread = threading.Thread(target=self._run, name=f"writer {number}")

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        sequence = 0
        with httpx.Client(timeout=5.0) as http:
            while not self._ends.is_set():
                self._send(http, f"{self._number}-{sequence}")
                sequence += 1

    def _send(self, http: httpx.Client, body: str) -> None:
        ledger = self._ledger
        request = {"messages": [{"body": body, "ordering_key": str(self._number)}]}
        ledger.sent[body] = len(ledger.sent)
        while True:
            try:
                url = f"{self._address}/v1/topics/{TOPIC}/messages"
                answer = http.post(url, json=request, headers={"Idempotency-Key": body})
            except httpx.HTTPError as error:
                self._next(type(error).__name__)
                continue
            said: dict[str, Any] = answer.json()
            if answer.is_success:
                placed = said["messages"][0]
                ledger.taken[body] = Taken(placed["message_id"], placed["position"], time.monotonic())
                return
            self._next(said["code"], said.get("leader", ""))

    def _next(self, why: str, leader: str = "") -> None:
        self._ledger.refusals[why] += 1
        if leader and leader != self._address:
            self._address = leader
            return
        time.sleep(AGAIN_S)
        self._address = self._addresses[(self._addresses.index(self._address) + 1) % len(self._addresses)]


class Outcome(NamedTuple):
    """`seconds`: from each death to the next write that was taken; `findings`: promises that were broken."""

    deaths: int
    messages: int
    seconds: list[float]
    refusals: Counter[str]
    findings: list[str]


def run(directory: Path, deaths: int, seed: int, count: int = 3, **options: Any) -> Outcome:
    """That many leaders die under load, in folders there; then all is looked at."""
    chance, ledger, ends, seconds = Random(seed), Ledger(), threading.Event(), list[float]()
    fleet = Replicas(directory, **{**SYNC, **options})
    try:
        for each in range(count):
            fleet.start(each)
        fleet.in_sync(*range(count))
        put_topic(fleet.http(0), TOPIC, QUEUES)
        addresses = [fleet.running[each].url for each in range(count)]
        writers = [Writer(number, addresses, ledger, ends) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        try:
            for _ in range(deaths):
                _until_more(ledger, MORE)
                seconds.append(_die(fleet, ledger, chance))
                fleet.in_sync(*range(count))
        finally:
            ends.set()
            for writer in writers:
                writer.join()
        return Outcome(deaths, len(ledger.taken), seconds, ledger.refusals, _look(fleet, ledger))
    finally:
        fleet.close()


def _until_more(ledger: Ledger, count: int) -> None:
    least = len(ledger.taken) + count
    wait_until(lambda: len(ledger.taken) >= least)


def _die(fleet: Replicas, ledger: Ledger, chance: Random) -> float:
    """The leader is killed, or stands still until another has taken its place. Returns how long nothing was taken."""
    leader = fleet.leader()
    others = [each for each in fleet.running if each != leader]
    stands_still = chance.random() < 0.4
    at_s, pid = time.monotonic(), fleet.running[leader].pid
    if stands_still:
        os.kill(pid, signal.SIGSTOP)
    else:
        fleet.kill(leader)
    try:
        fleet.leader(others)
        wait_until(lambda: any(each.at_s > at_s for each in list(ledger.taken.values())))
        again_s = min(each.at_s for each in list(ledger.taken.values()) if each.at_s > at_s)
        time.sleep(chance.random() / 2)
    finally:
        if stands_still:
            os.kill(pid, signal.SIGCONT)
    if not stands_still:
        fleet.start(leader)
    wait_until(lambda: role_of(fleet.http(leader)) == "follower")
    return again_s - at_s


def _look(fleet: Replicas, ledger: Ledger) -> list[str]:
    """What is wrong, a line each."""
    leader = fleet.leader()
    stored = pull_all(fleet.http(leader), TOPIC)
    found = find(ledger, stored)
    for each in fleet.running:
        end = wait_for(fleet.http(each), fleet.http(leader))
        wait_until(lambda each=each, end=end: broker_of(fleet.http(each))["confirmed_position"] >= end)
        if pull_all(fleet.http(each), TOPIC) != stored:
            found.append(f"replica {each} has other messages than replica {leader}, which leads")
    return found


def find(ledger: Ledger, stored: list[dict[str, Any]]) -> list[str]:
    """What is wrong with what is stored, in the order of its positions, a line each."""
    return [*_lost_or_twice(ledger, stored), *_out_of_order(stored), *_two_at_one_place(ledger)]


def _lost_or_twice(ledger: Ledger, stored: list[dict[str, Any]]) -> list[str]:
    times = Counter(each["body"] for each in stored)
    places = {each["body"]: (each["message_id"], each["position"]) for each in stored}
    found = [f"{body} is stored {count} times" for body, count in times.items() if count > 1]
    for body, (message_id, position, _) in ledger.taken.items():
        if body not in times:
            found.append(f"{body} was acknowledged at {position}, and is lost")
        elif places[body] != (message_id, position):
            found.append(f"{body} was acknowledged as {message_id}, and is {places[body]}")
    return [*found, *(f"nobody has sent {body}" for body in times if body not in ledger.sent)]


def _out_of_order(stored: list[dict[str, Any]]) -> list[str]:
    last: dict[str, int] = {}
    found: list[str] = []
    for each in stored:
        writer, _, sequence = each["body"].partition("-")
        if int(sequence) <= last.get(writer, -1):
            found.append(f"{each['body']} comes after {writer}-{last[writer]}")
        last[writer] = int(sequence)
    return found


def _two_at_one_place(ledger: Ledger) -> list[str]:
    of_position = Counter(each.position for each in ledger.taken.values())
    return [
        f"position {position} was acknowledged {count} times" for position, count in of_position.items() if count > 1
    ]


def percentile(seconds: Sequence[float], part: float) -> float:
    """The value that so large a part of them doesn't exceed."""
    ordered = sorted(seconds)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def _etcd(stack: ExitStack) -> str:
    """One that runs until the end: where it is."""
    program = find_etcd()
    if program is None:
        raise SystemExit("there is no etcd here; make setup unpacks Debian's")
    server = EtcdServer(program)
    stack.callback(server.stop)
    server.start()
    return server.address


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.switch", description=__doc__)
    parser.add_argument("--deaths", type=int, default=20)
    parser.add_argument("--seed", type=int, default=Random().randrange(1_000_000))
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--lease-ms", type=int, default=3_000)
    parser.add_argument("--etcd", action="store_true", help="who leads is kept in an etcd, not in a folder")
    chosen = parser.parse_args(arguments)
    begun_s = time.monotonic()
    options: dict[str, Any] = {"fleet__lease_ms": chosen.lease_ms, "replication__silent_ms": 3_000}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lakemq-switch-"))
        if chosen.etcd:
            options |= {"fleet__leader": "etcd", "fleet__store": _etcd(stack)}
        done = run(Path(folder), chosen.deaths, chosen.seed, chosen.replicas, **options)
    for finding in done.findings:
        sys.stdout.write(f"{finding}\n")
    p50, p99 = percentile(done.seconds, 0.5), percentile(done.seconds, 0.99)
    took = f"from a death to the next write p50 {p50:.2f} s, p99 {p99:.2f} s"
    what = f"{done.deaths} deaths, {done.messages} messages acknowledged, {len(done.findings)} findings"
    sys.stdout.write(f"seed {chosen.seed}: {what}; {took}; {dict(done.refusals)}\n")
    counts = {
        "deaths": done.deaths,
        "messages": done.messages,
        "p50_ms": round(p50 * 1000),
        "p99_ms": round(p99 * 1000),
    }
    append("switch", chosen.seed, time.monotonic() - begun_s, counts, done.findings)
    return 1 if done.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
