"""What writers of a fleet were answered, and what readers were shown."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, NamedTuple

import httpx

from tests.as_administrator import AsAdministrator

TOPIC = "orders"
QUEUES = 3
AGAIN_S = 0.02
ANSWER_S = 5.0
READ_S = 0.05


class Taken(NamedTuple):
    """A message that was acknowledged: what its answer said, when that came, when it was sent, and how often."""

    message_id: str
    position: int
    at_s: float
    sent_s: float = 0.0
    times: int = 1


@dataclass
class Ledger:
    """What was answered, by each message's body."""

    taken: dict[str, Taken] = field(default_factory=dict[str, Taken])
    sent: dict[str, int] = field(default_factory=dict[str, int])
    refusals: Counter[str] = field(default_factory=Counter[str])
    shown: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])
    """What readers found: the message's id, by its queue and offset."""
    passed: dict[tuple[int, int, int], str] = field(default_factory=dict[tuple[int, int, int], str])
    """Offsets of a queue, from one to below another, that an answer passed over as holding nothing: by whom."""
    changed: list[str] = field(default_factory=list[str])
    """Where a reader was shown another message than one before, a line each."""


class Writer:
    """Sends the messages of one key, one after the other; one whose answer is lost, or says that it may be stored,
    again with its idempotency key, to whoever leads."""

    def __init__(
        self, number: int, addresses: Sequence[str], ledger: Ledger, ends: threading.Event, origin: str | None = None
    ) -> None:
        """`origin`: the address that it sends from."""
        self._number = number
        self._addresses = addresses
        self._address = addresses[0]
        self._ledger = ledger
        self._ends = ends
        self._origin = origin
        self._thread = threading.Thread(target=self._run, name=f"writer {number}")

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        sequence = 0
        with client(self._origin) as http:
            while not self._ends.is_set():
                self._send(http, f"{self._number}-{sequence}")
                sequence += 1

    def _send(self, http: httpx.Client, body: str) -> None:
        ledger, times = self._ledger, 0
        request = {"messages": [{"body": body, "ordering_key": str(self._number)}]}
        ledger.sent[body] = len(ledger.sent)
        while True:
            times, sent_s = times + 1, time.monotonic()
            try:
                url = f"{self._address}/v1/topics/{TOPIC}/messages"
                answer = http.post(url, json=request, headers={"Idempotency-Key": body})
            except httpx.HTTPError as error:
                self._next(type(error).__name__)
                continue
            said: dict[str, Any] = answer.json()
            if answer.is_success:
                placed = said["messages"][0]
                ledger.taken[body] = Taken(placed["message_id"], placed["position"], time.monotonic(), sent_s, times)
                return
            self._next(said["code"], said.get("leader", ""))

    def _next(self, why: str, leader: str = "") -> None:
        self._ledger.refusals[why] += 1
        if leader and leader != self._address:
            self._address = leader
            return
        time.sleep(AGAIN_S)
        self._address = self._addresses[(self._addresses.index(self._address) + 1) % len(self._addresses)]


class Reader:
    """Reads each queue at each replica from its begin on, as they are, and again: what was shown once at an offset is
    what is shown there ever after, whoever leads, and where it was told to go on beyond an offset nothing ever is."""

    def __init__(self, addresses: Sequence[str], ledger: Ledger, ends: threading.Event) -> None:
        self._at = {(address, queue): 0 for address in addresses for queue in range(QUEUES)}
        self._ledger = ledger
        self._ends = ends
        self._thread = threading.Thread(target=self._run, name="reader")

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        with client() as http:
            for place in cycle(self._at):
                if self._ends.wait(READ_S):
                    return
                with suppress(httpx.HTTPError):
                    self.read(http, *place)

    def read(self, http: httpx.Client, address: str, queue: int) -> None:
        """Ask once."""
        offset = self._at[address, queue]
        url = f"{address}/v1/topics/{TOPIC}/queues/{queue}/messages"
        answer = http.get(url, params={"offset": offset, "max": 1000})
        if not answer.is_success:
            return
        said, reached = answer.json(), offset
        for each in said["messages"]:
            self._pass(address, queue, reached, each["queue_offset"])
            self._note(address, queue, each["queue_offset"], each["message_id"])
            reached = each["queue_offset"] + 1
        self._pass(address, queue, reached, said["next_offset"])
        self._at[address, queue] = said["next_offset"] if said["messages"] else max(offset - 100, 0)

    def _pass(self, address: str, queue: int, begin: int, end: int) -> None:
        if begin < end:
            self._ledger.passed.setdefault((queue, begin, end), address)

    def _note(self, address: str, queue: int, offset: int, message_id: str) -> None:
        known = self._ledger.shown.setdefault((queue, offset), message_id)
        if known != message_id:
            line = f"{address} shows {message_id} at offset {offset} of queue {queue}, where {known} was shown"
            self._ledger.changed.append(line)


def client(origin: str | None = None) -> httpx.Client:
    """One that takes no proxy, and sends from that address."""
    transport = httpx.HTTPTransport(local_address=origin, trust_env=False)
    return httpx.Client(timeout=ANSWER_S, trust_env=False, transport=transport, auth=AsAdministrator())
