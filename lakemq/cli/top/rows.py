"""What is shown, of what was seen of all brokers: numbers by broker, topic, group and job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lakemq.cli.top.seen import GROUP_LAG, TOPIC_IN, Seen

Number = float | None
"""None: nobody knows."""


class Watched(NamedTuple):
    """One broker's replica: the last two looks at it, if there were any; `late_s`: for so long an answer is awaited."""

    address: str
    broker: str = ""
    replica: int | None = None
    now: Seen | None = None
    before: Seen | None = None
    late_s: float = 0.0

    @property
    def problem(self) -> str:
        """Why nothing is known of now; empty: it is."""
        if self.now is None:
            return f"no answer for {self.late_s:.0f} s" if self.late_s else "asked"
        return self.now.problem or (f"no answer for {self.late_s:.0f} s" if self.late_s else "")

    @property
    def answers(self) -> Seen | None:
        """What it says now; None: nothing."""
        return None if self.problem else self.now

    def rate(self, value: Callable[[Seen], Number]) -> Number:
        """Of what is counted, so much a second between the two looks; a count that began anew begins at 0."""
        now, before = self.answers, self.before
        if now is None or before is None or before.problem or now.at_s <= before.at_s:
            return None
        count, base = value(now), value(before)
        if count is None or base is None:
            return None
        return (count if count < base else count - base) / (now.at_s - before.at_s)


class BrokerRow(NamedTuple):
    """A replica. `loop_ms`: how late its event loop was on average; `disk`: the share of its disk that is used."""

    broker: str
    replica: int | None
    address: str
    role: str
    problem: str
    epoch: int | None
    in_sync: str
    lag: Number
    disk: Number
    full_in_s: Number
    loop_ms: Number
    connections: Number
    messages_in: Number
    messages_out: Number


class TopicRow(NamedTuple):
    """So much a second."""

    topic: str
    messages_in: Number
    messages_out: Number
    bytes_in: Number
    bytes_out: Number


class GroupRow(NamedTuple):
    """`dead`: dead letters that are open."""

    group: str
    members: Number
    lag: Number
    oldest_s: Number
    retries: Number
    dead: Number


class JobRow(NamedTuple):
    """A job, as a broker hears of it."""

    broker: str
    job: str
    alive: bool
    lag: Number
    behind_s: Number
    heard_s: Number


def broker_rows(watched: Iterable[Watched]) -> list[BrokerRow]:
    """In the order of their names."""
    rows = [_broker_row(each) for each in watched]
    return sorted(rows, key=lambda row: (row.broker, -1 if row.replica is None else row.replica, row.address))


def _broker_row(each: Watched) -> BrokerRow:
    seen = each.answers
    if seen is None:
        return BrokerRow(each.broker, each.replica, each.address, "", each.problem, None, "", *[None] * 7)
    said = seen.described
    free, size = seen.one("lakemq_disk_free_bytes"), seen.one("lakemq_disk_bytes")
    late_s, turns = each.rate(_named("lakemq_loop_lag_seconds_sum")), each.rate(_named("lakemq_loop_lag_seconds_count"))
    return BrokerRow(
        str(said.get("name", each.broker)),
        said.get("replica", each.replica),
        each.address,
        str(said.get("role", "")),
        "",
        said.get("epoch"),
        _in_sync(said),
        said.get("follower_lag"),
        None if free is None or not size else 1 - free / size,
        seen.one("lakemq_disk_full_in_seconds"),
        None if late_s is None or not turns else late_s / turns * 1000,
        seen.one("lakemq_connections"),
        each.rate(_named("lakemq_messages_in_total")),
        each.rate(_named("lakemq_messages_out_total")),
    )


def _in_sync(said: Mapping[str, Any]) -> str:
    """Numbers of replicas, written as in their names, or that there is but the leader: a 0 would read as none."""
    in_sync: list[int] = said.get("in_sync") or []
    if in_sync == [said.get("replica")] and said.get("role") == "primary":
        return "alone"
    return ",".join(f"/{each}" for each in in_sync)


