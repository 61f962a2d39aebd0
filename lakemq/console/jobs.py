"""What the page of jobs says, of what the broker and the jobs themselves say: what is dead or late first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from lakemq.console.looks import Look
from lakemq.console.shown import Number, duration, duration_ms
from lakemq.model.latest import latest_of

LATE_S = 60.0
"""A job that has yet to read what is older is late."""
STALLED_MS = 10 * 60_000
"""A replay that has sent nothing for so long has been ended half-way."""
HISTORY_SHOWN_MAX = 20
_START = "Start them: lakemq jobs, or lakemq up, which starts them with the broker."


class Problem(NamedTuple):
    """`todo`: what to do about it."""

    text: str
    todo: str


class QueryRow(NamedTuple):
    """A query. `state`: as the jobs say it; `alive` or `silent` where only the broker says something. `age_ms`: since
    when. `last`: its last batch, `last_age_ms` ago; None: there was none. `error`: its last failure, `error_age_ms`
    ago."""

    name: str
    jobs: str
    state: str
    age_ms: Number
    starts: int
    batches: Number
    last: Mapping[str, Any] | None
    last_age_ms: Number
    recent: Sequence[Mapping[str, Any]]
    lag: Number
    behind_s: Number
    error: str
    error_age_ms: Number


class ReplayRow(NamedTuple):
    """A replay. `sent`: None where the broker doesn't tell this user. `state`: done, running, or stopped."""

    topic: str
    group: str
    found: int
    sent: Number
    state: str
    changed_ms: Number


class Jobs(NamedTuple):
    """All of it. `maintenance`: None where the jobs don't tell; `why`: why not. `none`: the broker knows no jobs.
    `now_ms`: by the jobs' clock."""

    problems: Sequence[Problem]
    queries: Sequence[QueryRow]
    maintenance: Mapping[str, Any] | None
    runs: Sequence[Mapping[str, Any]]
    erasures: Sequence[Mapping[str, Any]]
    replays: Sequence[ReplayRow]
    why: str
    none: bool
    now_ms: Number


def jobs_of(look: Look, told: Mapping[str, Any] | None, sinks: Mapping[str, Any] | None, why: str) -> Jobs:
    """What there is to be said. `told`: the answer of `GET /v1/jobs`; `sinks`: those of the broker, by name; None: it
    doesn't tell this user."""
    heard: Mapping[str, Mapping[str, Any]] = look.said.get("jobs") or {}
    if told is None:
        queries = sorted((_heard(look, name, heard[name]) for name in sorted(heard)), key=_rank)
        return Jobs(_problems(look, queries, None, []), queries, None, [], [], [], why, not heard, None)
    now_ms: float = told["now_ms"]
    queries = [_query(look, each, heard, now_ms) for each in told["queries"]]
    covered = {name for each in told["queries"] for name in each["jobs"]} | {"maintenance"}
    queries += [_heard(look, name, heard[name]) for name in sorted(heard) if name not in covered]
    queries.sort(key=_rank)
    replays = [_replay(each, sinks, now_ms) for each in told["replays"]]
    maintenance: Mapping[str, Any] = told["maintenance"]
    runs: list[Mapping[str, Any]] = maintenance["runs"]
    return Jobs(
        _problems(look, queries, maintenance, replays),
        queries,
        maintenance,
        # Also the last one of each job: what that found is said nowhere else.
        latest_of(runs, itemgetter("job"), HISTORY_SHOWN_MAX, 1),
        [each for each in runs if each["job"] == "erase"][:HISTORY_SHOWN_MAX],
        replays,
        why,
        False,
        now_ms,
    )


def _rank(row: QueryRow) -> int:
    """What is dead comes first, then what is late."""
    if row.state in ("failed", "silent"):
        return 0
    return 1 if row.state == "waiting" or (row.lag and (row.behind_s or 0) > LATE_S) else 2


def _heard(look: Look, name: str, job: Mapping[str, Any]) -> QueryRow:
    behind_s = look.one("lakemq_job_behind_seconds", name)
    state = "alive" if job.get("alive") else "silent"
    return QueryRow(name, name, state, None, 0, None, None, None, (), job.get("lag"), behind_s, "", None)


