"""Who leads, as an etcd has it: a key for the record and one for the beat."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lakemq.gateway.fleet.asking_thread import AskingThread
from lakemq.gateway.fleet.etcd import Etcd, KeyValue, Outcome, Step, get, put, unchanged
from lakemq.gateway.fleet.polled_leadership import Found, PolledLeadership
from lakemq.gateway.fleet.stored import attempted, beat_of_bytes, beat_to_bytes, stored_of
from lakemq.model.beat import Beat
from lakemq.model.in_sync import Record


class EtcdLeadership(PolledLeadership):
    """`Leadership` of one broker by the etcd whose members are at `addresses`. Every answer is the majority's."""

    def __init__(self, addresses: Sequence[str], cluster: str, broker: str, answer_s: float, pause_s: float) -> None:
        super().__init__("etcd", answer_s, pause_s)
        self._etcd = Etcd(addresses, answer_s)
        self._record_key = f"lakemq/{cluster}/{broker}/record"
        self._beat_key = f"lakemq/{cluster}/{broker}/beat"
        self._thread = AskingThread("lakemq-etcd")

    async def _find(self) -> Found:
        return self._understood((await self._transact([], [get(self._record_key)])).found[0])

    def _understood(self, found: KeyValue | None) -> Found:
        if found is None:
            return Found(None, 0)
        return Found(stored_of(found.value, f"etcd's key {self._record_key}").record, found.revision)

    async def _replace(self, record: Record, found: Found) -> bool:
        """Where a member's answer was lost and another one was asked, the first may have done it: then what is found
        instead is this very attempt."""
        key, attempt = self._record_key, attempted(record)
        done = await self._transact([unchanged(key, found.revision)], [put(key, attempt.to_bytes())], [get(key)])
        if done.succeeded:
            return True
        other = done.found[0]
        return other is not None and other.value == attempt.to_bytes()

    async def _put_beat(self, beat: Beat) -> None:
        await self._transact([], [put(self._beat_key, beat_to_bytes(beat))])

    async def _find_beat(self) -> Beat | None:
        found = (await self._transact([], [get(self._beat_key)])).found[0]
        return beat_of_bytes(None if found is None else found.value)

    async def _transact(self, conditions: list[Step], steps: list[Step], otherwise: Sequence[Step] = ()) -> Outcome:
        return await self._thread.ask(partial(self._etcd.transact, conditions, steps, otherwise))

    async def close(self) -> None:
        """`Leadership.close`."""
        await super().close()
        self._thread.close(self._etcd.close)
