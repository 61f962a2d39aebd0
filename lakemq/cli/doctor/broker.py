"""What a broker says of itself, and what of that is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lakemq.cli.doctor.finding import Finding, Grade
from lakemq.contract.kept import kept_in
from lakemq.contract.sql_routes import WITHHELD
from lakemq.model.named import OTHER
from lakemq.model.names import DEAD_LETTER_PREFIX
from lakemq.model.network import leads_home
from lakemq.model.written import several

CLOCK_S_MAX = 5.0
"""Clocks that differ by more than that make times of delays, retention and tokens doubtful."""
LATE_S = 0.25
"""An event loop that woke so late has kept everybody waiting."""
LATE_SHARE_MAX = 0.001

CERTIFICATE_S_MIN = 14 * 86_400
"""A certificate that is valid for less should have been renewed."""

ADVICE = {
    "the job ": "start the jobs: `lakemq jobs`; what they say last is in their log",
    "nothing can leave the log": "let the jobs run and reach the lake: until then the log grows",
    "what has left the log can't be read": "see whether the lake is mounted and readable for the gateway: lake.dir",
    "the disk fills up": "make room, or let the log be smaller: storage.log_bytes_max, storage.retention_ms",
    "the clock has jumped": "set the clock right (chrony, systemd-timesyncd); it is believed when it stays so",
    "overdue": "start the jobs: `lakemq jobs`; the gateway decides what it can meanwhile",
    "quarantine": "look at the disk (smartctl, dmesg), then remove the files that are named",
    "not registered with the name server": "start that name server, or take it out of fleet.nameservers",
    "nothing is written": "start the followers, or have fewer in sync: replication.min_in_sync",
    "replica ": "start it, or see its own log; if it will not be back: `lakemq broker remove`",
    "this replica ": "see its log, and docs/operate_fleet.md, Lose the store of leaders",
    "the primary can't be followed": "see whether it runs, and whether this machine reaches it",
    "this follower has stopped": "docs/fleet.md explains the message; a follower with an empty folder starts over",
    "another one has come as replica": "two processes have one broker.replica: end one, or number it otherwise",
    "who leads can't be": "see whether the store of leaders answers this machine: fleet.leader, fleet.store",
    "this leader's beat can't be": "see whether the store of leaders answers this machine: fleet.leader, fleet.store",
    "the log was full": "those messages are gone; make room, and let the jobs run",
    "an erasure is not done": "start the jobs: `lakemq jobs`",
}
"""What to do about what a broker says, by how that begins."""
_NO_ROOM = {
    "the disk has": "make room on that disk, but not in the log's folder (docs/operate.md, LakemqDiskFull)",
    "the log has": "let the jobs run, so that the oldest messages can go, or raise storage.log_bytes_max",
}
"""What to do about a log that accepts nothing, by how its reason begins."""
_FAILED = (
    "see the gateway's log, and the disk's errors (dmesg, smartctl); a log whose write or flush failed takes "
    "messages after a start"
)
_ELSE = "see docs/operate.md, and the gateway's log"
OPEN_SQL = "for the jobs set sql_http.host, sql_http.port and sql_http.advertise, or sql_http.enabled = false"
"""What lets others use SQL over HTTP, or says that nobody is to."""
_IF_AWAY = (
    "start it: `lakemq up`, or `lakemq gateway`; the last line of its log says why it ended. "
    "Where it runs elsewhere, name it by --broker"
)
_IF_THERE = "something listens there: see that it is a broker, and the gateway's log; if it hangs, stop and start it"
_STOPS = ("nothing is written", "the log was full", "this follower has stopped")


class Broker(NamedTuple):
    """`problem`: why it doesn't answer, `not_let_in`: who asks, `not_trusted`: its certificate; then there is nothing
    else, but for `is_there`: something took the question for all that. `silent`: what it did not answer, each a reason.
    `unready`: why it takes no messages; empty: it does. `degraded`: what it says is wrong; None: it doesn't tell who
    asks. `ahead_s`: so far this machine's clock is before its; None: not known. `metrics`: samples without a label, by
    name, and `loop_late`, the share of turns that came `LATE_S` late. `certificate_s`: its certificate is valid for so
    long; None: not known. `dead_open`: by group, how many dead letters are open, all others' as `OTHER`; empty: it
    doesn't tell who asks."""

    address: str
    problem: str = ""
    is_there: bool = False
    not_let_in: str = ""
    not_trusted: str = ""
    version: str = ""
    unready: str = ""
    described: Mapping[str, Any] = {}
    degraded: Sequence[str] | None = ()
    topics: Sequence[Mapping[str, Any]] = ()
    groups: Sequence[Mapping[str, Any]] = ()
    metrics: Mapping[str, float] = {}
    dead_open: Mapping[str, float] = {}
    silent: Sequence[str] = ()
    ahead_s: float | None = None
    certificate_s: float | None = None


def is_open(broker: Broker) -> bool:
    """Whether it names an address of SQL that clients on other machines reach."""
    sql = broker.described.get("sql")
    return isinstance(sql, str) and not leads_home(sql)


