"""Where a group is with one message of a topic: what the gateway knows without reading the log."""

from __future__ import annotations

from typing import Any, cast

from lakemq.gateway.filter.selector import Selector
from lakemq.gateway.groups import Groups
from lakemq.gateway.groups.differences import subscriptions_of
from lakemq.gateway.http.in_slices import Pause
from lakemq.model.errors import InvalidFilter
from lakemq.model.names import retry_topic
from lakemq.storage.disk.clock import Clock
from lakemq.storage.lake.cold_rows import ColdSlice
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.segment.slice import Slice
from lakemq.storage.state.group_state import Group

FILTERS_MAX = 8
HOLDERS_MAX = 5


class Standings:
    """Of all groups of one broker."""

    def __init__(self, log: CommitLog, groups: Groups, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._groups = groups

    async def of(self, name: str, message: dict[str, Any], part: Slice | ColdSlice) -> dict[str, Any]:
        """Of the group with that name, as JSON values. `offset`: the first that the group has not finished in the
        message's queue; None: it has neither committed one nor received. `filters`: what its members want of the topic,
        and whether the message is that; `held_by`: who says to have the queue. `out`: it is handed out. `received_ms`:
        when somebody last asked to receive the topic for the group; None: not since the broker started.
        `holds_messages`: the group has received messages, of any topic, that it has not finished."""
        topic, queue_id = message["topic"], message["queue_id"]
        lag = await self._groups.lag_in(name, topic, queue_id)
        group = self._groups.find(name)
        receipts = self._log.routing.receipts
        received = receipts.floor(name, topic, queue_id)
        committed = group.offsets.get(topic, {}).get(queue_id)
        receipt = receipts.receipt_of(name, topic, message["position"])
        out = None if receipt is None else receipts.out.get(receipt)
        return {
            "group": name,
            "model": group.model,
            "consume_enabled": group.consume_enabled,
            "member_count": len(group.members),
            "paused_members": len(group.paused),
            "subscribed": group.consumes(topic),
            "receives": received is not None,
            "received_ms": self._received_ms(name, topic),
            "holds_messages": receipts.out_of_group.get(name, 0) > 0,
            "offset": committed if received is None else received,
            "lag": None if lag is None else lag.lag,
            "end_offset": None if lag is None else lag.max_offset,
            "passed": received is not None
            and receipts.has_passed(name, topic, (topic, queue_id), message["queue_offset"]),
            "filters": await _filters(group, topic, part),
            "held_by": await self._holders(group, topic, queue_id),
            "out": None
            if out is None
            else {"until_ms": out.until_ms, "attempt": out.reconsume_times + 1, "most": out.max_reconsume_times},
            "retries": self._retries(group),
        }

    def _received_ms(self, group: str, topic: str) -> int | None:
        found = self._log.routing.receipts.find(group, topic)
        if found is None or not found.used_ms:
            return None
        return self._clock.now_ms() - (self._clock.counted_ms() - found.used_ms)

    def _retries(self, group: Group) -> dict[str, Any]:
        """How far the group is with its retries."""
        topic = retry_topic(group.name)
        received = self._log.routing.receipts.retry_floor(group.name)
        return {"offset": group.offsets.get(topic, {}).get(0) if received is None else received}

    async def _holders(self, group: Group, topic: str, queue_id: int) -> list[str]:
        """The clients that have locked the queue, or say that they have it."""
        lock = group.locks.get((topic, queue_id))
        if lock is not None:
            return [lock.client_id]
        pause, found = Pause(), list[str]()
        for client_id in list(group.members):
            heard = self._groups.members.clients.member(group.name, client_id)
            if heard is not None and (topic, queue_id) in heard.status.queues:
                found.append(client_id)
                if len(found) >= HOLDERS_MAX:
                    break
            await pause()
        return found


async def _filters(group: Group, topic: str, part: Slice | ColdSlice) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for each in await subscriptions_of(group):
        if each.topic != topic or len(found) >= FILTERS_MAX:
            continue
        try:
            by_sql = each.type == "sql92"
            selector = await (Selector.soon(None, each.expression) if by_sql else Selector.soon(each.expression))
            matches = bool(selector.matches(cast("Slice", part)))
        except InvalidFilter:
            matches = False
        found.append({"type": each.type, "expression": each.expression, "matches": matches})
    return found
