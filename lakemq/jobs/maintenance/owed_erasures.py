"""What an erasure could not erase in logs whose brokers were away: the first erasure after their return takes it too,
as nothing in the lake leads there any more. Which messages these are stands in a file of the lake, by the id of their
log: in another log the same positions mean other messages."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from lakemq.jobs.log_client import LogClient
from lakemq.jobs.maintenance.places import PLACES, pc, positions_of
from lakemq.jobs.maintenance.requests import FOLDER
from lakemq.jobs.tables.holes import Hole, Holes, ranges_of
from lakemq.storage.lake.object_files import files_of

_OWED = "erasures_owed.json"


class Owed(NamedTuple):
    """What is owed of one log: of each topic the positions."""

    broker: str
    topics: dict[str, list[Hole]]

    def with_more(self, topics: Mapping[str, Iterable[Hole]]) -> Owed:
        """And those."""
        names = {*self.topics, *topics}
        return Owed(
            self.broker, {name: list(Holes([*self.topics.get(name, ()), *topics.get(name, ())])) for name in names}
        )

    @property
    def size(self) -> int:
        """So many positions."""
        return sum(each.last - each.first + 1 for ranges in self.topics.values() for each in ranges)

    @property
    def end(self) -> int:
        """After the last of them."""
        return max((each.last + 1 for ranges in self.topics.values() for each in ranges), default=0)

    def split(self, most: int) -> tuple[Owed, Owed]:
        """At most so many of the positions, and the others."""
        first, rest = dict[str, list[Hole]](), dict[str, list[Hole]]()
        for topic, ranges in sorted(self.topics.items()):
            for each in ranges:
                middle = min(each.first + most, each.last + 1)
                most -= middle - each.first
                if middle > each.first:
                    first.setdefault(topic, []).append(Hole(each.first, middle - 1))
                if middle <= each.last:
                    rest.setdefault(topic, []).append(Hole(middle, each.last))
        return Owed(self.broker, first), Owed(self.broker, rest)

    def places(self) -> list[tuple[str, int, str]]:
        """Each message's, as `PLACES`."""
        return [
            (self.broker, position, topic)
            for topic, ranges in sorted(self.topics.items())
            for each in ranges
            for position in range(each.first, each.last + 1)
        ]


def owed(lake: Path) -> dict[str, Owed]:
    """By log id. Raises `OSError`; `ValueError` where the file is damaged."""
    try:
        content: Any = json.loads((lake / FOLDER / _OWED).read_bytes())
    except FileNotFoundError:
        return {}
    return {
        log_id: Owed(
            each["broker"], {topic: [Hole(*pair) for pair in pairs] for topic, pairs in each["topics"].items()}
        )
        for log_id, each in content.items()
    }


def owe(lake: Path, logs: Mapping[str, str], found: pa.Table) -> None:
    """Note what was found in these logs, by broker the id of its log. On disk on return; to be called before the rows
    go that lead there. `found`: `PLACES`."""
    if not logs:
        return
    now = owed(lake)
    for broker, log_id in logs.items():
        there = found.filter(pc.equal(found["broker"], broker))
        more = {topic: ranges_of(each) for topic, each in positions_of(there, "topic").items()}
        now[log_id] = now.get(log_id, Owed(broker, {})).with_more(more)
    _write(lake, now)


def back(lake: Path, broker_url: str) -> dict[str, Owed]:
    """What is owed of logs that can be asked now, by log id, under the names that their brokers have now: `adopt` may
    have given the rows another since, and they come again under this one. Raises `BrokerUnavailable`."""
    left, found = owed(lake), dict[str, Owed]()
    for address in broker_url.split(",") if left else ():
        with closing(LogClient(address)) as client:
            end = client.end()
            debt = left.get(end.log_id)
            if debt is not None:
                found[end.log_id] = debt._replace(broker=end.broker)
    return found


def away(lake: Path, logs: Mapping[str, str], found: Collection[str]) -> list[Owed]:
    """What is owed of all other logs than those, which were `found`, under the names by which the lake has their rows;
    `logs`: by broker the log that its rows are of."""
    now = owed(lake)
    return [
        now[log_id]._replace(broker=broker)  # twice, where a log was adopted, and put back
        for broker, log_id in logs.items()
        if log_id in now and log_id not in found
    ]


def places_of(debts: Iterable[Owed]) -> pa.Table:
    """All of it, as `PLACES`."""
    rows = [dict(zip(PLACES.names, place, strict=True)) for debt in debts for place in debt.places()]
    return pa.Table.from_pylist(rows, PLACES)


def first_of(debts: Mapping[str, Owed], most: int) -> tuple[dict[str, Owed], dict[str, Owed]]:
    """At most so many positions of these debts, and what is left of them then, by log id."""
    first, rest = dict[str, Owed](), dict[str, Owed]()
    for log_id, debt in debts.items():
        first[log_id], left = debt.split(most)
        most -= first[log_id].size
        if left.topics:
            rest[log_id] = left
    return first, rest


def settle(lake: Path, log_ids: Collection[str], left: Mapping[str, Owed] = {}) -> None:
    """It is erased, but for what is `left` of it."""
    if log_ids:
        others = {log_id: debt for log_id, debt in owed(lake).items() if log_id not in log_ids}
        _write(lake, others | dict(left))


def _write(lake: Path, logs: Mapping[str, Owed]) -> None:
    file = lake / FOLDER / _OWED
    files = files_of(file)
    files.make_dirs(file.parent)
    content = {log_id: {"broker": debt.broker, "topics": debt.topics} for log_id, debt in logs.items()}
    files.replace(file, [json.dumps(content).encode()])
    files.sync_above(file)
