"""What the queries have left undecided too long, or no job is alive to decide: the gateway does, by the same rules.

One cause has one effect, so a query that comes late, or at the same time, changes nothing. Receipts that run
out are `RunOut`'s, which holds them all by their times anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from itertools import islice, takewhile

from lakemq.gateway.effects.executor import AT_ONCE_MAX, Executor
from lakemq.gateway.routing.deliveries import Deliveries
from lakemq.gateway.routing.jobs import Jobs
from lakemq.gateway.routing.nacks import Nacks
from lakemq.gateway.routing.transactions import Transactions
from lakemq.model.decide import Kind, of_half
from lakemq.model.errors import LakemqError
from lakemq.settings import Settings
from lakemq.storage.disk.clock import Clock
from lakemq.storage.state.due_index import FINE_MS, Slot
from lakemq.web.asgi import Client
from lakemq.web.gate import Gate

logger = logging.getLogger(__name__)

LOOK_MS = 500
"""So long there is no look at most, whatever is known of what will be due."""
REST_MS = 5
"""And at least, so that what is due one after the other is decided together."""
SORT_FINELY_AHEAD_MS = 1_000
SORT_AHEAD_MS = 30_000
"""So long before a wide slot begins its messages are sorted out, and those of a slot of a second as long as the other
says, so that those due first are not late."""
AGAIN_MS = 60_000
"""What could not be decided, as it can't be read, is looked at again so much later."""
QUIET_MS = 60_000
COUNTED_MAX = 10_000
GRACE_MS = 5_000
"""What counts as overdue where the gateway decides nothing itself."""
JOB_OF = {Kind.DELAY: "delay", Kind.TRANSACTION: "transaction", Kind.NACK: "retry"}
"""Whose query decides them, as long as it runs."""


