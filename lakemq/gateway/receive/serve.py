"""Receives and acknowledgements by single requests, past FastAPI."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import orjson

from lakemq.gateway.access.caller import caller_of
from lakemq.gateway.filter.scan import LIGHT_BYTES, LIGHT_ROWS, rows_and_bytes
from lakemq.gateway.filter.selector import Selector
from lakemq.gateway.groups.clients import Asker, Clients
from lakemq.gateway.receipts.acknowledger import Acknowledger
from lakemq.gateway.receipts.receive_request import Passed, ReceiveRequest, filter_key
from lakemq.gateway.receive.bodies import AcksBody, Body, InvisibilityBody, ReceiveBody, parse
from lakemq.gateway.receive.receiver import Given, Receiver
from lakemq.gateway.work.run import Run, at_once
from lakemq.gateway.work.work import Work
from lakemq.model.access import Action, need_of_topic
from lakemq.model.errors import InvalidRequest, InvalidTopic
from lakemq.model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, check_group, check_readable, is_system, retry_topic
from lakemq.settings import Settings
from lakemq.storage.read.store import Store
from lakemq.storage.segment.slice import Slice
from lakemq.storage.slices.messages import to_dicts
from lakemq.web.asgi import (
    Client,
    Disconnected,
    Scope,
    client_of,
    read_body,
    send_answer,
)
from lakemq.web.gone import client_gone
from lakemq.web.problems import json_answer
from lakemq.web.request import HttpRequest

BODY_BYTES_MAX = 4 * 1024 * 1024
_NOTHING = orjson.dumps({"messages": []})


class Server:
    """Answers the requests of simple consumption."""

    def __init__(
        self,
        store: Store,
        receiver: Receiver,
        acknowledger: Acknowledger,
        clients: Clients,
        settings: Settings,
        work: Work,
    ) -> None:
        self._store = store
        self._receiver = receiver
        self._acknowledger = acknowledger
        self._clients = clients
        self._limits = settings.receive
        self._retries_max = settings.retry.max_reconsume_times
        self._work = work

    async def serve_receive(self, request: HttpRequest) -> None:
        """Answer one receive; raises `LakemqError` or `Disconnected`."""
        group, body = await _read(request, ReceiveBody)
        caller_of(request.scope).check(need_of_topic((Action.SUB,), body.topic))
        await _answer(request, await self._receive(group, body, request.scope))

    async def serve_acks(self, request: HttpRequest) -> None:
        """Answer an acknowledgement; raises `LakemqError` or `Disconnected`."""
        group, body = await _read(request, AcksBody)
        await _answer(request, orjson.dumps(await self._acknowledge(group, body)))

    async def serve_invisibility(self, request: HttpRequest) -> None:
        """Answer a change of how long a message is out; raises `LakemqError` or `Disconnected`."""
        group, body = await _read(request, InvisibilityBody)
        await _answer(request, orjson.dumps(await self._change(group, body)))

    async def _receive(self, group: str, body: ReceiveBody, scope: Scope) -> bytes:
        client, gone = client_of(scope), client_gone(scope)
        passed = Passed()
        wanted = await self._wanted(group, body, client, passed)
        self._store.log.topics.get(wanted.topic)
        caller = caller_of(scope)
        self._clients.received(group, wanted.topic, Asker(caller.name, caller.source), self._store.log.now_ms())
        with ExitStack() as kept:
            runs: list[Run] = []

            def admit(parts: list[Slice]) -> None:
                # Before anything is handed out: who is told `busy` then has lost nothing.
                rows, size = rows_and_bytes(parts)
                light = rows <= LIGHT_ROWS and size <= LIGHT_BYTES
                runs.append(at_once if light else kept.enter_context(self._work.answering.kept_for(client)))

            given = await self._receiver.receive(wanted, body.wait_ms, gone, admit)
            if given is None:
                if gone.done():
                    raise Disconnected
                return orjson.dumps({"messages": [], "expired": passed.expired}) if passed.expired else _NOTHING
            await self._store.log.keep_promise()
            answer = await runs[-1](self._answer, given, wanted.retry_topic, passed.expired)
            count = sum([some.count_rows for some in given.chosen])
            topic = self._store.log.topics.find(wanted.topic)
            self._work.counters.gave(count, len(answer), None if topic is None else topic.traffic)
            return answer

    async def _wanted(self, group: str, body: ReceiveBody, client: Client, passed: Passed) -> ReceiveRequest:
        limits = self._limits
        _check("max", body.max, limits.messages_per_call_max)
        _check("wait_ms", body.wait_ms, self._work.limits.wait_ms_max)
        _check("invisible_ms", body.invisible_ms, limits.invisible_ms_max)
        most = body.max_reconsume_times
        return ReceiveRequest(
            group,
            _check_topic(group, body.topic),
            body.max,
            body.invisible_ms,
            self._retries_max if most is None else most,
            body.ordered,
            await Selector.soon(body.tags, body.sql or None),
            filter_key(body.tags, body.sql),
            client,
            passed,
        )

    def _answer(self, given: Given, retries: str, expired: int) -> bytes:
        """What is handed out, and how many messages were passed over as they had expired, as JSON. For any thread."""
        content: dict[str, Any] = {"messages": self._to_messages(given, retries)}
        if gaps := [gap._asdict() for some in given.chosen for gap in some.gaps]:
            content["gaps"] = gaps
        if expired:
            content["expired"] = expired
        return orjson.dumps(content)

    def _to_messages(self, given: Given, retries: str) -> list[dict[str, Any]]:
        ids = self._store.ids
        messages = [message for some in given.chosen for part in some.parts for message in to_dicts(part, ids)]
        first = given.first_receipt
        receipts = self._store.secret_ids.texts(range(first, first + len(messages)))
        for receipt, message in zip(receipts, messages, strict=True):
            message["receipt"] = receipt
            message["invisible_until_ms"] = given.until_ms
            if message["topic"] == retries:
                message["stored_topic"], message["topic"] = retries, message["real_topic"]
        return messages

    async def _acknowledge(self, group: str, body: AcksBody) -> dict[str, Any]:
        _check("receipts' count", len(body.receipts), self._limits.receipts_per_call_max)
        statuses = await self._acknowledger.acknowledge(group, body.receipts)
        pairs = zip(body.receipts, statuses, strict=True)
        return {"receipts": [{"receipt": receipt, "status": status} for receipt, status in pairs]}

    async def _change(self, group: str, body: InvisibilityBody) -> dict[str, Any]:
        _check("invisible_ms", body.invisible_ms, self._limits.invisible_ms_max)
        receipt, until_ms = await self._acknowledger.change(group, body.receipt, body.invisible_ms)
        return {"receipt": receipt, "invisible_until_ms": until_ms}


async def _read(request: HttpRequest, kind: type[Body]) -> tuple[str, Body]:
    """The group that a request is of, and its body."""
    body = await read_body(request.receive, BODY_BYTES_MAX)
    return check_group(request.values[0]), parse(kind, body)


async def _answer(request: HttpRequest, data: bytes) -> None:
    await send_answer(request.send, json_answer(data))


def _check(name: str, number: int, most: int) -> None:
    if number > most:
        raise InvalidRequest(f"{name} is {number}; it may be at most {most}")


def _check_topic(group: str, topic: str) -> str:
    """The topic if a group may receive it; raises `InvalidTopic`."""
    check_readable(topic)
    if topic == retry_topic(group):
        raise InvalidTopic("a group's retries come with the topics that they are retries of")
    if is_system(topic) and not topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
        raise InvalidTopic(f"topic {topic!r} is the system's: it can be pulled, not received")
    return topic
