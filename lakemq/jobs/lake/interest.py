"""Whether a range of the log can hold rows for a table of control traffic, told without reading it.

The effects of control traffic stand in any topic, so finding them means reading the range once
more. Nothing of this kind flows most of the time, and then a batch costs a table a request and a
commit of its progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from lakemq.jobs.log_client import LogClient, Subscription, check_same_log
from lakemq.jobs.tables.scheduled_writer import ScheduledWriter
from lakemq.model.errors import LakemqError
from lakemq.model.names import DECISION_TOPIC, HALF_TOPIC, OP_TOPIC, SCHEDULE_TOPIC

_ROUTING_RETRY_S = 1.0


class Interest(Protocol):
    """What a table asks of a range before it is read. Not for several threads at once."""

    def concerns(self, begins: Mapping[str, int], clock_ms: int) -> bool:
        """False only where the log holds nothing for the table between `begins`, by broker, and
        the end of a batch that was planned at `clock_ms`. Raises `LogReplaced`."""
        ...

    def written(self) -> None:
        """The range is in the table."""
        ...


class EveryMessage:
    """For a table with a row for each message."""

    def concerns(self, begins: Mapping[str, int], clock_ms: int) -> bool:
        return True

    def written(self) -> None: ...


class ScheduledMessages:
    """New scheduled messages, decisions on them, or one that is due: nothing else changes any."""

    def __init__(self, addresses: Mapping[str, str], logs: Mapping[str, str], writer: ScheduledWriter) -> None:
        """`logs`: the id of each broker's log, which is asked."""
        self._logs = logs
        self._clients = {broker: LogClient(address) for broker, address in addresses.items()}
        self._writer = writer

    def concerns(self, begins: Mapping[str, int], clock_ms: int) -> bool:
        topics = (SCHEDULE_TOPIC, DECISION_TOPIC)
        if any(_has_news(self._clients[each], self._logs[each], topics, at) for each, at in begins.items()):
            return True
        due_ms = self._writer.least_due_ms()
        return due_ms is not None and due_ms <= clock_ms

    def written(self) -> None: ...


class OpenTransactions:
    """New halves and operations, or halves that are open: only these have effects.

    Once a broker says that none is open, what is beyond the end that its log then has can hold
    effects only of halves that come later, and those are noticed.
    """

    def __init__(self, addresses: Mapping[str, str], logs: Mapping[str, str]) -> None:
        self._addresses = addresses
        self._logs = logs
        self._clients = {broker: LogClient(address) for broker, address in addresses.items()}
        self._quiet_from: dict[str, int] = {}

    def concerns(self, begins: Mapping[str, int], clock_ms: int) -> bool:
        found = False
        for broker, begin in begins.items():
            if _has_news(self._clients[broker], self._logs[broker], (HALF_TOPIC, OP_TOPIC), begin):
                self._quiet_from.pop(broker, None)
            quiet_from = self._quiet_from.get(broker)
            found = found or quiet_from is None or begin < quiet_from
        return found

    def written(self) -> None:
        for broker, address in self._addresses.items():
            if broker not in self._quiet_from:
                client = LogClient(address, _ROUTING_RETRY_S)
                try:
                    routing = client.routing()
                    check_same_log(address, self._logs[broker], routing["log_id"])
                    if routing["transactions"]["open"] == 0:
                        self._quiet_from[broker] = client.end_of_log()
                except LakemqError:
                    continue  # not known: the next range is read
                finally:
                    client.close()


def _has_news(client: LogClient, log_id: str, topics: tuple[str, ...], begin: int) -> bool:
    """Raises `LogReplaced` where another log would answer."""
    end = client.end(Subscription(topics=topics), begin)
    check_same_log(client.address, log_id, end.log_id)
    return end.end_position > begin
