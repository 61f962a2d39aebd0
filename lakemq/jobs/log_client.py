"""One broker's log over HTTP, with nothing but the standard library and Arrow: any worker of a
cluster can read it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakemq.contract import routes
from lakemq.contract.forms import JSON
from lakemq.contract.route import Target
from lakemq.contract.schema_routes import SCHEMAS
from lakemq.jobs.errors import BrokerUnavailable, InvalidOption
from lakemq.model.errors import LakemqError, LogDamaged, LogReplaced, NotLeader, Unauthenticated
from lakemq.model.names import may_follow
from lakemq.model.schema import SchemaVersion, TopicSchemas
from lakemq.model.token import parse_token
from lakemq.storage.log.dropped import Range
from lakemq.wire.connections import Answer, Connections, NoAnswer
from lakemq.wire.credentials import Credentials
from lakemq.wire.name_servers import NameServers

PAGE_BYTES_MAX = 16 * 1024 * 1024
PENDING_PAGE_MAX = 10_000
_ANSWER_WAIT_S_MAX = 60.0
_PAUSE_S_FIRST = 0.05
_PAUSE_S_MAX = 2.0
_HOPS_MAX = 3
"""So often a request goes on at once where it is sent; then only after a pause."""
_TRY_AGAIN = frozenset({429, 502, 503, 504})


@dataclass(frozen=True)
class Subscription:
    """Which topics: `topics`, or those whose whole name matches `pattern`, or all with neither."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None

    def query(self) -> dict[str, str]:
        if self.pattern is not None:
            return {"pattern": self.pattern}
        return {"topics": ",".join(self.topics)} if self.topics else {}


@dataclass(frozen=True)
class LogEnd:
    """Where a broker's log begins and, for a subscription, ends; and the broker's clock.

    `timer_ms`: when the first of what waits to be routed wants a batch, of the kind asked for.
    """

    broker: str
    begin_position: int
    end_position: int
    clock_ms: int
    timer_ms: int | None = None
    log_id: str = ""


