"""A topic's queues by broker, of what each broker has said. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lakemq.console.looks import Pair
from lakemq.console.replicas import one_of_each
from lakemq.console.shown import Number
from lakemq.contract.kept import kept_in
from lakemq.contract.limits import TIMES_MAX

QUEUES_SHOWN_MAX = 256
"""Of all brokers together."""


class QueueRow(NamedTuple):
    """A queue. `oldest_ms`, `newest_ms`: when the first and the last message that it has were stored; None: it has
    none, or it isn't known."""

    broker: str
    is_here: bool
    queue_id: int
    min_offset: int
    log_min_offset: int
    max_offset: int
    messages: int
    oldest_ms: int | None
    newest_ms: int | None


class BrokerRow(NamedTuple):
    """What a broker says of the topic. `problem`: why it says nothing; then all else is unknown. `body_bytes_in`: since
    the broker began."""

    name: str
    address: str
    role: str = ""
    problem: str = ""
    queues: int | None = None
    messages: int | None = None
    rate_in: Number = None
    rate_out: Number = None
    body_bytes_in: Number = None


class Said(NamedTuple):
    """A broker's answer. `topic`: as the contract has it; None: there is none, for the reason `problem`."""

    address: str
    pair: Pair | None
    topic: Mapping[str, Any] | None
    problem: str = ""

    @property
    def name(self) -> str:
        """The broker's; its address where it hasn't said."""
        return self.address if self.pair is None else self.pair.now.name

    @property
    def leads(self) -> bool:
        """Whether it says so."""
        return self.pair is not None and self.pair.now.leads


class Queues(NamedTuple):
    """What a page shows. `more`: by broker, how many queues it leaves out after those. `timed_max`: brokers told the
    times of only so many queues each; 0: there is nothing to say of that. `begin`, `following`: the first queue of this
    page, and of the next one; None: there is none."""

    brokers: Sequence[BrokerRow]
    rows: Sequence[QueueRow]
    more: Sequence[tuple[str, int]]
    timed_max: int
    begin: int
    following: int | None

    @property
    def previous(self) -> int:
        """The first queue of the page before."""
        return max(self.begin - TIMES_MAX, 0)


def queues_of(said: Sequence[Said], here: str, begin: int = 0) -> Queues:
    """All brokers, and the queues of each that answered, from that one on; of replicas those of the leader. `here`: the
    address of the broker that other pages are about."""
    shown = one_of_each(each for each in said if each.topic is not None)
    most = QUEUES_SHOWN_MAX // max(len(shown), 1)
    rows: list[QueueRow] = []
    more: list[tuple[str, int]] = []
    for each in shown:
        queues = _queues(each)[begin:]
        rows += [_queue(each.name, each.address == here, queue) for queue in queues[:most]]
        if len(queues) > most:
            more.append((each.name, len(queues) - most))
    listed = [_queues(each)[begin : begin + most] for each in shown]
    are_more = any(len(each) > TIMES_MAX and "oldest_ms" in each[0] for each in listed)
    following = begin + min(TIMES_MAX, most)
    return Queues(
        [_broker(each) for each in said],
        rows,
        more,
        TIMES_MAX if are_more else 0,
        begin,
        following if any(len(_queues(each)) > following for each in shown) else None,
    )


def _queues(said: Said) -> Sequence[Mapping[str, Any]]:
    return () if said.topic is None else said.topic["queues"]


def _queue(broker: str, is_here: bool, queue: Mapping[str, Any]) -> QueueRow:
    begin, end = queue["min_offset"], queue["max_offset"]
    return QueueRow(
        broker,
        is_here,
        queue["queue_id"],
        begin,
        queue.get("log_min_offset", begin),
        end,
        kept_in(queue),
        queue.get("oldest_ms"),
        queue.get("newest_ms"),
    )


def _broker(said: Said) -> BrokerRow:
    if said.topic is None:
        return BrokerRow(said.name, said.address, problem=said.problem)
    queues, name = _queues(said), said.topic["topic"]
    row = BrokerRow(
        said.name,
        said.address,
        queues=len(queues),
        messages=sum(map(kept_in, queues)),
    )
    if said.pair is None:
        return row
    return row._replace(
        role=str(said.pair.now.said.get("role", "")),
        rate_in=said.pair.rate("lakemq_topic_messages_in_total", name),
        rate_out=said.pair.rate("lakemq_topic_messages_out_total", name),
        body_bytes_in=said.pair.now.one("lakemq_topic_bytes_in_total", name),
    )
