"""What waits in a broker while its leader is killed: messages for later, and transactions that are open."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lakemq.client.http import HttpClient, Resolution
from lakemq.client.results import Transaction
from lakemq.model.errors import LakemqError
from lakemq.model.message import Draft
from lakemq.storage.disk.clock import Clock, SystemClock

ALARMS, BOOKINGS = "alarms", "bookings"
GROUP = "desk"
DELAYED = 60
FIRST_DUE_MS = 3_000
APART_MS = 100
"""The first are due before there is another leader, the last long after."""
COMMITTED_BEFORE, COMMITTED, ROLLED_BACK = 5, 10, 5
WAIT_MS = 1_000
PATIENCE_S = 90.0


@dataclass
class Waited:
    """What became of it, as a consumer saw it."""

    alarms: Counter[bytes] = field(default_factory=Counter[bytes])
    early: int = 0
    late_ms_max: int = 0
    bookings: Counter[bytes] = field(default_factory=Counter[bytes])
    expected_bookings: set[bytes] = field(default_factory=set[bytes])

    @property
    def alarms_are_once(self) -> bool:
        """Whether each alarm came, and none twice."""
        return len(self.alarms) == DELAYED == self.alarms.total()

    @property
    def bookings_are_once(self) -> bool:
        """Whether just those came that were committed, and none twice."""
        return set(self.bookings) == self.expected_bookings and self.bookings.total() == len(self.bookings)


class Waiting:
    """Begun at one leader, and ended at the next."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._begun: Sequence[Transaction] = ()

    def begin(self, url: str) -> None:
        """Schedule the alarms, begin the bookings, and commit some of them."""
        with HttpClient(url) as client:
            for topic in (ALARMS, BOOKINGS):
                client.create_topic(topic, 1)
            count = COMMITTED_BEFORE + COMMITTED + ROLLED_BACK
            drafts = [Draft(f"booking {number}".encode()) for number in range(count)]
            self._begun = client.begin_transactions(BOOKINGS, GROUP, drafts)
            due_ms = self._clock.now_ms() + FIRST_DUE_MS
            alarms = [
                Draft(f"alarm {number}".encode(), deliver_at_ms=due_ms + number * APART_MS) for number in range(DELAYED)
            ]
            client.produce(ALARMS, alarms)
            self._resolve(client, self._begun[:COMMITTED_BEFORE], [])

    def end(self, url: str) -> Waited:
        """Say at another leader how the other bookings end, and hear what comes of all."""
        rest = self._begun[COMMITTED_BEFORE:]
        with HttpClient(url) as client:
            self._resolve(client, rest[:COMMITTED], rest[COMMITTED:])
            waited = Waited()
            number = COMMITTED_BEFORE + COMMITTED
            waited.expected_bookings = {f"booking {each}".encode() for each in range(number)}
            self._hear(client, ALARMS, lambda: len(waited.alarms) == DELAYED, waited)
            self._hear(client, BOOKINGS, lambda: len(waited.bookings) == number, waited)
        return waited

    def _resolve(self, client: HttpClient, commits: Sequence[Transaction], rollbacks: Sequence[Transaction]) -> None:
        ends: dict[str, Resolution] = {each.transaction_id: "commit" for each in commits}
        ends.update((each.transaction_id, "rollback") for each in rollbacks)
        said = client.resolve_many(GROUP, ends)
        if wrong := {name: status for name, status in said.items() if status != "ok"}:
            raise LakemqError(f"bookings could not be ended: {wrong}")

    def _hear(self, client: HttpClient, topic: str, is_all: Callable[[], bool], waited: Waited) -> None:
        """All messages of the topic from its first on, until all that is expected is there, and a look later."""
        offset, end_s, is_last = 0, time.monotonic() + PATIENCE_S, False
        while not is_last and time.monotonic() < end_s:
            is_last = is_all()
            pulled = client.pull(topic, 0, offset, 100, WAIT_MS)
            for each in pulled.messages:
                (waited.alarms if topic == ALARMS else waited.bookings)[each.body] += 1
                if topic == ALARMS:
                    late_ms = each.store_time_ms - (each.deliver_at_ms or 0)
                    waited.early += late_ms < 0
                    waited.late_ms_max = max(waited.late_ms_max, late_ms)
            offset = pulled.next_offset