def topic_rows(watched: Sequence[Watched], sort: str) -> list[TopicRow]:
    """By `in`, `out`, `bytes` or `name`."""
    names = {name for each in watched if each.answers is not None for name in _topics_of(each.answers)}
    rows = [
        TopicRow(
            name,
            _sum(watched, lambda each, name=name: each.rate(lambda seen: _messages_in(seen, name))),
            *(
                _sum(watched, lambda each, name=name, metric=metric: each.rate(_named(metric, name)))
                for metric in ("lakemq_topic_messages_out_total", "lakemq_topic_bytes_in_total",
                               "lakemq_topic_bytes_out_total")
            ),
        )
        for name in names
    ]  # fmt: skip
    by: dict[str, Callable[[TopicRow], float]] = {
        "in": lambda row: row.messages_in or 0,
        "out": lambda row: row.messages_out or 0,
        "bytes": lambda row: (row.bytes_in or 0) + (row.bytes_out or 0),
        "name": lambda _: 0,
    }
    return sorted(rows, key=lambda row: (-by[sort](row), row.topic))


def _topics_of(seen: Seen) -> Iterable[str]:
    return {*seen.samples.get(TOPIC_IN, ()), *seen.samples.get("lakemq_topic_messages_out_total", ()), *seen.stored}


def _messages_in(seen: Seen, topic: str) -> Number:
    counted = seen.one(TOPIC_IN, topic)
    return seen.stored.get(topic) if counted is None else counted


def group_rows(watched: Sequence[Watched], sort: str) -> list[GroupRow]:
    """By `lag`, `oldest`, `retries`, `dead` or `name`: as those who lead know them."""
    leading = [each for each in watched if each.answers is not None and each.answers.leads]
    names = {name for each in leading if each.now is not None for name in _groups_of(each.now)}
    rows = [
        GroupRow(
            name,
            _sum(leading, lambda each, name=name: _now(each, "lakemq_group_members", name)),
            _sum(leading, lambda each, name=name: _lag_of(each, name)),
            _most(leading, lambda each, name=name: _now(each, "lakemq_group_oldest_unconsumed_seconds", name)),
            _sum(leading, lambda each, name=name: _now(each, "lakemq_group_retries_waiting", name)),
            _sum(leading, lambda each, name=name: _now(each, "lakemq_group_dead_letters_open", name)),
        )
        for name in names
    ]
    by: dict[str, Callable[[GroupRow], float]] = {
        "lag": lambda row: row.lag or 0,
        "oldest": lambda row: row.oldest_s or 0,
        "retries": lambda row: row.retries or 0,
        "dead": lambda row: row.dead or 0,
        "name": lambda _: 0,
    }
    return sorted(rows, key=lambda row: (-by[sort](row), row.group))


def _groups_of(seen: Seen) -> Iterable[str]:
    return {*seen.samples.get(GROUP_LAG, ()), *seen.samples.get("lakemq_group_members", ()), *seen.lags}


def _lag_of(each: Watched, group: str) -> Number:
    counted = _now(each, GROUP_LAG, group)
    return counted if counted is not None or each.now is None else each.now.lags.get(group)


def job_rows(watched: Iterable[Watched]) -> list[JobRow]:
    """As each broker that leads hears of them."""
    rows: list[JobRow] = []
    for each in watched:
        seen = each.answers
        if seen is None or not seen.leads:
            continue
        jobs: Mapping[str, Mapping[str, Any]] = seen.described.get("jobs", {})
        broker = str(seen.described.get("name", ""))
        for name, job in jobs.items():
            behind_s = seen.one("lakemq_job_behind_seconds", name)
            rows.append(JobRow(broker, name, job["alive"], job["lag"], behind_s, job["heard_s"]))
    return sorted(rows, key=lambda row: (row.broker, row.job))


def _named(metric: str, label: str = "") -> Callable[[Seen], Number]:
    return lambda seen: seen.one(metric, label)


def _now(each: Watched, metric: str, label: str) -> Number:
    return None if each.answers is None else each.answers.one(metric, label)


def _known(watched: Iterable[Watched], value: Callable[[Watched], Number]) -> list[float]:
    return [found for each in watched if (found := value(each)) is not None]


def _sum(watched: Iterable[Watched], value: Callable[[Watched], Number]) -> Number:
    found = _known(watched, value)
    return sum(found) if found else None


def _most(watched: Iterable[Watched], value: Callable[[Watched], Number]) -> Number:
    return max(_known(watched, value), default=None)
