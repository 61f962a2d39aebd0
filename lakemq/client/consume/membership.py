"""A client's membership of its group: heartbeats to every broker, and who else is in the group."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from lakemq.client.consume.group_api import EXPIRY_S, GroupApi, View
from lakemq.client.errors import Closed, Unreachable
from lakemq.client.failures import say_failed, wait_of
from lakemq.model.errors import GroupNotFound, LakemqError

logger = logging.getLogger("lakemq.client")

HEARTBEAT_S = 30.0
BEATS_AN_EXPIRY = 4
"""A member that is slow, or loses one heartbeat, doesn't expire."""
WATCH_S = 30.0
"""How long one long poll of the members takes."""
AGAIN_S = 1.0
REFUSED_S = 10.0
"""How long to wait where a token is refused: somebody has to change something. Heartbeats say it meanwhile."""
TELL_S = 0.2
"""How long is waited for more that has changed."""
LEAVE_S, LEFT_S = 5.0, 2.0
"""How long a broker may take for what is done there at last, and then for leaving."""
LATE_S = 3.0
"""A broker that hasn't answered for so long isn't waited for once another has: it goes on by itself."""
DIFFERENT_S = 3.0

Last = Callable[[str], Awaitable[None]]
"""What is still to be done at a broker before a member leaves there."""