class Overdue:
    """Looks for what is overdue by `routing.grace_ms`, some at a time. Where the job that decides it isn't alive, or
    never was, nobody else will, and there is no grace to wait for."""

    def __init__(
        self,
        executor: Executor,
        carriers: tuple[Deliveries, Transactions, Nacks],
        settings: Settings,
        clock: Clock,
        jobs: Jobs,
        looks: Gate,
    ) -> None:
        """`looks`: where requests take turns to look at the log."""
        self._executor = executor
        self._deliveries, self._transactions, self._nacks = carriers
        self._limits = settings.transactions
        self._decides = settings.routing.grace_ms >= 0
        self._grace_ms = settings.routing.grace_ms if self._decides else GRACE_MS
        self._clock = clock
        self._lead_ms = settings.routing.lead_ms
        self._jobs = jobs
        self._looks = looks
        self.decided = {Kind.DELAY: 0, Kind.TRANSACTION: 0, Kind.NACK: 0}
        """How many the gateway has decided so, since it started."""
        self._begin_ms = 0
        self._later: dict[int, int] = {}
        self._late_ms: int | None = None
        self._is_alone = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look; the queries have a grace from now on for what was overdue before."""
        self._begin_ms = self._clock.now_ms() + self._grace_ms
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Decide no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause_ms = LOOK_MS
        while True:
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = LOOK_MS
            try:
                pause_ms = 0 if await self.look() else await self.pause_ms()
            except LakemqError as error:
                logger.warning("could not decide what is overdue; retrying: %s", error)
            except Exception:
                logger.exception("could not decide what is overdue; retrying")

    async def pause_ms(self) -> int:
        """After a look that left nothing: how long it may be until the next one, so that what will be due is decided
        as its grace is over."""
        now_ms = self._clock.now_ms()
        if not self._decides:
            return LOOK_MS
        waits_ms = [self._begin_ms - now_ms, *self._until_due(now_ms)]
        if (nacked_ms := await self._nacked_ms()) is not None:
            waits_ms.append(nacked_ms - self._at_ms(Kind.NACK, now_ms))
        next_ms = min((wait_ms for wait_ms in waits_ms if wait_ms > 0), default=self._grace_ms)
        # What comes meanwhile and is due at once is over a grace from now: nothing is late but with a very small one,
        # and without a lead where no job is alive.
        most_ms = min(LOOK_MS, max(self._grace_ms, FINE_MS))
        return max(min(next_ms, most_ms), REST_MS)

    def _at_ms(self, kind: Kind, now_ms: int) -> int:
        """What was due until then is decided here now."""
        return now_ms - self._grace_ms if not self._decides or self._jobs.is_alive(JOB_OF[kind]) else now_ms

    def _until_due(self, now_ms: int) -> Iterator[int]:
        """How long it is until what isn't decided here yet is, the first of each kind but nacks."""
        limits, state = self._limits, self._executor.state
        at_ms = self._at_ms(Kind.DELAY, now_ms)
        if (due_ms := state.dues.next_ms(at_ms, SORT_FINELY_AHEAD_MS)) is not None:
            yield due_ms - at_ms
        at_ms = self._at_ms(Kind.TRANSACTION, now_ms)
        over_ms = state.transactions.next_over_ms(at_ms, limits.timeout_ms, limits.check_interval_ms)
        if over_ms is not None:
            yield over_ms - at_ms

    async def _nacked_ms(self) -> int | None:
        """When the first nack was stored that has no decision, if the log has it."""
        executor, nacks = self._executor, self._executor.state.nacks
        if not nacks or nacks.min() < executor.log.min_position:
            return None
        return await executor.plans.stored_ms(nacks.min(), asyncio.to_thread)

    async def look(self) -> bool:
        """Decide some of what is overdue; whether there may be more. Raises `StoreUnwritable`."""
        self._jobs.look()
        now_ms = self._clock.now_ms()
        if self._executor.log.refusal() is not None:
            return False
        delays_ms = self._at_ms(Kind.DELAY, now_ms)
        self._executor.state.dues.merge(now_ms - self._grace_ms)
        more = self._sort_out(delays_ms) or self._sort_finely(delays_ms)
        if not self._decides or now_ms < self._begin_ms:
            return more
        self._later = {cause: again_ms for cause, again_ms in self._later.items() if again_ms > now_ms}
        before = self.decided.copy()
        more = await self._delays(delays_ms) or more
        more = await self._halves(self._at_ms(Kind.TRANSACTION, now_ms)) or more
        more = await self._pending_nacks(self._at_ms(Kind.NACK, now_ms)) or more
        self._say(now_ms, {kind for kind, count in self.decided.items() if count > before[kind]})
        return more

    def _say(self, now_ms: int, acted: set[Kind]) -> None:
        late = any(self._jobs.is_alive(JOB_OF[kind]) for kind in acted)
        if late and self._late_ms is None:
            logger.warning("what is overdue by %d ms is decided here: the routing queries are late", self._grace_ms)
        if late:
            self._late_ms = now_ms
        elif self._late_ms is not None and now_ms - self._late_ms > QUIET_MS:
            logger.info("nothing has been overdue for %d s", QUIET_MS // 1000)
            self._late_ms = None
        if acted and not late and not self._is_alone:
            logger.info("what is due is decided here: the job that would decide it is not alive")
            self._is_alone = True
        elif late:
            self._is_alone = False

    # Delays ----------------------------------------------------------------------------------

    def _sort_out(self, at_ms: int) -> bool:
        """Sort out some of what waits in a wide slot, when some of it is due. Not while the query decides it all in
        time."""
        if self._jobs.decided_up_to(JOB_OF[Kind.DELAY], self._lead_ms) > at_ms:
            return False
        state = self._executor.state
        for slot in state.dues.begun(at_ms + SORT_AHEAD_MS):
            some = state.dues.some(slot, state.delays, state.decided, AT_ONCE_MAX)
            if some:
                state.dues.sort_out(slot, [(each, state.due_times.of(each)) for each in some])
                return True
        return False

    def _sort_finely(self, at_ms: int) -> bool:
        """Sort out some of what is due within a second, where the query hasn't decided it."""
        state = self._executor.state
        for slot in state.dues.opening(at_ms, at_ms + SORT_FINELY_AHEAD_MS):
            some = state.dues.some(slot, state.delays, state.decided, AT_ONCE_MAX)
            if some:
                state.dues.sort_finely(slot, [(each, state.due_times.of(each)) for each in some])
                return True
        return False

    async def _delays(self, at_ms: int) -> bool:
        state = self._executor.state
        chosen: dict[Slot, list[int]] = {}
        left = AT_ONCE_MAX
        for slot in state.dues.over(at_ms):
            some = state.dues.some(slot, state.delays, state.decided, left)
            if some:
                chosen[slot] = some
                left -= len(some)
            if not left:
                break
        if chosen:
            await self._deliver(chosen)
        return bool(chosen)

    async def _deliver(self, chosen: dict[Slot, list[int]]) -> None:
        state = self._executor.state
        causes = [cause for some in chosen.values() for cause in some]
        try:
            await self._deliveries.deliver(causes)
        finally:
            left = {slot: [cause for cause in some if cause in state.delays] for slot, some in chosen.items()}
            self.decided[Kind.DELAY] += len(causes) - sum(map(len, left.values()))
            if self._executor.log.refusal() is None:
                again_ms = self._clock.now_ms() + AGAIN_MS
                for slot, some in left.items():
                    if some:
                        state.dues.put_off(slot, some, again_ms)

    # Transactions and nacks ------------------------------------------------------------------

    async def _halves(self, at_ms: int) -> bool:
        """Operations that were answered count, the others' timers are over."""
        limits, state = self._limits, self._executor.state
        over = state.transactions.over(at_ms, limits.timeout_ms, limits.check_interval_ms)
        chosen = {half.cause: half for half in islice((h for h in over if h.cause not in self._later), AT_ONCE_MAX)}
        if not chosen:
            return False
        actions = {
            cause: of_half(half.check_times, limits.check_max, half.resolution).action for cause, half in chosen.items()
        }
        self.decided[Kind.TRANSACTION] += await self._transactions.decide(dict(actions))
        self._put_off([cause for cause in chosen if cause in state.halves])
        return True

    async def _pending_nacks(self, at_ms: int) -> bool:
        """What a nack leads to follows from it alone, so it is due when it is stored."""
        state = self._executor.state
        if not state.nacks:
            return False
        end = await self._end(at_ms)
        over = (cause for cause in takewhile(lambda cause: cause < end, state.nacks) if cause not in self._later)
        chosen = list(islice(over, AT_ONCE_MAX))
        if chosen:
            self.decided[Kind.NACK] += await self._nacks.decide_overdue(chosen)
            self._put_off([cause for cause in chosen if cause in state.nacks])
        return bool(chosen)

    async def _end(self, at_ms: int) -> int:
        """The position of the first message that was stored after that time."""
        return await self._executor.plans.position_at_time(at_ms + 1, asyncio.to_thread)

    def _put_off(self, causes: list[int]) -> None:
        again_ms = self._clock.now_ms() + AGAIN_MS
        self._later.update(dict.fromkeys(causes, again_ms))

    # Looking ---------------------------------------------------------------------------------

    async def count(self, client: Client = None) -> dict[str, int]:
        """How many are overdue now, by kind: of transactions `COUNTED_MAX` at most, of receipts some that ran out
        at so many times, as what is counted one by one keeps others waiting. Raises `LogDamaged`, `Busy`."""
        state, limits = self._executor.state, self._limits
        at_ms = self._clock.now_ms() - self._grace_ms
        end = 0
        if state.nacks:
            async with self._looks.place(client):  # the next one finds the index in memory
                end = await self._end(at_ms)
        over = state.transactions.over(at_ms, limits.timeout_ms, limits.check_interval_ms)
        return {
            Kind.DELAY.value: state.dues.count(at_ms, state.delays, state.decided),
            Kind.TRANSACTION.value: len({half.origin for half in islice(over, COUNTED_MAX)}),
            Kind.NACK.value: state.nacks.rank(end - 1) if end else 0,
            Kind.RECEIPT.value: state.receipts.dues.count(at_ms, COUNTED_MAX),
        }
