"""A client of Spark Connect that only runs SQL, and starts in a tenth of the time of PySpark's.

It speaks the part of Spark's protocol (`spark/connect/base.proto`, stable by Spark's promise) that a
statement takes: a plan of just the text goes there, Arrow comes back. Nothing of PySpark is imported.
"""

from __future__ import annotations

import contextlib
import getpass
import re
import time
import uuid
from collections.abc import Iterator
from itertools import chain
from types import TracebackType
from typing import Any, Self

import grpc
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from lakemq.jobs.errors import InvalidStatement
from lakemq.jobs.session.discovery import Server
from lakemq.jobs.sql.place import place_in
from lakemq.jobs.sql.result import Result
from lakemq.model.errors import LakemqError, SettingsError

_PACKAGE = "lakemq.connect"
_SERVICE = "/spark.connect.SparkConnectService"
_RELEASE_S_MAX = 2.0
_NEW_TABLE_S = 8.0
_LOOK_AGAIN_S = 0.3
_NO_TOPIC = "The table or view `topics`."
"""What Spark says of a topic's table that it doesn't find, before anything of the statement runs."""
_KINDS = {"string": 9, "bytes": 12, "int64": 3}  # FieldDescriptorProto.Type
_MESSAGE = 11
_RAISED = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)", re.MULTILINE)
_BYPASS = " If necessary set "
"""Begins advice to set Spark's settings, which a statement can't."""
_HINTS = (
    ('"VARIANT"', "Cast it: body_json(body):amount::double"),
    ("or view `topics`.", "A topic is a table once it has a schema: lakemq topic schema infer"),
    ("`try_variant_get`", "Of a body: try_variant_get(body_json(body), '$.amount', 'double'), which is NULL there"),
)
"""Of a field of `body_json` that is added or compared as it is, or that some body has with another type, and of a topic
without a schema: what Spark's words have then, and what helps."""
_FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "User": {"user_id": (1, "string"), "user_name": (2, "string")},
    "Sql": {"query": (1, "string")},
    "Relation": {"sql": (10, "Sql")},
    "Plan": {"root": (1, "Relation")},
    "Execute": {
        "session_id": (1, "string"),
        "user_context": (2, "User"),
        "plan": (3, "Plan"),
        "client_type": (4, "string"),
        "operation_id": (6, "string"),
    },
    "ArrowBatch": {"row_count": (1, "int64"), "data": (2, "bytes")},
    "Executed": {"arrow_batch": (2, "ArrowBatch")},
    "Release": {"session_id": (1, "string"), "user_context": (2, "User")},
    "Released": {},
}
"""Of Spark's messages the fields that are needed here, by their numbers there: a name does not travel."""


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="lakemq/connect.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field_name, (number, kind) in fields.items():
            field: Any = message.field.add(name=field_name, number=number, label=1)
            field.type = _KINDS.get(kind, _MESSAGE)
            if kind in _FIELDS:
                field.type_name = f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # pyright: ignore[reportAttributeAccessIssue]
    find = pool.FindMessageTypeByName
    return {name: message_factory.GetMessageClass(find(f"{_PACKAGE}.{name}")) for name in _FIELDS}


class ConnectClient:
    """A session at a server; a context manager, because the server keeps a session for an hour."""

    def __init__(self, server: Server, token: str) -> None:
        host, port = server.address
        self._server = server
        self._messages = _messages()
        self._metadata = [("authorization", f"Bearer {token}")]
        user = self._messages["User"](user_id=_user_name(), user_name=_user_name())
        self._session = {"session_id": str(uuid.uuid4()), "user_context": user}
        # A message may be as large as a row, and bodies are. And no proxy is told the token.
        options = [("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0)]
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._channel: Any = grpc.insecure_channel(target, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def run(self, statement: str) -> Result:
        """Runs one statement of Spark SQL; of a command, the rows are what it tells.

        A topic's table that isn't there is waited for: it comes some seconds after its schema was set. Raises
        `InvalidStatement` with Spark's complaint in one line and where it is, `SettingsError` when the server wants
        another token, and `LakemqError` when it is gone; while rows are taken too.
        """
        until_s = time.monotonic() + _NEW_TABLE_S
        while True:
            try:
                return self._run(statement)
            except InvalidStatement as error:
                if not error.detail.startswith(_NO_TOPIC) or time.monotonic() > until_s:
                    raise
            time.sleep(_LOOK_AGAIN_S)

    def _run(self, statement: str) -> Result:
        plan = {"root": {"sql": {"query": statement.rstrip().rstrip(";")}}}
        request = self._messages["Execute"](
            **self._session, plan=plan, client_type="lakemq sql", operation_id=str(uuid.uuid4())
        )
        call = self._channel.unary_stream(
            f"{_SERVICE}/ExecutePlan",
            request_serializer=self._messages["Execute"].SerializeToString,
            response_deserializer=self._messages["Executed"].FromString,
        )
        batches = self._batches(call(request, metadata=self._metadata))
        first = next(batches)
        _check_types(first)
        return Result(first.schema, chain([first], batches))

    def close(self) -> None:
        """Ends the session at the server, with all that is temporary in it."""
        release = self._channel.unary_unary(
            f"{_SERVICE}/ReleaseSession",
            request_serializer=self._messages["Release"].SerializeToString,
            response_deserializer=self._messages["Released"].FromString,
        )
        with contextlib.suppress(grpc.RpcError):
            request = self._messages["Release"](**self._session)
            release(request, metadata=self._metadata, timeout=_RELEASE_S_MAX)
        self._channel.close()

    def _batches(self, responses: Any) -> Iterator[pa.RecordBatch]:
        """At least one, without rows where there are none."""
        try:
            for response in responses:
                if response.HasField("arrow_batch"):
                    reader = pa.ipc.open_stream(response.arrow_batch.data)
                    yield from list(reader) or [_no_rows(reader.schema)]
        except grpc.RpcError as error:
            raise self._explained(error) from None

    def _explained(self, error: Any) -> LakemqError:
        code, details = error.code(), str(error.details())
        if code is grpc.StatusCode.UNAUTHENTICATED:
            return SettingsError(
                f"the Spark server at {self._server.url} wants another token than this (setting sql.token)"
            )
        if code is grpc.StatusCode.UNAVAILABLE:
            return LakemqError(f"the Spark server at {self._server.url} is gone: {details}")
        return InvalidStatement(complaint(details), *place_in(details))


def complaint(text: str) -> str:
    """The first line that says something, without Spark's error class, state and call stack, and with a hint if it is
    about a field of a body; of an error in Python, what was raised last."""
    raised = _RAISED.findall(text)
    if raised:
        kind, _, why = raised[-1].partition(": ")
        return why if why and kind.startswith("lakemq.") else raised[-1]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else "Spark gives no reason"
    if first.startswith("("):
        first = first.partition(") ")[2] or first
    if first.startswith("[") and "]" in first:
        first = first.partition("]")[2].strip()
    said = first.partition(" SQLSTATE")[0].partition(_BYPASS)[0].strip() or "Spark gives no reason"
    return " ".join([said, *(hint for words, hint in _HINTS if words in said)])


def _check_types(batch: pa.RecordBatch) -> None:
    """pyarrow has no form for a few types of Arrow, such as an interval of months."""
    for at, name in enumerate(batch.schema.names):
        try:
            batch.column(at).slice(0, 1).to_pylist()
        except KeyError:
            raise InvalidStatement(f"a column of the type of {name} can't be shown: CAST it to STRING") from None


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "lakemq"