class LogClient:
    """A broker's log at `address`. Keeps one connection; not for several threads at once.

    A request that meets a closed door (no connection, 429, 502 to 504) is tried again, with growing pauses, or when a
    quota lets it, for `retry_s` at least; then `BrokerUnavailable` is raised. So is one that meets a replica that
    doesn't lead: at the leader, as soon as it is known; `address` is that one's then, and for all that follows.
    `elsewhere` says where else it may be while there is no answer. `token`: else that of the environment, or of this
    machine's administrator. All requests are idempotent. Picklable until first used.
    """

    def __init__(
        self,
        address: str,
        retry_s: float = 30.0,
        timeout_s: float = _ANSWER_WAIT_S_MAX,
        elsewhere: Callable[[], str | None] | None = None,
        token: str | None = None,
    ) -> None:
        self.address = address
        self.in_trace: dict[str, str] = {}
        """The header by which its requests are in a trace."""
        self._elsewhere = elsewhere
        self._timeout_s = timeout_s
        self._retry_s = retry_s
        self._connections = Connections(address, Credentials(token))

    def end(
        self,
        subscription: Subscription = Subscription(),
        from_position: int | None = None,
        limit: int | None = None,
        wait_ms: int = 0,
        timer: str | None = None,
    ) -> LogEnd:
        """The end of the subscription, at most `limit` of its messages after `from_position`.

        Answered once there is one, or `wait_ms` have passed, or the `timer` (of the routing query
        of that name) is over.
        """
        query = subscription.query()
        if from_position is not None:
            query["from"] = str(from_position)
        if limit is not None:
            query["max"] = str(limit)
        if wait_ms:
            query["wait_ms"] = str(wait_ms)
        if timer is not None:
            query["timer"] = timer
        answer = self.ask(routes.LOG_END.at(), query)
        return LogEnd(
            broker=answer["broker"],
            begin_position=answer["begin_position"],
            end_position=answer["end_position"],
            clock_ms=answer["clock_ms"],
            timer_ms=answer.get("timer_ms"),
            log_id=answer.get("log_id", ""),
        )

    def messages(
        self, begin: int, end: int, subscription: Subscription, columns: list[str], log_id: str = ""
    ) -> tuple[pa.Table, int]:
        """A page of the messages with begin ≤ position < end, and where the next page begins. Raises
        `LogReplaced` when they are of another log than `log_id`, unless that is empty."""
        query = subscription.query()
        query |= {"from": str(begin), "to": str(end), "columns": ",".join(columns)}
        query["bytes_max"] = str(PAGE_BYTES_MAX)
        answer = self._ask(routes.LOG_MESSAGES.at(), query)
        headers = answer.headers
        check_same_log(self.address, log_id, headers["Lakemq-Log-Id"])
        next_position = int(headers["Lakemq-Next-Position"])
        if not begin < next_position <= end:
            raise LakemqError(f"{self.address} answered {next_position} as next of {begin} to {end}")
        return pa.ipc.open_stream(pa.py_buffer(answer.body)).read_all(), next_position

    def frames(self, begin: int, end: int, log_id: str = "") -> bytes:
        """Frames as they stand in the log, from the one that holds position `begin` on, none that begins at `end` or
        beyond, unchecked. Raises `LogReplaced` as `messages` does, and `LogDamaged`, at once, where a file isn't
        whole: `messages` may have them from elsewhere."""
        query = {"from": str(begin), "to": str(end), "bytes_max": str(PAGE_BYTES_MAX)}
        answer = self._ask(routes.LOG_FRAMES.at(), query, told_at_once=(LogDamaged,))
        check_same_log(self.address, log_id, answer.headers["Lakemq-Log-Id"])
        return answer.body

    def pending(
        self, kind: str, due_from_ms: int, due_to_ms: int, log_id: str = "", page_max: int = PENDING_PAGE_MAX
    ) -> Iterator[pa.Table]:
        """Pages of what of the kind waits to be decided, is due at `due_from_ms ≤ t < due_to_ms`, and began before the
        call: rows of the system topics with control columns alone. Raises `LogReplaced` as `messages` does."""
        query = {"kind": kind, "due_from_ms": str(due_from_ms), "due_to_ms": str(due_to_ms), "max": str(page_max)}
        following: str | None = "-1"
        while following is not None:
            answer = self._ask(routes.PENDING.at(), query | {"after": following})
            headers = answer.headers
            check_same_log(self.address, log_id, headers["Lakemq-Log-Id"])
            yield pa.ipc.open_stream(pa.py_buffer(answer.body)).read_all()
            following = headers.get("Lakemq-Next-Cause")

    def position_at(self, timestamp_ms: int) -> int:
        """The first position stored at or after that time."""
        return int(self.ask(routes.LOG_POSITION.at(), {"timestamp_ms": str(timestamp_ms)})["position"])

    def topics(self) -> list[str]:
        """The names of all topics, system topics too."""
        return [each["topic"] for each in self.ask(routes.TOPICS.at(), {"system": "true"})["topics"]]

    def schemas(self, topic: str | None = None) -> dict[str, tuple[SchemaVersion, ...]]:
        """By topic, all versions of its schema, oldest first; of topics that have one, or of that one alone."""
        return {name: each.versions for name, each in self.topic_schemas(topic).items()}

    def topic_schemas(self, topic: str | None = None) -> dict[str, TopicSchemas]:
        """The same, with what else is said of them."""
        names = SchemaVersion._fields
        found: dict[str, TopicSchemas] = {}
        for each in self.ask(SCHEMAS.at(), {} if topic is None else {"topic": topic})["schemas"]:
            versions = tuple(
                SchemaVersion(**{name: version["schema" if name == "text" else name] for name in names})
                for version in each["versions"]
            )
            found[each["topic"]] = TopicSchemas(versions, versions[-1].version, each.get("table", False))
        return found

    def queue_ends(self, topic: str) -> dict[int, tuple[int, int]]:
        """By queue, the first offset that is in the log still, and its end."""
        answer = self.ask(routes.TOPIC.at(topic))
        queues = answer["queues"]
        return {each["queue_id"]: (each["log_min_offset"], each["max_offset"]) for each in queues}

    def position_of(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """The log position of a queue's message; None when there is no message there."""
        answer = self.ask(routes.PULL.at(topic, queue_id), {"offset": str(queue_offset), "max": "1"})
        found = answer["messages"]
        return int(found[0]["position"]) if found else None

    def end_of_log(self) -> int:
        """Just after the last message that is stored, of whatever topic."""
        answer = self.ask(routes.BROKER.at())
        return int(answer.get("positions", answer)["max_position"])

    def dropped(self) -> list[Range]:
        """What left the log before the lake held it, as the log was full; ascending."""
        ranges = self.ask(routes.BROKER.at())["lake"]["dropped"]
        return [(begin, end) for begin, end in ranges]

    def put_jobs(
        self, beats: Sequence[dict[str, Any]], sql: str | None = None, log_levels: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Tells the broker which jobs are alive, where they answer SQL, if they do, and what they write to their log,
        if it asks. Its name, and what they are to write."""
        content: dict[str, Any] = {"jobs": list(beats)}
        content |= {} if sql is None else {"sql": sql}
        return self.send(routes.HEAR_JOBS.at(), content | ({} if log_levels is None else {"log_levels": log_levels}))

    def put_compacted(self, position: int) -> None:
        """Tells the broker that every table holds all below `position`."""
        self.send(routes.COMPACTED.at(), {"compacted_position": position})

    def erase(self, positions: Sequence[int]) -> int:
        """Makes holes of these positions, in order; how many held a message. Durable on return."""
        return int(self.send(routes.ERASE.at(), {"positions": list(positions)})["erased"])

    def routing(self) -> dict[str, Any]:
        """What the broker has pending, and the settings that decisions depend on."""
        return self.ask(routes.ROUTING.at())

    def post_decisions(
        self,
        log_id: str,
        epoch: int,
        causes: Sequence[int],
        actions: Sequence[str],
        dues_ms: Sequence[int | None],
    ) -> None:
        """What becomes of the messages at these positions of that log; returns once that is durable. Raises
        `LogReplaced`, with nothing done, when the broker's log or its epoch is another one."""
        body = {"log_id": log_id, "epoch": epoch, "cause": causes, "action": actions, "due_ms": dues_ms}
        self.send(routes.DECIDE.at(), body)

    def ask(self, target: Target, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The JSON answer to a request without a body."""
        return json.loads(self._ask(target, query).body)

    def send(self, target: Target, content: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON answer to a request with JSON that is idempotent."""
        return self.send_bytes(target, json.dumps(content).encode(), JSON)

    def send_bytes(
        self, target: Target, body: bytes, kind: str, query: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The JSON answer to a request with a body of that media type."""
        return json.loads(self._ask(target, query, body, kind).body)

    def close(self) -> None:
        self._connections.close()

    def _ask(
        self,
        target: Target,
        query: Mapping[str, str] | None,
        body: bytes | None = None,
        kind: str = JSON,
        told_at_once: tuple[type[LakemqError], ...] = (),
    ) -> Answer:
        headers = {"Content-Type": kind} if body is not None else {}
        headers |= self.in_trace
        give_up = time.monotonic() + self._retry_s
        pause_s = _PAUSE_S_FIRST
        hops = 0
        while True:
            said_s = 0
            try:
                answer = self._connections.ask(target, query, body, headers, self._timeout_s)
            except NoAnswer as error:
                if self._elsewhere is not None and self._goes_to(self._elsewhere() or "") and hops < _HOPS_MAX:
                    hops += 1
                    continue
                reason = _reason_of(error)
            else:
                refusal = answer.error(self.address)
                if refusal is None:
                    return answer
                if isinstance(refusal, NotLeader):
                    if self._goes_to(refusal.leader) and hops < _HOPS_MAX:
                        hops += 1
                        continue
                elif answer.status not in _TRY_AGAIN or isinstance(refusal, told_at_once):
                    raise refusal
                said_s = refusal.retry_after_s
                reason = refusal.detail if said_s else f"status {answer.status}"
            if time.monotonic() + said_s >= give_up:
                raise BrokerUnavailable(f"no answer from the broker at {self.address}: {reason}")
            time.sleep(max(pause_s, said_s))
            pause_s, hops = min(2 * pause_s, _PAUSE_S_MAX), 0

    def _goes_to(self, leader: str) -> bool:
        """Whether the broker is to be asked there from now on: it was said that it is led from there."""
        if not may_follow(self.address, leader):
            return False
        self._connections.close()
        self.address, self._connections = leader, Connections(leader, self._connections.credentials)
        return True


def _reason_of(error: NoAnswer) -> str:
    """Why there was no answer. Raises what says that asking again can't help."""
    if error.refusal is not None:
        raise error.refusal from None
    return str(error)


def check_same_log(address: str, wanted: str, log_id: str) -> None:
    """Raises `LogReplaced` when what a broker answered is of another log than that which was asked for."""
    if wanted and log_id != wanted:
        raise LogReplaced(
            f"the log of the broker at {address} is {log_id} now, and what is read is of {wanted}: its positions mean"
            " other messages"
        )


def check_token(token: str) -> None:
    """Raises `InvalidOption` for an option that is no token, without showing it."""
    try:
        parse_token(token.strip())
    except Unauthenticated as error:
        raise InvalidOption(f"option 'token' can't be that: {error.detail}") from None


def find_brokers(nameservers: Sequence[str], retry_s: float) -> dict[str, str]:
    """The brokers that name servers know: the address of each one's primary, by its name. Raises `BrokerUnavailable`
    when no name server answers within `retry_s`, and at once where one refuses for good."""
    with closing(NameServers(nameservers)) as names:
        end_s = time.monotonic() + retry_s
        while True:
            try:
                return names.primaries()
            except NoAnswer as error:
                if error.refusal is not None:
                    raise error.refusal from None
                if time.monotonic() > end_s:
                    raise BrokerUnavailable(str(error)) from None
            time.sleep(_PAUSE_S_MAX / 4)
