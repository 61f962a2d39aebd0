"""Posts decisions to the brokers that hold their causes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from threading import Event
from typing import NamedTuple

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.log_client import LogClient
from lakemq.model.trace_parent import TRACE_PARENT, TraceParent

ROWS_PER_REQUEST_MAX = 50_000
"""The most that a broker takes in one request."""

_RETRY_S = 2.0
"""How long one try lasts if the broker is away. Between tries the sender checks whether it was stopped."""

logger = logging.getLogger(__name__)


class Decision(NamedTuple):
    """A decision (`lakemq.model.wheel.Decided`) and the broker whose log has the cause. `due_ms` None: now."""

    broker: str
    cause: int
    action: str
    due_ms: int | None = None


class Whereto(NamedTuple):
    """A broker's address, and the log and epoch that its decisions are made for."""

    address: str
    log_id: str
    epoch: int


class DecisionSender:
    """Posts decisions, and waits for brokers that are away. A decision changes nothing if its cause has its effect
    already, so each can be sent again."""

    def __init__(self, brokers: Mapping[str, Whereto]) -> None:
        self._brokers = dict(brokers)
        self._clients = {broker: LogClient(each.address, _RETRY_S) for broker, each in brokers.items()}
        self._stopped = Event()

    def send(self, decisions: Iterable[Decision], trace: TraceParent | None = None) -> None:
        """Returns when all of them are durable. Takes them one after the other, and keeps no more than
        one request for each broker in memory. `trace`: the span that they belong to.

        Raises `BrokerUnavailable`, but only after `stop`. Raises `LogReplaced` if a broker now has another log or
        epoch than the decisions were made for: it refuses the whole request, and everything must be decided again.
        """
        for client in self._clients.values():
            client.in_trace = {} if trace is None else {TRACE_PARENT: str(trace)}
        gathered: dict[str, list[Decision]] = {}
        for decision in decisions:
            rows = gathered.setdefault(decision.broker, [])
            rows.append(decision)
            if len(rows) == ROWS_PER_REQUEST_MAX:
                self._post(decision.broker, gathered.pop(decision.broker))
        for broker, rows in gathered.items():
            self._post(broker, rows)

    def stop(self) -> None:
        """Gives up waiting for brokers that are away, now and later."""
        self._stopped.set()

    def close(self) -> None:
        """Closes the connections."""
        for client in self._clients.values():
            client.close()

    def _post(self, broker: str, rows: list[Decision]) -> None:
        client, (_, log_id, epoch) = self._clients[broker], self._brokers[broker]
        _, causes, actions, dues_ms = zip(*rows, strict=True)
        warned = False
        while True:
            try:
                client.post_decisions(log_id, epoch, causes, actions, dues_ms)
            except BrokerUnavailable as error:
                if self._stopped.is_set():
                    raise
                if not warned:
                    logger.warning("%s; its decisions wait", error.detail)
                    warned = True
            else:
                return
