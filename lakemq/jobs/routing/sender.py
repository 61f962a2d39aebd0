"""Brings decisions to the brokers whose causes they are about."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from threading import Event
from typing import NamedTuple

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.log_client import LogClient
from lakemq.model.trace_parent import TRACE_PARENT, TraceParent

ROWS_PER_REQUEST_MAX = 50_000

_RETRY_S = 2.0

logger = logging.getLogger(__name__)


class Decision(NamedTuple):
    """What becomes of the cause at that position of the broker's log; `due_ms` None: now."""

    broker: str
    cause: int
    action: str
    due_ms: int | None = None


class Whereto(NamedTuple):
    """Where a broker is, and which log and epoch of it is decided on."""

    address: str
    log_id: str
    epoch: int


class DecisionSender:
    """Posts decisions, and waits for brokers that are away. A decision for a cause that is done
    changes nothing, so any of them may be sent again."""

    def __init__(self, brokers: Mapping[str, Whereto]) -> None:
        self._brokers = dict(brokers)
        self._clients = {broker: LogClient(each.address, _RETRY_S) for broker, each in brokers.items()}
        self._stopped = Event()

    def send(self, decisions: Iterable[Decision], trace: TraceParent | None = None) -> None:
        """Returns once all are durable; `trace` is what they belong to. Raises `BrokerUnavailable` only after `stop`,
        and `LogReplaced` where a broker has another log now, or has lost a part of the one that was decided on: nothing
        is done of these then, and all is to be decided anew."""
        for client in self._clients.values():
            client.in_trace = {} if trace is None else {TRACE_PARENT: str(trace)}
        by_broker: dict[str, list[Decision]] = {}
        for decision in decisions:
            by_broker.setdefault(decision.broker, []).append(decision)
        for broker, rows in by_broker.items():
            for begin in range(0, len(rows), ROWS_PER_REQUEST_MAX):
                self._post(broker, rows[begin : begin + ROWS_PER_REQUEST_MAX])

    def stop(self) -> None:
        """Waits for no broker any more."""
        self._stopped.set()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def _post(self, broker: str, rows: list[Decision]) -> None:
        client, (_, log_id, epoch) = self._clients[broker], self._brokers[broker]
        _, causes, actions, dues_ms = zip(*rows, strict=True)
        said = False
        while True:
            try:
                client.post_decisions(log_id, epoch, causes, actions, dues_ms)
            except BrokerUnavailable as error:
                if self._stopped.is_set():
                    raise
                if not said:
                    logger.warning("%s; its decisions wait", error.detail)
                    said = True
            else:
                return
