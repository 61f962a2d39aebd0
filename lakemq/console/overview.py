"""What the overview says, of what brokers have said: problems first, each with what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lakemq.console.looks import Look, Pair
from lakemq.console.shown import Number, count, duration, share

GROUPS_SHOWN_MAX = 10
OTHER = "other"
"""What metrics call all groups together that they don't tell by name."""
PROBLEMS_SHOWN_MAX = 30
DISK_FULL = 0.9
DISK_SOON_S = 24 * 3600
WAITING = {
    "delay": "scheduled, including retries",
    "transaction": "open transactions",
    "nack": "retries to decide",
    "receipt": "handed out, not acknowledged",
    "dead_letter": "dead letters",
}


class Problem(NamedTuple):
    """`broker`: where; `todo`: what to do about it; `link`: a page that shows more; empty: there is none."""

    broker: str
    text: str
    todo: str
    link: str = ""


class BrokerRow(NamedTuple):
    """A replica."""

    name: str
    replica: int | None
    address: str
    role: str
    problem: str
    version: str
    in_sync: str
    follower_lag: Number
    messages_in: Number
    messages_out: Number
    bytes_in: Number
    bytes_out: Number
    connections: Number
    log_bytes: Number
    disk: Number
    disk_free: Number
    full_in_s: Number


class JobRow(NamedTuple):
    """A job, as it reports to the broker. `behind_s`: the least age of what it has yet to read."""

    broker: str
    job: str
    alive: bool
    lag: Number
    behind_s: Number


class GroupRow(NamedTuple):
    """One of those that are furthest behind."""

    broker: str
    group: str
    lag: Number
    oldest_s: Number
    members: Number
    dead: Number
    paused: Number = None


class WaitRow(NamedTuple):
    """What waits, of a kind."""

    kind: str
    label: str
    waiting: Number
    overdue: Number


class LakeRow(NamedTuple):
    """How far a broker's lake holds everything. `behind_s`: how long ago what it lacks was stored, at least."""

    broker: str
    lacks: Number
    behind_s: Number


class Overview(NamedTuple):
    """All of it. `silent`: brokers that don't tell this user their metrics."""

    problems: Sequence[Problem]
    more_problems: int
    brokers: Sequence[BrokerRow]
    jobs: Sequence[JobRow]
    groups: Sequence[GroupRow]
    waits: Sequence[WaitRow]
    lakes: Sequence[LakeRow]
    messages_in: Number
    messages_out: Number
    lag: Number
    silent: Sequence[str]


def overview_of(pairs: Sequence[Pair]) -> Overview:
    """What there is to be said."""
    looks = [each.now for each in pairs]
    leading = [each for each in looks if each.leads]
    problems = [problem for look in looks for problem in problems_of(look)]
    groups = [row for look in leading for row in _groups(look) if row.group != OTHER or row.lag]
    lags = [row.lag for row in groups if row.lag is not None]
    return Overview(
        problems[:PROBLEMS_SHOWN_MAX],
        max(len(problems) - PROBLEMS_SHOWN_MAX, 0),
        [_broker(each) for each in pairs],
        [row for look in leading for row in _jobs(look)],
        sorted(groups, key=lambda row: (-(row.lag or 0), -(row.dead or 0), row.group))[:GROUPS_SHOWN_MAX],
        _waits(leading),
        [_lake(look) for look in leading if not look.silent],
        _sum(each.rate("lakemq_messages_in_total") for each in pairs),
        _sum(each.rate("lakemq_messages_out_total") for each in pairs),
        sum(lags) if lags else (0 if leading and not any(each.silent for each in leading) else None),
        [look.name for look in looks if look.silent],
    )


def _broker(pair: Pair) -> BrokerRow:
    look = pair.now
    said = look.said
    free, whole = look.one("lakemq_disk_free_bytes"), look.one("lakemq_disk_bytes")
    in_sync: list[int] = said.get("in_sync") or []
    return BrokerRow(
        look.name,
        said.get("replica"),
        look.address,
        str(said.get("role", "")),
        look.problem,
        str(said.get("version", "")),
        ", ".join(map(str, in_sync)) if len(in_sync) > 1 else "",
        said.get("follower_lag"),
        pair.rate("lakemq_messages_in_total"),
        pair.rate("lakemq_messages_out_total"),
        pair.rate("lakemq_bytes_in_total"),
        pair.rate("lakemq_bytes_out_total"),
        look.one("lakemq_connections"),
        look.one("lakemq_log_bytes"),
        None if free is None or not whole else 1 - free / whole,
        free,
        look.one("lakemq_disk_full_in_seconds"),
    )


def _jobs(look: Look) -> Iterator[JobRow]:
    jobs: Mapping[str, Mapping[str, Any]] = look.said.get("jobs") or {}
    for name in sorted(jobs):
        job = jobs[name]
        yield JobRow(
            look.name, name, bool(job.get("alive")), job.get("lag"), look.one("lakemq_job_behind_seconds", name)
        )


def _groups(look: Look) -> Iterator[GroupRow]:
    for name, lag in look.samples.get("lakemq_group_lag_messages", {}).items():
        yield GroupRow(
            look.name,
            name,
            lag,
            look.one("lakemq_group_oldest_unconsumed_seconds", name),
            look.one("lakemq_group_members", name),
            look.one("lakemq_group_dead_letters_open", name),
            look.one("lakemq_group_paused", name),
        )


