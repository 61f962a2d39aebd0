"""All that routes messages at the gateway, put together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice, takewhile
from typing import Any

from pyroaring import BitMap64

from lakemq.gateway.effects.executor import AT_ONCE_MAX, EnsureTopic, Executor
from lakemq.gateway.effects.traced import EffectSpans
from lakemq.gateway.receipts.acknowledger import Acknowledger
from lakemq.gateway.receipts.receive_request import Chosen
from lakemq.gateway.receipts.run_out import RunOut
from lakemq.gateway.receipts.traced import AckSpans
from lakemq.gateway.routing.checks import Checks
from lakemq.gateway.routing.decisions import Decisions
from lakemq.gateway.routing.deliveries import Deliveries
from lakemq.gateway.routing.jobs import Jobs
from lakemq.gateway.routing.nacks import Nacks
from lakemq.gateway.routing.overdue import Overdue
from lakemq.gateway.routing.pending import Pending
from lakemq.gateway.routing.recalls import Recalls
from lakemq.gateway.routing.transactions import Transactions
from lakemq.gateway.routing.waiting import Waiting
from lakemq.gateway.work.waiters import Wait
from lakemq.settings import Settings
from lakemq.storage.disk.clock import Clock
from lakemq.storage.log.letting_go import let_go
from lakemq.storage.read.store import Store
from lakemq.storage.segment.content import Content
from lakemq.storage.segment.frame import Meta, Run
from lakemq.storage.state.routing_state import RoutingState
from lakemq.traces.spans import Spans
from lakemq.web.gate import Gate

LOOKS_WAITING_MAX = 1_000
"""So many requests wait for a look at the log, how far jobs are or what is overdue, and are refused past that."""


class Router:
    """Carries out what is decided, of one broker's log. `start` once the log is open."""

    def __init__(self, settings: Settings, store: Store, clock: Clock, ensure_topic: EnsureTopic, wait: Wait) -> None:
        lead_ms, secret_ids = settings.routing.lead_ms, store.secret_ids
        self._settings = settings
        self._log = store.log
        self._effect_spans: EffectSpans | None = None
        self._ack_spans: AckSpans | None = None
        self.executor = Executor(store, ensure_topic)
        self.deliveries = Deliveries(self.executor, clock, lead_ms)
        self.transactions = Transactions(self.executor, secret_ids, settings.transactions, lead_ms > 0)
        self.checks = Checks(self.executor, secret_ids, clock, settings.transactions.check_answer_ms, wait)
        self.recalls = Recalls(self.executor)
        self.run_out = RunOut(self.executor, clock, lead_ms > 0, settings.routing.grace_ms)
        looks = Gate(1, LOOKS_WAITING_MAX, settings.gateway.client_share)
        self.jobs = Jobs(store.log, store.plans, clock, looks)
        self.acknowledger = Acknowledger(self.executor, secret_ids, self.run_out)
        self.nacks = Nacks(self.executor, settings, lead_ms > 0, self.acknowledger)
        carriers = self.deliveries, self.transactions, self.nacks
        self.overdue = Overdue(self.executor, carriers, settings, clock, self.jobs, looks)
        self.pending = Pending(self.executor, settings.transactions)
        self.decisions = Decisions(self.executor, self.deliveries, self.transactions, self.nacks, self.run_out)

    def waiting(self, client_share: float) -> Waiting:
        """Lists what waits, for people."""
        return Waiting(self.executor, self._settings.transactions, client_share)

    async def start(self, spans: Spans | None = None) -> None:
        """Go on where the log says that the last process stopped. `spans` gets those of what is routed. Raises
        `LogDamaged`."""
        if spans is not None:
            self._effect_spans, self._ack_spans = EffectSpans(spans, self.executor), AckSpans(spans, self.executor)
            self.state.on_effects = partial(_note_both, self._effect_spans, self._ack_spans)
        self.checks.start()
        await self.deliveries.start()
        self.run_out.start()
        self.overdue.start()

    async def close(self) -> None:
        """Carry out no more."""
        await self.overdue.close()
        await self.deliveries.close()
        await self.run_out.close()
        self.state.on_effects = None
        if self._effect_spans is not None:
            await self._effect_spans.close()

    def hand_out(self, chosen: Sequence[Chosen], first_receipt: int) -> None:
        """These messages are out; their receipts are at the positions from that one on."""
        if self._ack_spans is not None:
            self._ack_spans.hand_out(chosen, first_receipt)

    @property
    def state(self) -> RoutingState:
        """What waits, as the log says."""
        return self._log.routing

    async def make_room(self) -> None:
        """Let segments leave that hold nothing but scheduled messages that wait: these move on (M)."""
        held = self._log.retention.held_by_delays
        while (end := held(self._log.routing)) is not None and await self.deliveries.clear_below(end):
            await let_go(self._log)

    async def settle_lost(self) -> None:
        """Settle what waited in a part of the log that was dropped: what the lake has goes on, the rest is lost.
        Raises `StoreUnwritable`, `LakeUnreadable`."""
        state, begin = self.state, self._log.min_position
        if state.delays and state.delays.min() < begin:
            await self.deliveries.clear_below(begin)
        halves, nacks = _below(state.halves, begin), _below(state.nacks, begin)
        if halves:
            await self.transactions.end_lost(halves)
        if nacks:
            await self.nacks.end_lost(nacks)

    def timer_ms(self, kind: str) -> int | None:
        """When the query of that kind (`delay`, `transaction`, `receive`; `any`) is to look at the time next."""
        if kind == "any":
            times = map(self.timer_ms, ("delay", "transaction", "receive"))
            return min((time for time in times if time is not None), default=None)
        if kind == "receive":
            return self.run_out.dues.earliest()
        if kind == "delay":
            earliest = self.state.timers.earliest()
            return None if earliest is None else earliest - self._settings.routing.lead_ms
        limits = self._settings.transactions
        return self.state.transactions.earliest(limits.timeout_ms, limits.check_interval_ms)

    def describe(self) -> dict[str, Any]:
        """What `GET /v1/routing` says: what waits, and the settings that the queries need."""
        state, settings = self.state, self._settings
        limits = settings.transactions

        def begin_of(kind: BitMap64) -> int:
            # Nothing can be read below: what waits there is the gateway's own matter.
            return max(state.begin_position(kind, self._log.next_position), self._log.min_position)

        return {
            "broker": settings.broker.name,
            "log_id": self._log.identity.log_id,
            "epoch": self._log.identity.now.epoch,
            "position": self._log.next_position,
            "lead_ms": settings.routing.lead_ms,
            "levels_ms": list(settings.delay.levels),
            "delay": {
                "waiting": len(state.delays),
                "decided": len(state.decided),
                "begin_position": begin_of(state.delays),
            },
            "transactions": {
                "open": len(state.transactions),
                "begin_position": begin_of(state.halves),
                "timeout_ms": limits.timeout_ms,
                "check_interval_ms": limits.check_interval_ms,
                "check_max": limits.check_max,
            },
            "retry": {
                "waiting": len(state.nacks),
                "begin_position": begin_of(state.nacks),
                "max_reconsume_times": settings.retry.max_reconsume_times,
            },
            "receive": {
                "out": len(state.receipts),
                "begin_position": max(state.receipts.first_receipt(self._log.next_position), self._log.min_position),
            },
            "dead_letters": len(state.dead),
            "grace_ms": settings.routing.grace_ms,
        }


def _note_both(effects: EffectSpans, acks: AckSpans, meta: Meta, content: Content, run: Run) -> None:
    effects.note(meta, content, run)
    acks.note(meta, content, run)


def _below(causes: BitMap64, position: int) -> list[int]:
    return list(islice(takewhile(lambda cause: cause < position, causes), AT_ONCE_MAX))