class Membership:
    """`describe` says what a heartbeat to that broker carries. `changed` is called, on the event loop, whenever the
    group may have: members, subscriptions, queues, or offsets that were reset."""

    def __init__(
        self, api: GroupApi, describe: Callable[[str], Mapping[str, Any]], changed: Callable[[], None]
    ) -> None:
        self._api = api
        self._describe = describe
        self._changed = changed
        self._views: dict[str, View] = {}
        self._away: set[str] = set()
        self._heard_s: dict[str, float] = {}
        self._expired: set[str] = set()
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._beats: asyncio.Task[None] | None = None
        self._meeting: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._turns: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}
        """Heartbeats that haven't begun, one a broker."""
        self._under_way: set[asyncio.Task[None]] = set()
        self._left: set[asyncio.Task[None]] = set()
        """Those that nobody waits for any more."""
        self._differ_since_s: float | None = None
        self._warned = False
        self.on_enabled: Callable[[str, bool], None] = lambda broker, enabled: None
        """A broker says whether the group, and this client of it, may consume there; on the event loop."""

    @property
    def members(self) -> list[str]:
        """The client ids of all members that some broker knows, sorted; this one is among them. Brokers
        that don't answer don't count: they don't learn of members that leave."""
        heard = [view for broker, view in self._views.items() if broker not in self._away] or self._views.values()
        return sorted({self._api.client_id, *(name for view in heard for name in view.members)})

    def resets(self) -> dict[str, int]:
        """How often each broker had the group's offsets reset, as far as it says so."""
        return {broker: view.resets for broker, view in self._views.items() if view.resets is not None}

    def is_sure(self, broker: str) -> bool:
        """Whether this client can't have expired at the broker, because a heartbeat reached it recently. If the client
        may have expired, other members may have its queues."""
        view = self._views.get(broker)
        if view is None or broker in self._expired:
            return False
        return _now_s() - self._heard_s[broker] < view.expiry_s

    @property
    def connected(self) -> bool:
        """Whether a broker has received a recent heartbeat of this client."""
        return any(map(self.is_sure, list(self._views)))

    def take_expired(self) -> set[str]:
        """The brokers where this client had expired, since this was asked last."""
        expired, self._expired = self._expired, set()
        return expired

    async def start(self) -> None:
        """Join. Raises what a broker has against it, `InvalidFilter` with the place above all, and
        `Unreachable` when none answers."""
        await self.beat()
        self._beats = asyncio.create_task(self._beat_on())

    async def beat(self) -> None:
        """Send a heartbeat to all brokers now; raises as `start`. One that hangs isn't waited for once another has
        answered."""
        names = [broker.name for broker in await self._api.cluster.brokers()]
        self._part(set(self._watches) - set(names))
        beats = [self._beat_soon(name) for name in names]
        await asyncio.wait(beats, timeout=LATE_S)
        while (late := [beat for beat in beats if not beat.done()]) and not any(map(_has_answer, beats)):
            await asyncio.wait(late, return_when=asyncio.FIRST_COMPLETED)
        self._left.update(late)
        ended = [beat for beat in beats if beat.done()]
        if any(beat.cancelled() for beat in ended):
            raise Closed(f"the consumer {self._api.client_id} is closed")
        errors = [error for beat in ended if (error := beat.exception()) is not None]
        refused = [error for error in errors if not isinstance(error, Unreachable)]
        if refused or len(errors) == len(names):
            raise (refused or errors)[0]

    def _beat_soon(self, broker: str) -> asyncio.Task[None]:
        """A heartbeat that says what is so by now. Each broker gets one after the other, so that no older one comes
        last; all who want one meanwhile share the next."""
        beat = self._waiting.get(broker)
        if beat is None:
            beat = self._waiting[broker] = asyncio.create_task(self._beat_in_turn(broker))
            self._under_way.add(beat)
            beat.add_done_callback(self._end_beat)
        return beat

    async def _beat_in_turn(self, broker: str) -> None:
        async with self._turns.setdefault(broker, asyncio.Lock()):
            self._waiting.pop(broker, None)
            await self._beat_one(broker)

    def _end_beat(self, beat: asyncio.Task[None]) -> None:
        self._under_way.discard(beat)
        left, error = beat in self._left, None if beat.cancelled() else beat.exception()
        self._left.discard(beat)
        if left and isinstance(error, Exception):
            self._beat_failed(error)

    def tell(self) -> None:
        """The state of this client has changed: tell the brokers without waiting for the next heartbeat."""
        if self._beats is not None and (self._telling is None or self._telling.done()):
            self._telling = asyncio.create_task(self._tell())

    async def _tell(self) -> None:
        await asyncio.sleep(TELL_S)
        try:
            await self.beat()
        except Exception as error:  # noqa: BLE001  it is logged
            self._beat_failed(error)

    def meet(self) -> None:
        """Send a heartbeat now, without waiting for the next one: some brokers may not know this client yet."""
        if self._beats is not None and (self._meeting is None or self._meeting.done()):
            self._meeting = asyncio.create_task(self._meet())

    async def _meet(self) -> None:
        try:
            unmet = [each.name for each in await self._api.cluster.brokers() if each.name not in self._watches]
            await asyncio.gather(*map(self._beat_soon, unmet))
        except Exception as error:  # noqa: BLE001  it is logged
            self._beat_failed(error)

    def _part(self, gone: Iterable[str]) -> None:
        """These brokers no longer exist, and don't count in the group's membership."""
        for broker in gone:
            self._watches.pop(broker).cancel()
            self._views.pop(broker, None)
            self._heard_s.pop(broker, None)
            self._away.discard(broker)
            self._expired.discard(broker)

    async def stop(self) -> None:
        """Stop sending heartbeats: the membership expires."""
        tasks = [
            task
            for task in (self._beats, self._meeting, self._telling, *self._watches.values(), *self._under_way)
            if task is not None
        ]
        for task in tasks:
            task.cancel()
        self._beats, self._meeting, self._telling = None, None, None
        self._watches.clear()
        self._waiting.clear()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self, brokers: Iterable[str] = (), last: Last | None = None, leaves: bool = True) -> None:
        """Leave: the others share out this member's queues at once. At each broker `last` is done first, also at these
        others: one that hangs keeps nothing from the others, and nobody waiting for longer than 5 s for that and 2 s
        for leaving."""
        await self.stop()
        parts = {
            asyncio.create_task(self._part_from(broker, last, leaves)): broker for broker in {*self._views, *brokers}
        }
        if not parts:
            return
        _, late = await asyncio.wait(parts, timeout=LEAVE_S + LEFT_S)
        for part in late:
            part.cancel()
        if late:
            where = ", ".join(sorted(parts[part] for part in late))
            logger.warning("%s is closed, and not all could be stored at %s in time", self._api.client_id, where)
            await asyncio.wait(late)

    async def _part_from(self, broker: str, last: Last | None, leaves: bool) -> None:
        try:
            if last is not None:
                async with asyncio.timeout(LEAVE_S):
                    await last(broker)
        except Exception:  # it has to leave all the same
            logger.exception("%s could not end its work at %s", self._api.client_id, broker)
        try:
            if leaves and broker in self._views:
                await self._api.leave(broker)
        except Exception as error:  # noqa: BLE001  it is logged
            logger.warning("could not tell a broker that %s leaves: %s", self._api.client_id, error)

    async def _beat_one(self, broker: str) -> None:
        if broker in self._views and not self.is_sure(broker) and not await self._is_member(broker):
            self._expired.add(broker)
        begin_s = _now_s()
        self._note(broker, await self._api.heartbeat(broker, self._describe(broker)), begin_s)
        if broker not in self._watches:
            self._watches[broker] = asyncio.create_task(self._watch(broker))

    async def _is_member(self, broker: str) -> bool:
        try:
            return self._api.client_id in (await self._api.wait_members(broker, 0, 0.0)).members
        except GroupNotFound:
            return False

    async def _beat_on(self) -> None:
        while True:
            expiry_s = min((view.expiry_s for view in self._views.values()), default=EXPIRY_S)
            await asyncio.sleep(min(HEARTBEAT_S, expiry_s / BEATS_AN_EXPIRY))
            try:
                await self.beat()
            except Exception as error:  # noqa: BLE001  else the group would lose this member for good
                self._beat_failed(error)

    def _beat_failed(self, error: Exception) -> None:
        say_failed(logger, error, f"the heartbeat of {self._api.client_id} failed")

    async def _watch(self, broker: str) -> None:
        while True:
            begin_s = _now_s()
            try:
                view = await self._api.wait_members(broker, self._views[broker].generation, WATCH_S)
                known = self._api.client_id in view.members
                if not known:
                    self._expired.add(broker)
                self._note(broker, view, begin_s)
            except Exception as error:  # noqa: BLE001  without it nobody would hear of who comes and goes
                say_failed(logger, error, f"can't look up the members of {self._api.group}", logging.INFO)
                refused = isinstance(error, LakemqError) and error.lasting
                known = isinstance(error, Unreachable) or refused
                if known and not refused and broker not in self._away:
                    self._away.add(broker)
                    self._changed()
                await asyncio.sleep(wait_of(error, REFUSED_S if refused else AGAIN_S))
            if not known:  # it expired there, for it was too slow, or away for too long
                await self._beat_again(broker)

    async def _beat_again(self, broker: str) -> None:
        try:
            await asyncio.shield(self._beat_soon(broker))
        except Exception as error:  # noqa: BLE001  it is logged
            self._beat_failed(error)
            await asyncio.sleep(wait_of(error, AGAIN_S))

    def _note(self, broker: str, view: View, begin_s: float) -> None:
        # The broker heard of this client when it was asked at the earliest. The answer may be old: a
        # process that was stopped finds it when it goes on.
        before = self._views.get(broker)
        self._views[broker] = view
        if self._api.client_id in view.members:
            self._heard_s[broker] = max(begin_s, self._heard_s.get(broker, begin_s))
        back = broker in self._away
        self._away.discard(broker)
        if back or before is None or view.generation != before.generation or view.members != before.members:
            self._changed()
        self._note_differences(view.subscriptions_differ)
        if view.consume_enabled is not None:
            self.on_enabled(broker, view.consume_enabled)

    def _note_differences(self, differ: bool | None) -> None:
        """Warn once of differences that stay: members that start don't subscribe all at the same time."""
        now_s = _now_s()
        if differ is False:
            self._differ_since_s, self._warned = None, False
        elif differ and self._differ_since_s is None:
            self._differ_since_s = now_s
        elif differ and not self._warned and now_s - (self._differ_since_s or now_s) > DIFFERENT_S:
            self._warned = True
            logger.warning(
                (
                    "the members of group %s have different subscriptions: nobody consumes some "
                    "of the messages. `lakemq group show %s` shows the differences"
                ),
                self._api.group,
                self._api.group,
            )


def _has_answer(beat: asyncio.Task[None]) -> bool:
    """Whether the broker has said something, be it that it refuses."""
    return beat.done() and (beat.cancelled() or not isinstance(beat.exception(), Unreachable))


def _now_s() -> float:
    return time.monotonic()  # of any thread: consumers in threads are asked whether they are connected
