"""Groups' places in topics: so many are kept, and one that nobody uses gives way to a new one."""

from __future__ import annotations

from lakemq.gateway.groups import Groups
from lakemq.model.errors import FlowControl
from lakemq.settings import Receive as Limits
from lakemq.storage.disk.clock import Clock
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.state.subscription import Subscription

LOOK_AGAIN_MS = 100
"""All places are looked through no more often than that."""


class Places:
    """How many there may be, and which of them are used. Lives on the event loop."""

    def __init__(self, limits: Limits, groups: Groups, log: CommitLog, clock: Clock) -> None:
        self._limits, self._groups, self._log, self._clock = limits, groups, log, clock
        self._began_ms = clock.counted_ms()
        self._all_used_until_ms = 0

    def use(self, group: str, topic: str) -> None:
        """Somebody receives there now."""
        subscription = self._log.routing.receipts.find(group, topic)
        if subscription is not None:
            subscription.used_ms = self._clock.counted_ms()

    async def make_room(self) -> None:
        """Return when there is room for one more. Raises `FlowControl` when all are used, `StoreUnwritable`."""
        most = self._limits.subscriptions_max
        while len(self._log.routing.receipts.subscriptions) >= most:
            idle = self._find_idle()
            if idle is None:
                raise FlowControl(
                    f"{most} groups and topics are received already (receive.subscriptions_max), and in each something"
                    f" is out, or it was used in the last {self._limits.idle_ms} ms (receive.idle_ms)"
                )
            await self._groups.forget_place(idle.group, idle.topic)

    def _find_idle(self) -> Subscription | None:
        """The place that was not used for longest, if that is long; after a start all count as used just then."""
        now_ms, idle_ms = self._clock.counted_ms(), self._limits.idle_ms
        if now_ms < self._all_used_until_ms:
            return None
        idle = [each for each in self._log.routing.receipts.subscriptions.values() if each.is_idle]
        oldest = min(idle, key=self._used_ms, default=None)
        if oldest is not None and self._used_ms(oldest) + idle_ms <= now_ms:
            return oldest
        self._all_used_until_ms = now_ms + LOOK_AGAIN_MS
        return None

    def _used_ms(self, subscription: Subscription) -> int:
        return max(subscription.used_ms, self._began_ms)