def findings_of(broker: Broker, version: str) -> Iterator[Finding]:
    """What is wrong with it. `version`: of who asks."""
    if broker.problem:
        do = _IF_THERE if broker.is_there else _IF_AWAY
        yield Finding(Grade.DOWN, broker.address, broker.problem, do)
        return
    if broker.not_let_in or broker.not_trusted:
        do = "name its authority by LAKEMQ_TLS__CA_FILE" if broker.not_trusted else "give a token: --token-file"
        if "expired" in broker.not_trusted:  # as OpenSSL says it
            do = "put a new certificate into the file that tls.cert_file names: it needs no restart"
        yield Finding(Grade.WRONG, broker.address, broker.not_trusted or broker.not_let_in, do)
        return
    for reason in broker.silent:
        yield Finding(Grade.WRONG, broker.address, reason, "ask again; if it stays so, see the gateway's log")
    if broker.unready:
        do = next((each for begin, each in _NO_ROOM.items() if broker.unready.startswith(begin)), _FAILED)
        yield Finding(Grade.DOWN, broker.address, broker.unready, do)
    yield from _told(broker)
    yield from _jobs(broker)
    yield from _dead_letters(broker)
    yield from _consumers(broker)
    yield from _clock_and_version(broker, version)
    yield from _certificate(broker)
    yield from _measured(broker)


def _told(broker: Broker) -> Iterator[Finding]:
    if broker.degraded is None:
        do = "give a token of a user who may List the cluster: --token-file"
        yield Finding(Grade.NOTE, broker.address, "it doesn't tell this user what is wrong with it", do)
    for line in broker.degraded or ():
        do = next((each for begin, each in ADVICE.items() if line.startswith(begin)), _ELSE)
        yield Finding(Grade.DOWN if line.startswith(_STOPS) else Grade.WRONG, broker.address, line, do)


def _jobs(broker: Broker) -> Iterator[Finding]:
    if broker.described.get("role") == "primary" and not broker.described.get("jobs"):
        what = "no jobs are running: delays, retries and transactions are decided late, and the lake gets nothing"
        yield Finding(Grade.WRONG, broker.address, what, "start them: `lakemq jobs`, or all in one: `lakemq up`")
    if broker.described.get(WITHHELD):
        what = "it names no address for SQL to clients on this machine: the jobs answer at a loopback address of theirs"
        yield Finding(Grade.NOTE, broker.address, what, OPEN_SQL)


def _dead_letters(broker: Broker) -> Iterator[Finding]:
    stored: dict[str, int] = {}
    for topic in broker.topics:
        if (name := str(topic["topic"])).startswith(DEAD_LETTER_PREFIX):
            stored[name.removeprefix(DEAD_LETTER_PREFIX)] = sum(map(kept_in, topic["queues"]))
    told = {group: int(count) for group, count in broker.dead_open.items() if group != OTHER}
    for group in sorted({*stored, *told}):
        what = ""
        if told.get(group):
            what = f"group {group} has {several(told[group], 'open dead letter')}"
        elif group not in told and stored.get(group) and broker.dead_open.get(OTHER) != 0:
            why = "metrics don't name this group" if broker.dead_open else "this user may not see metrics"
            what = (
                f"group {group} has {several(stored[group], 'dead letter')}; how many are open is not known, as {why}"
            )
        if what:
            do = f"look at them: `lakemq dead-letters list {group}`; redrive or discard those that are open"
            yield Finding(Grade.NOTE, broker.address, what, do)


def _consumers(broker: Broker) -> Iterator[Finding]:
    for group in broker.groups:
        if group.get("subscriptions_differ"):
            what = f"members of group {group['group']} subscribe in different ways: messages are lost to it"
            yield Finding(
                Grade.WRONG,
                broker.address,
                what,
                f"`lakemq group show {group['group']}` says who; give them all the same",
            )
        if group.get("lag_total") and not group.get("consume_enabled", True):
            what = f"group {group['group']} is paused, and {several(group['lag_total'], 'message')} behind"
            yield Finding(Grade.NOTE, broker.address, what, f"resume it: `lakemq group resume {group['group']}`")
        elif group.get("lag_total") and not group.get("member_count"):
            what = f"group {group['group']} is {several(group['lag_total'], 'message')} behind, and nobody consumes"
            yield Finding(
                Grade.NOTE, broker.address, what, f"start its consumers, or `lakemq group delete {group['group']}`"
            )


def _clock_and_version(broker: Broker, version: str) -> Iterator[Finding]:
    if broker.ahead_s is not None and abs(broker.ahead_s) > CLOCK_S_MAX:
        what = f"its clock and this machine's differ by {abs(broker.ahead_s):.0f} s"
        yield Finding(Grade.WRONG, broker.address, what, "have both set by NTP (chrony, systemd-timesyncd)")
    if broker.version and broker.version != version:
        what = f"it runs lakemq {broker.version}, and this is {version}"
        yield Finding(Grade.NOTE, broker.address, what, "have the same everywhere; followers first, then the leader")


def _certificate(broker: Broker) -> Iterator[Finding]:
    left_s = broker.certificate_s
    if left_s is not None and left_s < CERTIFICATE_S_MIN:
        what = f"its certificate expires in {left_s / 86_400:.1f} days" if left_s > 0 else "its certificate has expired"
        do = "put a new one and its key into the files of tls.cert_file and tls.key_file: it needs no restart"
        yield Finding(Grade.SOON if left_s > 0 else Grade.WRONG, broker.address, what, do)


def _measured(broker: Broker) -> Iterator[Finding]:
    damaged = int(broker.metrics.get("lakemq_damaged_segments", 0))
    if damaged:
        what = f"{damaged} segments of the log are damaged, and nothing stands in for them"
        yield Finding(
            Grade.DOWN,
            broker.address,
            what,
            "`lakemq log verify` says which; docs/operate.md, LakemqDamaged, what then",
        )
    if broker.metrics.get("loop_late", 0.0) > LATE_SHARE_MAX:
        share = broker.metrics["loop_late"]
        what = f"of {1 / share:,.0f} turns of its loop one came {LATE_S:g} s late or more: everybody waits then"
        yield Finding(
            Grade.WRONG,
            broker.address,
            what,
            "give it a core of its own: let the jobs run elsewhere, or with spark.niceness",
        )
