"""A small synchronous client of the HTTP contract.

It holds no state but its connections: no retries, no offsets, no balancing. What a follower doesn't take goes to the
leader that it names; what it answers itself is its own. Every method raises
`LakemqError` with the answer's code, or `Unreachable`. After `Unreachable` a produce may have
been stored or not; the same `idempotency_key` again finds out without storing twice.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import orjson

from lakemq.client import queue_times
from lakemq.client.errors import Unreachable, Untrusted
from lakemq.client.message import Nack, encode_draft
from lakemq.client.operator_requests import OperatorRequests
from lakemq.client.results import (
    OffsetRange,
    Pulled,
    PulledTable,
    Receipt,
    SqlRows,
    Status,
    TableReceipt,
    Transaction,
    TransactionCheck,
)
from lakemq.client.sql_request import check_sql_address, read_sql_rows, sql_request
from lakemq.client.user_api import UserApi
from lakemq.client.view import MessageView, Rows
from lakemq.contract import leader_routes, log_level_routes, routes
from lakemq.contract.forms import ARROW, JSON, NDJSON
from lakemq.contract.route import Target
from lakemq.contract.sql_routes import STATEMENT
from lakemq.model.errors import InvalidRequest, LakemqError, NotLeader
from lakemq.model.message import Draft
from lakemq.model.names import may_follow
from lakemq.model.pull_limit import MESSAGES_PER_PULL_MAX
from lakemq.wire.connections import CONNECT_TIMEOUT_S, Answer, Connections, NoAnswer
from lakemq.wire.credentials import Credentials

if TYPE_CHECKING:
    import pyarrow as pa

Ack = Literal["async", "sync", "none"]
Resolution = Literal["commit", "rollback", "unknown"]
ResetTo = Literal["earliest", "latest", "timestamp"]

HOPS_MAX = 3
"""So often one request goes where an answer sends it."""
_CREATED = 201


class HttpClient(OperatorRequests):
    """One gateway. May be used from several threads; close it, or use it as a context manager.

    `timeout_s` bounds the wait for an answer, on top of what a long poll asks for. `token`: by which it says who it is;
    else that of the environment, or of this machine's administrator, where it is found.
    """

    def __init__(self, url: str, timeout_s: float = 30.0, *, token: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._connections = Connections(url, Credentials(token))
        self._leader: Connections | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()
        if self._leader is not None:
            self._leader.close()

    def produce(
        self,
        topic: str,
        drafts: Iterable[Draft],
        ack: Ack = "async",
        idempotency_key: str | None = None,
    ) -> list[Receipt]:
        """Store messages, all or none; receipts in their order, none with `ack="none"`."""
        body = _dumps({"messages": [encode_draft(draft) for draft in drafts]})
        answer = self._post_messages(topic, JSON, body, ack, idempotency_key)
        return [_receipt(entry) for entry in answer.get("messages", [])]

    def produce_lines(self, topic: str, lines: bytes, ack: Ack = "async") -> list[Receipt]:
        """Store messages that are JSON objects already, one a line; all or none."""
        answer = self._post_messages(topic, NDJSON, lines, ack, None)
        return [_receipt(entry) for entry in answer.get("messages", [])]

    def produce_table(
        self,
        topic: str,
        table: pa.Table,
        ack: Literal["async", "sync"] = "async",
        idempotency_key: str | None = None,
    ) -> TableReceipt:
        """Store a table's rows, all or none; columns as in `lakemq.model.columns.REQUEST`."""
        import pyarrow as pa  # here: who sends no tables need not load it

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        body = sink.getvalue().to_pybytes()
        answer = self._post_messages(topic, ARROW, body, ack, idempotency_key)
        ranges = tuple(
            OffsetRange(entry["queue_id"], entry["first_queue_offset"], entry["count"]) for entry in answer["ranges"]
        )
        return TableReceipt(answer["count"], answer["first_position"], ranges)

    def pull(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int = 32,
        wait_ms: int = 0,
        tags: str = "*",
        sql: str | None = None,
    ) -> Pulled:
        """Messages of a queue from `offset` on, with one of the tags and for which `sql`, an SQL92
        expression over their properties, is true; waits up to `wait_ms` for the first."""
        response = self._pull(topic, queue_id, offset, count_max, wait_ms, tags, sql, JSON)
        answer = _json(response)
        return Pulled(
            status=answer["status"],
            next_offset=answer["next_offset"],
            min_offset=answer["min_offset"],
            max_offset=answer["max_offset"],
            messages=tuple(Rows.of_json(answer["messages"])),
            holes=tuple((begin, end) for begin, end in answer.get("holes", ())),
        )

    def pull_table(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int = MESSAGES_PER_PULL_MAX,
        wait_ms: int = 0,
        tags: str = "*",
        sql: str | None = None,
    ) -> PulledTable:
        """The same as a table; the cheap way to take many."""
        import pyarrow as pa

        response = self._pull(topic, queue_id, offset, count_max, wait_ms, tags, sql, ARROW)
        with pa.ipc.open_stream(response.body) as reader:
            table = reader.read_all()
        headers = response.headers
        return PulledTable(
            status=cast("Status", headers["Lakemq-Status"]),
            next_offset=int(headers["Lakemq-Next-Offset"]),
            min_offset=int(headers["Lakemq-Min-Offset"]),
            max_offset=int(headers["Lakemq-Max-Offset"]),
            table=table,
        )

    def message(self, message_id: str) -> MessageView:
        """One message by its id."""
        return MessageView.of(_json(self._request(routes.MESSAGE.at(message_id))))

    def recall(self, message_id: str) -> None:
        """Recall a scheduled message: it is never delivered. Doing so twice does no harm.

        Raises `AlreadyDelivered`, and `InvalidRequest` for a message that isn't scheduled.
        """
        self._request(routes.RECALL.at(message_id))

    def begin_transactions(self, topic: str, producer_group: str, drafts: Iterable[Draft]) -> list[Transaction]:
        """Store messages that nobody sees yet, each a transaction of its own, in their order."""
        content = _dumps({"messages": [encode_draft(draft) for draft in drafts]})
        answer = self._send(routes.BEGIN.at(topic), content, {"producer_group": producer_group})
        return [Transaction(entry["transaction_id"], entry["message_id"]) for entry in answer["transactions"]]

    def resolve(self, transaction_id: str, producer_group: str, resolution: Resolution) -> None:
        """Say how a transaction ends; the same again is fine. Raises `TransactionResolved` where it
        was resolved the other way."""
        content = _dumps({"producer_group": producer_group, "resolution": resolution})
        self._send(routes.RESOLVE.at(transaction_id), content)

    def resolve_many(self, producer_group: str, resolutions: Mapping[str, Resolution]) -> dict[str, str]:
        """Decide these transactions. Returns the outcome of each: `ok`, or an error's code."""
        listed = [{"transaction_id": name, "resolution": resolution} for name, resolution in resolutions.items()]
        content = _dumps({"producer_group": producer_group, "resolutions": listed})
        answer = self._send(routes.RESOLVE_MANY.at(), content)
        return {entry["transaction_id"]: entry["status"] for entry in answer["results"]}

    def checks(self, producer_group: str, client_id: str, wait_ms: int = 0) -> list[TransactionCheck]:
        """The open transactions that the broker asks this producer group about; waits up to
        `wait_ms` for the first. The answer is `resolve`."""
        target = routes.CHECKS.at(producer_group)
        params = {"client_id": client_id, "wait_ms": wait_ms}
        answer = _json(self._request(target, params=params, wait_s=wait_ms / 1000))
        return [
            TransactionCheck(entry["transaction_id"], entry["check_times"], MessageView.of(entry["message"]))
            for entry in answer["checks"]
        ]

    def nack(self, group: str, nacks: Iterable[Nack], client_id: str | None = None) -> dict[str, str]:
        """Have messages consumed later, all or none; of each id: `ok`, `duplicate` when the group's nack of it was
        there before, or `message_not_found` when only that one was deleted with its topic."""
        messages = [{key: value for key, value in nack._asdict().items() if value is not None} for nack in nacks]
        content: dict[str, Any] = {"messages": messages}
        if client_id is not None:
            content["client_id"] = client_id
        answer = self._send(routes.NACKS.at(group), _dumps(content))
        return {entry["message_id"]: entry["status"] for entry in answer["messages"]}

    def create_topic(
        self, topic: str, queues: int, permission: str = "rw", config: Mapping[str, str | int] | None = None
    ) -> bool:
        """Make a topic or change it (queues only grow); whether it was made. `config`: what is to be said of
        `message_type`, `ttl_ms` and `message_bytes_max`; the rest stays as it is."""
        content = _dumps({"queues": queues, "permission": permission, **(config or {})})
        response = self._request(routes.PUT_TOPIC.at(topic), content=content, headers={"Content-Type": JSON})
        return response.status == _CREATED

    def configure_topic(self, topic: str, config: Mapping[str, str | int]) -> dict[str, Any]:
        """Change that of a topic's configuration that is given; what it is then. Makes the topic if there is none."""
        content = _dumps(dict(config))
        return _json(self._request(routes.PUT_TOPIC.at(topic), content=content, headers={"Content-Type": JSON}))

    def make_topic_by_itself(self, topic: str) -> dict[str, Any]:
        """Make a topic as its first message would; what it is then."""
        return _json(self._request(routes.PUT_TOPIC.at(topic), params={"auto": "true"}))

    def topics(self, system: bool = False) -> list[dict[str, Any]]:
        """All topics, with `system` the system's too."""
        params = {"system": "true"} if system else {}
        return _json(self._request(routes.TOPICS.at(), params=params))["topics"]

    def topic(self, topic: str, times: bool = False) -> dict[str, Any]:
        """One topic with the range of offsets of each of its queues; with `times` also since when they have messages,
        of `TIMED_MAX` queues at most."""
        target, asking = routes.TOPIC.at(topic), queue_times.Asking(times)
        for params in asking.queries():
            asking.take(_json(self._request(target, params=params)))
        return asking.topic

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        self._request(routes.DELETE_TOPIC.at(topic))

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The queue's first offset that was stored at that time or after."""
        target = routes.OFFSET_BY_TIME.at(topic, queue_id)
        return _json(self._request(target, params={"timestamp_ms": timestamp_ms}))["offset"]

    def messages_by_key(
        self, topic: str, key: str, begin_ms: int | None = None, end_ms: int | None = None, count_max: int = 32
    ) -> tuple[list[MessageView], bool]:
        """The newest messages of a topic that have the key and were stored at `begin_ms ≤ t ≤ end_ms`, of log
        and lake, newest first; and whether all was looked at: else there may be older ones."""
        params: dict[str, str | int] = {"topic": topic, "key": key, "max": count_max}
        params |= {} if begin_ms is None else {"begin_ms": begin_ms}
        params |= {} if end_ms is None else {"end_ms": end_ms}
        answer = _json(self._request(routes.MESSAGES_BY_KEY.at(), params=params))
        return list(Rows.of_json(answer["messages"])), answer["complete"]

    def groups(self) -> list[dict[str, Any]]:
        """All consumer groups in short."""
        return _json(self._request(routes.GROUPS.at()))["groups"]

    def group(self, group: str) -> dict[str, Any]:
        """One consumer group: members, subscriptions, lag by queue. Raises `GroupNotFound`."""
        return _json(self._request(routes.GROUP.at(group)))

    def delete_group(self, group: str) -> None:
        """Delete a consumer group with all that it has, its dead letters too. Raises `GroupNotFound`, and
        `GroupInUse` while it has members."""
        self._request(routes.DELETE_GROUP.at(group))

    def reset_offsets(self, group: str, topic: str, to: ResetTo, timestamp_ms: int | None = None) -> dict[int, int]:
        """Move the group's offsets of a topic; returns them by queue id."""
        content: dict[str, Any] = {"topic": topic, "to": to}
        if timestamp_ms is not None:
            content["timestamp_ms"] = timestamp_ms
        answer = self._send(routes.RESET_OFFSETS.at(group), _dumps(content))
        return {entry["queue_id"]: entry["offset"] for entry in answer["offsets"]}

    def broker(self) -> dict[str, Any]:
        """The broker's name, role, version and log positions."""
        return _json(self._request(routes.BROKER.at()))

    def switch(self, replica: int) -> dict[str, Any]:
        """Have that replica lead the broker: returns once it does. Raises what is in the way."""
        return self._send(leader_routes.SWITCH.at(), _dumps({"replica": replica}))

    def elect_unclean(self) -> dict[str, Any]:
        """Have this replica lead with what it has: what others have beyond that is lost. Raises what is in the way."""
        return self._send(leader_routes.ELECT.at(), _dumps({"unclean": True}))

    def remove_replica(self, replica: int) -> dict[str, Any]:
        """Have the broker forget a replica that is gone for good. Raises what is in the way."""
        return self._send(leader_routes.REMOVE.at(), _dumps({"replica": replica}))

    def log_levels(self) -> dict[str, Any]:
        """What its process writes to its log: `levels` by logger, and `back_in_ms` of those that go back by then."""
        return _json(self._request(log_level_routes.LEVELS.at()))

    def set_log_levels(
        self, levels: Mapping[str, str | None], for_ms: int | None = None, of: Literal["broker", "jobs"] = "broker"
    ) -> dict[str, Any]:
        """Change the levels of this replica, or of the jobs that report to it, until they are reset or the process
        ends. Answers as `log_levels`."""
        said = {"levels": dict(levels)} | ({} if for_ms is None else {"for_ms": for_ms})
        said |= {} if of == "broker" else {"of": of}
        return self._send(log_level_routes.PUT_LEVELS.at(), _dumps(said))

    def sql(self, statement: str, rows_max: int | None = None, timeout_ms: int | None = None) -> SqlRows:
        """The rows of one statement that reads, as far as this user may see them, from the jobs that say to this broker
        where they answer. The bounds are what those jobs' settings say, where they aren't given. Raises also
        `InvalidSql`, and `Unreachable` where no jobs answer."""
        asked, address = sql_request(statement, rows_max, timeout_ms), check_sql_address(self.url, self.broker())
        with closing(Connections(address, self._connections.credentials)) as jobs:
            headers = {"Content-Type": JSON}
            answer = self._request(
                STATEMENT.at(), content=asked.content, headers=headers, wait_s=asked.wait_s, asked=jobs
            )
        return read_sql_rows(answer.body, answer.headers)

    @property
    def users(self) -> UserApi:
        """Users, their policies and tokens."""
        return UserApi(self._call)

    def _call(
        self, target: Target, content: Mapping[str, Any] | None, params: Mapping[str, str | int] | None = None
    ) -> dict[str, Any]:
        if content is not None:
            return self._send(target, _dumps(content), params)
        answer = self._request(target, params=params)
        return _json(answer) if answer.body else {}

    def is_ready(self) -> bool:
        """Whether the gateway answers, with its log recovered and writable. Raises `NotTrusted` for a certificate that
        isn't."""
        try:
            return self._connections.ask(routes.READY.at(), timeout_s=CONNECT_TIMEOUT_S).error() is None
        except NoAnswer as error:
            if error.refusal is not None:
                raise error.refusal from None
            return False

    def readiness(self) -> dict[str, Any]:
        """Raises unless it is ready; `degraded` lists its problems nonetheless, for callers that may see them."""
        return _json(self._request(routes.READY.at()))

    def metrics(self) -> str:
        """Its metrics, in Prometheus' text format."""
        return self._request(routes.METRICS.at()).body.decode()

    def _post_messages(
        self, topic: str, content_type: str, body: bytes, ack: Ack, idempotency_key: str | None
    ) -> dict[str, Any]:
        headers = {"Content-Type": content_type}
        if idempotency_key is not None:
            headers["Idempotency-Key"] = f'"{idempotency_key}"'
        response = self._request(routes.PRODUCE.at(topic), content=body, params={"ack": ack}, headers=headers)
        return _json(response) if response.body else {}

    def _send(self, target: Target, content: bytes, params: Mapping[str, str | int] | None = None) -> dict[str, Any]:
        return _json(self._request(target, content=content, params=params, headers={"Content-Type": JSON}))

    def _pull(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        wait_ms: int,
        tags: str,
        sql: str | None,
        accept: str,
    ) -> Answer:
        params: dict[str, str | int] = {"offset": offset, "max": count_max, "wait_ms": wait_ms, "tags": tags}
        if sql is not None:
            params["sql"] = sql
        target = routes.PULL.at(topic, queue_id)
        return self._request(target, params=params, headers={"Accept": accept}, wait_s=wait_ms / 1000)

    def _request(
        self,
        target: Target,
        *,
        content: bytes | None = None,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float = 0.0,
        asked: Connections | None = None,
    ) -> Answer:
        asked = asked or self._connections
        for hop in count():
            try:
                answer = asked.ask(target, params, content, headers, self._timeout_s + wait_s)
            except NoAnswer as error:
                detail = f"no answer from the gateway at {asked.address}: {error}"
                raise (Unreachable(detail, error.sent) if error.refusal is None else Untrusted(detail)) from error
            error = answer.error()
            if error is None:
                return answer
            if hop == HOPS_MAX or not isinstance(error, NotLeader) or not may_follow(asked.address, error.leader):
                raise error
            asked = self._at_leader(error.leader)
        raise AssertionError  # it counts on

    def _at_leader(self, leader: str) -> Connections:
        """Connections to the leader, for requests that this gateway doesn't take."""
        if self._leader is None or self._leader.address != leader:
            if self._leader is not None:
                self._leader.close()
            self._leader = Connections(leader, self._connections.credentials)
        return self._leader


def _dumps(content: object) -> bytes:
    """As JSON. Raises `InvalidRequest` for what that can't say: numbers of more than 64 bits, text that is no UTF-8."""
    try:
        return orjson.dumps(content)
    except TypeError as error:
        raise InvalidRequest(f"this can't be sent: {error}") from None


def _json(answer: Answer) -> dict[str, Any]:
    try:
        return orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        raise LakemqError("the answer is no JSON: is this a lakemq gateway?") from None


def _receipt(entry: Mapping[str, Any]) -> Receipt:
    return Receipt(
        message_id=entry["message_id"],
        queue_id=entry["queue_id"],
        queue_offset=entry["queue_offset"],
        position=entry["position"],
        store_time_ms=entry["store_time_ms"],
    )