def _waits(looks: Sequence[Look]) -> list[WaitRow]:
    return [
        WaitRow(
            kind,
            label,
            _sum(each.one("lakemq_waiting", kind) for each in looks),
            _sum(each.one("lakemq_overdue", kind) for each in looks),
        )
        for kind, label in WAITING.items()
    ]


def _lake(look: Look) -> LakeRow:
    return LakeRow(look.name, look.one("lakemq_uncompacted_messages"), look.one("lakemq_uncompacted_seconds"))


def _sum(numbers: Iterable[Number]) -> Number:
    known = [each for each in numbers if each is not None]
    return sum(known) if known else None


def problems_of(look: Look) -> Iterator[Problem]:
    """What is wrong, the worst first."""
    if look.problem:
        yield Problem(
            look.address,
            f"The broker doesn't answer: {look.problem}",
            "Check that its process is running, and what its log says. lakemq doctor checks the machine.",
        )
        return
    name = look.name
    if look.one("lakemq_writable") == 0:
        yield Problem(
            name,
            "The log accepts no messages.",
            "Its disk is full or has failed. Free some space, then look at the broker's log.",
        )
    if look.one("lakemq_too_few_replicas") == 1:
        yield Problem(
            name,
            "Too few replicas are in sync, so nothing can be written.",
            "Start the missing followers, or lower replication.min_in_sync.",
        )
    yield from _disk(look)
    yield from _dead_jobs(look)
    yield from _told(look)
    for kind, label in WAITING.items():
        if late := look.one("lakemq_overdue", kind):
            yield Problem(
                name,
                f"Overdue: {count(late)} {label}.",
                "The routing job decides these. Check that the jobs are running (lakemq jobs).",
            )
    yield from _stuck_groups(look)


_ELSEWHERE = ("the job ", "overdue: ")
"""How lines of a broker begin that say what is said here of jobs, and of what waits."""
_DISK_FILLS = "the disk fills up"
_FREE_SOME = "Free or add some space. storage.retention_ms is how long the log keeps messages that the lake has too."
_TODO = {
    _DISK_FILLS: _FREE_SOME,
    "nothing can leave the log": "Start the jobs (lakemq jobs), which write the lake, and check their log.",
    "what has left the log can't be read": "Check that the lake is mounted, and that the gateway may read it.",
    "the clock has jumped": "Correct the machine's clock. Nothing is lost in the meantime.",
}


def _told(look: Look) -> Iterator[Problem]:
    """What the broker itself says."""
    for line in look.degraded or ():
        if not line.startswith(_ELSEWHERE):
            todo = next((each for begins, each in _TODO.items() if line.startswith(begins)), None)
            said = f"{line[:1].upper()}{line[1:]}{'' if line.endswith('?') else '.'}"
            yield Problem(look.name, said, todo or "The broker's log says when it began; docs/operate.md has more.")


def _disk(look: Look) -> Iterator[Problem]:
    if any(line.startswith(_DISK_FILLS) for line in look.degraded or ()):
        return
    free, whole = look.one("lakemq_disk_free_bytes"), look.one("lakemq_disk_bytes")
    full_in_s = look.one("lakemq_disk_full_in_seconds")
    used = None if free is None or not whole else 1 - free / whole
    is_soon = full_in_s is not None and full_in_s < DISK_SOON_S
    if (used is not None and used >= DISK_FULL) or is_soon:
        when = f", and full in about {duration(full_in_s)} at this pace" if is_soon else ""
        yield Problem(
            look.name,
            f"The log's disk is {share(used)} full{when}.",
            _FREE_SOME,
        )


def _dead_jobs(look: Look) -> Iterator[Problem]:
    if not look.leads:
        return
    jobs: Mapping[str, Mapping[str, Any]] = look.said.get("jobs") or {}
    dead = [name for name in sorted(jobs) if not jobs[name].get("alive")]
    if dead:
        yield Problem(
            look.name,
            f"Jobs are silent: {', '.join(dead)}.",
            "Start them again: lakemq jobs, or lakemq up, which restarts them automatically.",
        )


def _stuck_groups(look: Look) -> Iterator[Problem]:
    for row in _groups(look):
        if row.group == OTHER:
            continue
        if row.lag and row.paused:
            text = f"Group {row.group} is paused, and has a lag of {count(row.lag)}."
            yield Problem(
                look.name, text, "Resume it on its page when its consumers may continue.", f"/groups/{row.group}"
            )
        elif row.lag and not row.members and (row.oldest_s or 0) > 60:
            text = f"Group {row.group} has no consumers, and a lag of {count(row.lag)}."
            yield Problem(
                look.name, text, "Start its consumers, or delete the group if it isn't needed.", f"/groups/{row.group}"
            )
        if row.dead:
            text = f"Group {row.group} has {count(row.dead)} dead letter{'' if row.dead == 1 else 's'}."
            link = f"/groups/{row.group}/dead-letters"
            yield Problem(look.name, text, "Find out why they failed, then redrive or discard them.", link)
