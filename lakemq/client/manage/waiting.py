"""What waits at the brokers: scheduled messages, and open transactions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from lakemq.client.broker_requests import ToPrimary
from lakemq.client.manage.ask import Brokers
from lakemq.client.manage.in_order import in_order
from lakemq.client.manage.results import OpenTransaction, ScheduledMessage
from lakemq.client.outgoing import check_group, check_topic
from lakemq.client.produce.transactions import Resolution
from lakemq.contract import waiting_routes
from lakemq.contract.route import Route

PAGE = 500
"""So many are asked for at a time, of each broker."""


class Waiting:
    """Lists what waits, at all brokers together."""

    _brokers: Brokers

    async def scheduled(
        self, *, topic: str | None = None, broker: str | None = None
    ) -> AsyncIterator[ScheduledMessage]:
        """Waiting scheduled messages, including retries, soonest first, a page at a time: for all topics, or for this
        one, as far as you may see them. Pass the id to `recall`."""
        pages = await self._listed(waiting_routes.SCHEDULED, "messages", _params(topic, None), broker)
        found = [_scheduled(name, page) for name, page in pages.items()]
        async for message in in_order(found, lambda each: (each.due_ms, each.broker)):
            yield message

    async def open_transactions(
        self, *, producer_group: str | None = None, topic: str | None = None, broker: str | None = None
    ) -> AsyncIterator[OpenTransaction]:
        """Transactions that are neither committed nor rolled back, oldest first within each broker, a page at a time:
        of all producer groups and topics, or of the given ones, as far as you may see them."""
        params = _params(topic, producer_group)
        pages = await self._listed(waiting_routes.TRANSACTIONS, "transactions", params, broker)
        found = [_transactions(name, page) for name, page in pages.items()]
        async for transaction in in_order(found, lambda each: (each.born_time_ms, each.broker)):
            yield transaction

    async def end_transaction(self, transaction: OpenTransaction, resolution: Resolution) -> None:
        """Commit or roll back an open transaction on behalf of its producer. This needs `Pub` on its producer group and
        topic. You may repeat it with the same resolution. Raises `TransactionResolved` if it already has the opposite
        outcome, `TransactionNotFound` if the broker no longer has its half message, `InvalidRequest` for `UNKNOWN`."""
        asked = await self._brokers.owner(transaction.half_id)
        target = waiting_routes.RESOLVE_OPEN.at(transaction.producer_group, transaction.half_id)
        await asked.send(target, {"resolution": Resolution(resolution).value})

    async def _listed(
        self, route: Route, named: str, params: dict[str, str | int], broker: str | None
    ) -> dict[str, AsyncIterator[dict[str, Any]]]:
        """What each broker lists. All are asked for their first page before this returns, so that what is wrong is
        raised at once."""
        first = await self._brokers.each(lambda asked: asked.get(route.at(), params), broker)
        primary = self._brokers.cluster.primary
        return {name: _entries(primary(name), route, named, params, page) for name, page in first.items()}


async def _entries(
    asked: ToPrimary, route: Route, named: str, params: dict[str, str | int], page: Any
) -> AsyncIterator[dict[str, Any]]:
    """Of the first page, and of those after it. A page may be empty, and not the last."""
    while True:
        for entry in page[named]:
            yield entry
        if page["next_after"] is None:
            return
        page = await asked.get(route.at(), params | {"after": page["next_after"]})


async def _scheduled(broker: str, entries: AsyncIterator[dict[str, Any]]) -> AsyncIterator[ScheduledMessage]:
    async for each in entries:
        yield ScheduledMessage(
            each["message_id"],
            broker,
            each["topic"],
            each["retry_topic"],
            each["due_ms"],
            each["born_time_ms"],
            each["tag"],
            tuple(each["keys"]),
            each["recallable"],
        )


async def _transactions(broker: str, entries: AsyncIterator[dict[str, Any]]) -> AsyncIterator[OpenTransaction]:
    async for each in entries:
        resolution = each["resolution"]
        yield OpenTransaction(
            each["half_id"],
            broker,
            each["topic"],
            each["group"],
            each["born_time_ms"],
            each["tag"],
            tuple(each["keys"]),
            each["checks"],
            each["checks_max"],
            each["next_check_ms"],
            None if resolution is None else Resolution(resolution),
        )


def _params(topic: str | None, producer_group: str | None) -> dict[str, str | int]:
    params: dict[str, str | int] = {"max": PAGE}
    if topic is not None:
        params["topic"] = check_topic(topic)
    if producer_group is not None:
        params["group"] = check_group(producer_group)
    return params