def _query(look: Look, said: Mapping[str, Any], heard: Mapping[str, Any], now_ms: float) -> QueryRow:
    recent: Sequence[Mapping[str, Any]] = said["recent"]
    last = recent[0] if recent else None
    error = said["error"] or {}
    jobs: Sequence[str] = said["jobs"]
    return QueryRow(
        said["query"],
        ", ".join(jobs),
        said["state"],
        now_ms - said["since_ms"],
        said["starts"],
        said["batches"],
        last,
        None if last is None else now_ms - last["ended_ms"],
        recent,
        _most(heard.get(each, {}).get("lag") for each in jobs),
        _most(look.one("lakemq_job_behind_seconds", each) for each in jobs),
        str(error.get("text", "")),
        now_ms - error["at_ms"] if error else None,
    )


def _most(numbers: Iterator[Number]) -> Number:
    known = [each for each in numbers if each is not None]
    return max(known) if known else None


def _replay(said: Mapping[str, Any], sinks: Mapping[str, Any] | None, now_ms: float) -> ReplayRow:
    topic, group, found = str(said["topic"] or ""), str(said["group"] or ""), int(said["found"] or 0)
    if said["finished"]:
        return ReplayRow(topic, group, found, said["sent"], "done", said["written_ms"])
    sink: Mapping[str, Any] = (sinks or {}).get(said["sink"], {})
    changed_ms = max(said["written_ms"], sink.get("changed_ms") or 0)
    sent = None if sinks is None else sink.get("messages", 0)
    state = "stopped" if now_ms - changed_ms > STALLED_MS and sinks is not None else "running"
    return ReplayRow(topic, group, found, sent, state, changed_ms)


def _problems(
    look: Look, queries: Sequence[QueryRow], maintenance: Mapping[str, Any] | None, replays: Sequence[ReplayRow]
) -> list[Problem]:
    found = [*_dead(look), *(problem for each in queries for problem in _of_query(each))]
    for job in [] if maintenance is None else maintenance["jobs"]:
        found += _of_last_run(job["job"], job["last"])
    for each in replays:
        if each.state == "stopped":
            text = f"A replay to {each.topic or 'a topic'} stopped half-way: {each.found:,} messages were found."
            found.append(Problem(text, "Give the same command again: it continues, and sends no message twice."))
    return found


def _dead(look: Look) -> Iterator[Problem]:
    heard: Mapping[str, Mapping[str, Any]] = look.said.get("jobs") or {}
    dead = [name for name in sorted(heard) if not heard[name].get("alive")]
    if dead:
        yield Problem(f"These jobs are silent: {', '.join(dead)}.", f"{_START} Their log says what happened last.")


def _of_query(row: QueryRow) -> Iterator[Problem]:
    if row.state == "failed":
        yield Problem(
            f"The query {row.name} failed {duration_ms(row.error_age_ms)} ago: {row.error or 'it did not say why'}",
            "It restarts automatically. If it keeps failing, the jobs' log has the whole error.",
        )
    elif row.state == "waiting":
        yield Problem(
            f"The query {row.name} has waited {duration_ms(row.age_ms)} for a broker that answers.",
            "Check that the broker is running, and that the jobs have its address and a token (lakemq doctor).",
        )
    elif row.state in ("running", "alive") and row.lag and (row.behind_s or 0) > LATE_S:
        yield Problem(
            f"{row.name} is late: the oldest message that it has yet to read was stored {duration(row.behind_s)} ago.",
            "If its lag shrinks, it is catching up. Otherwise check how long its batches take, and give the jobs more"
            " memory or cores.",
        )


def _of_last_run(name: str, last: Mapping[str, Any] | None) -> Iterator[Problem]:
    if last is None:
        return
    if last["result"] == "failed":
        yield Problem(
            f"The last run of {name} failed: {last['error'] or 'its error is for administrators'}",
            "Fix the cause, then run it again. The jobs' log says more.",
        )
    elif last["result"] == "differs":
        yield Problem(
            f"{name} found differences between the log and the tables.",
            "See its findings under Last runs. Run index-rebuild if only consume_queue or message_index differ.",
        )
