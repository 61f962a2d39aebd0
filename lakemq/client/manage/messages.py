"""Messages, found and taken back; and transactions, resolved."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (pyarrow carries no types)

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any

from lakemq.client.broker_requests import ToPrimary
from lakemq.client.consume.fetch import fetch
from lakemq.client.consume.subscription import Subscription, make_subscription, to_ms
from lakemq.client.errors import SearchEnded
from lakemq.client.manage.ask import Brokers
from lakemq.client.manage.in_order import in_order
from lakemq.client.manage.spans import Place, Span, spans_of
from lakemq.client.outgoing import check_group, check_topic
from lakemq.client.produce.transactions import Resolution
from lakemq.client.view import MessageView, Rows
from lakemq.contract import routes
from lakemq.contract.errors import error_of_code
from lakemq.model.errors import LakemqError

PAGE = 500
"""So many messages are asked for at a time, of each queue or broker."""
_OK = "ok"


class Messages:
    """Messages of all brokers."""

    _brokers: Brokers

    async def message(self, message_id: str) -> MessageView:
        """One message by its id, from the log or the lake. Raises `MessageNotFound`."""
        asked = await self._brokers.owner(message_id)
        return MessageView.of(await asked.get(routes.MESSAGE.at(message_id)))

    async def messages(
        self,
        topic: str,
        *,
        begin: Place | None = None,
        end: Place | None = None,
        tags: str = "*",
        sql: str | None = None,
    ) -> AsyncIterator[MessageView]:
        """The messages that a topic has now, oldest first, a page at a time. No group is involved, and nothing is
        committed.

        `begin`, `end`: the range, by store time or by offset, `begin ≤ o < end`. `tags`, `sql`: filters, as for
        consumers. Raises `TopicNotFound`, `InvalidFilter`.
        """
        wanted = make_subscription(check_topic(topic), tags, sql)
        spans = await spans_of(self._brokers.cluster, topic, begin, end)
        found = [self._of_span(span, wanted) for span in spans]
        async for message in in_order(found, lambda each: (each.store_time_ms, each.queue, each.queue_offset)):
            yield message

    async def messages_by_key(
        self, topic: str, key: str, *, begin: datetime | None = None, end: datetime | None = None
    ) -> AsyncIterator[MessageView]:
        """A topic's messages with the key, newest first, a page at a time, from logs and lake: those that were stored
        at `begin` or later, and before `end`.

        Raises `TopicNotFound`; and `SearchEnded` after the last one, if a broker doesn't search further back.
        """
        params = {"topic": check_topic(topic), "key": key, "max": PAGE}
        params |= {} if begin is None else {"begin_ms": to_ms(begin)}
        end_ms = None if end is None else to_ms(end) - 1
        first = await self._brokers.each(lambda asked: _by_key(asked, params, end_ms))
        pages = [self._of_key(name, params, page) for name, page in first.items()]
        async for message in in_order(pages, lambda each: (-each.store_time_ms, each.broker, -each.position)):
            yield message

    async def recall(self, message_id: str) -> None:
        """Recall a scheduled message: it is never delivered. Doing so twice does no harm. Raises `AlreadyDelivered`,
        `MessageNotFound`, and `InvalidRequest` for a message that isn't scheduled."""
        asked = await self._brokers.owner(message_id)
        await asked.request(routes.RECALL.at(message_id))

    async def resolve_transactions(
        self, producer_group: str, resolutions: Mapping[str, Resolution]
    ) -> dict[str, LakemqError | None]:
        """End transactions, by their ids, on behalf of their producers. Returns the error of each, or None:
        `TransactionResolved` if it already has the opposite outcome, `TransactionNotFound`."""
        check_group(producer_group)
        by_broker: dict[str, tuple[ToPrimary, list[dict[str, str]]]] = {}
        for name, resolution in resolutions.items():
            asked = await self._brokers.owner(name)
            listed = by_broker.setdefault(asked.broker, (asked, []))[1]
            listed.append({"transaction_id": name, "resolution": Resolution(resolution).value})
        found: dict[str, LakemqError | None] = {}
        for asked, listed in by_broker.values():
            content = {"producer_group": producer_group, "resolutions": listed}
            answer = await asked.send(routes.RESOLVE_MANY.at(), content)
            found |= {each["transaction_id"]: _error(each["status"]) for each in answer["results"]}
        return {name: found[name] for name in resolutions}

    async def _of_span(self, span: Span, wanted: Subscription) -> AsyncIterator[MessageView]:
        offset = span.begin
        while offset < span.end:
            params: dict[str, str | int] = dict(wanted.params())
            page = await fetch(self._brokers.cluster, span.queue, offset, min(PAGE, span.end - offset), 0.0, params)
            for message in Rows.of_table(page.table):
                if message.queue_offset >= span.end:
                    return
                yield message
            if page.next_offset <= offset:
                return
            offset = page.next_offset

    async def _of_key(
        self, broker: str, params: Mapping[str, str | int], page: tuple[list[MessageView], bool]
    ) -> AsyncIterator[MessageView]:
        """What one broker answers, a page after the other. Pages meet in a millisecond, whose messages come twice."""
        seen: set[int] = set()
        asked = self._brokers.cluster.primary(broker)
        while True:
            messages, complete = page
            new = [message for message in messages if message.position not in seen]
            for message in new:
                yield message
            if complete and len(messages) < PAGE:
                return
            if not new:
                raise SearchEnded(f"{broker} looks no further back for the key: there may be older messages")
            seen = {message.position for message in messages}
            page = await _by_key(asked, params, messages[-1].store_time_ms)


async def _by_key(
    asked: ToPrimary, params: Mapping[str, str | int], end_ms: int | None
) -> tuple[list[MessageView], bool]:
    said = params if end_ms is None else {**params, "end_ms": end_ms}
    answer: Any = await asked.get(routes.MESSAGES_BY_KEY.at(), said)
    return list(Rows.of_json(answer["messages"])), answer["complete"]


def _error(status: str) -> LakemqError | None:
    return None if status == _OK else error_of_code(status, f"the transaction was not resolved: {status}")
