"""Feed the decoder what nobody would send, and see that it only ever refuses.

`python -m tests.gateway.decode.fuzz --seconds N --seed S` mutates valid requests of every form: bits
flipped, numbers replaced by extreme ones, parts cut, moved, doubled or taken from another request.
Each must decode, or raise one of the four errors of the contract. What decodes as Arrow must be
valid and within its limits, and is read to the last value. The work is done in a process of its
own, so that its crash is an answer too: the round it died in is printed, and
`--seed S --start ROUND --rounds 1` does that round again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import AbstractContextManager
from random import Random
from typing import NamedTuple

import orjson
import pyarrow as pa

from lakemq.gateway.decode import ArrowRows, Limits, decode, inflate
from lakemq.model.columns import REQUEST
from lakemq.model.errors import (
    InvalidArrow,
    InvalidRequest,
    MessageTooLarge,
    UnsupportedMediaType,
)
from tests.gateway.decode.streams import ARROW, write_stream
from tests.reliability.rounds import Round, main, plain

LIMITS = Limits(message_bytes_max=65_536, request_bytes_max=1_048_576)
MEMORY_BYTES_MAX = 64 * LIMITS.request_bytes_max
"""What one request may take of Arrow's memory at most; a bomb would take gigabytes."""
ALLOWED = (InvalidArrow, InvalidRequest, MessageTooLarge, UnsupportedMediaType)
EXTREMES = (0, 1, -1, 2, 7, 8, 64, 255, 65_535, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**40)


class Request(NamedTuple):
    """One produce request."""

    content_type: str
    headers: dict[str, str]
    body: bytes


def arrow_requests() -> list[Request]:
    """Valid streams of every type that is taken, plain and compressed, in one batch and several."""
    rows = 13
    tags = ["red", None, "green", "blue-é", "long" * 5] * 3
    keys = [[f"k{at}", "key" * at] if at % 3 else None for at in range(1, rows + 1)]
    pairs = [[("a", str(at)), ("name" * 4, "v" * at)] if at % 4 else None for at in range(rows)]
    plain = [b"payload-%d" % at * at for at in range(rows)]
    tables: list[pa.Table] = []
    for text, binary, lists in (
        (pa.string(), pa.binary(), pa.list_),
        (pa.large_string(), pa.large_binary(), pa.large_list),
        (pa.string_view(), pa.binary_view(), pa.list_),
    ):
        columns = {
            "body": pa.array(plain, binary),
            "tag": pa.array(tags[:rows], text),
            "keys": pa.array(keys, lists(text)),
            "properties": pa.array(pairs, pa.map_(text, text)),
            "ordering_key": pa.array([f"order-{at % 3}" for at in range(rows)], text),
            "queue_id": pa.array(range(rows), pa.int32()),
            "deliver_at_ms": pa.array([None if at % 2 else at for at in range(rows)], pa.int64()),
            "born_time_ms": pa.array(range(rows), pa.int64()),
        }
        tables += [pa.table(columns), pa.table({name: columns[name] for name in ("tag", "body")})]
        tables += [pa.table({name: columns[name] for name in ("properties", "body", "keys")})]
    tables.append(pa.table({"body": plain, "tag": pa.nulls(rows), "keys": pa.nulls(rows)}))
    return [
        Request(ARROW, {}, write_stream(table, compression, rows=batch))
        for table in tables
        for compression in (None, "lz4", "zstd")
        for batch in (None, 5)
    ]


def other_requests() -> list[Request]:
    """Valid requests of the forms that are decoded one message at a time."""
    message = {
        "body": "text",
        "tag": "T",
        "keys": ["k1", "é"],
        "properties": {"a": "b"},
        "ordering_key": "order-42",
        "queue_id": 0,
        "delay_ms": 1500,
        "born_time_ms": 0,
    }
    encoded = {"body": "aGVsbG8=", "body_encoding": "base64", "delay_level": 3}
    event = {
        "specversion": "1.0",
        "id": "1",
        "type": "t",
        "source": "/s",
        "time": "2018-04-05T17:31:00Z",
        "number": 5,
        "data": {"a": [1.10, 2, None, {"b": "c"}]},
    }
    binary = {f"ce-{name}": str(event[name]) for name in ("specversion", "id", "type", "source")}
    headers = {
        "lakemq-tag": "T",
        "lakemq-keys": "a,b",
        "lakemq-queue-id": "1",
        "lakemq-delay-ms": "5",
        "lakemq-property-a": "b",
    }
    routing = {name: value for name, value in headers.items() if name.endswith(("-id", "-ms"))}
    dumps = orjson.dumps
    return [
        Request("application/json", {}, dumps({"messages": [message, encoded]})),
        Request("application/x-ndjson", {}, dumps(message) + b"\n\n" + dumps(encoded) + b"\n"),
        Request("application/cloudevents+json", {}, dumps(event)),
        Request("application/cloudevents-batch+json", routing, dumps([event, event])),
        Request("application/json; charset=utf-8", {**binary, "ce-subject": '"a%20b"'}, b"{}"),
        Request("text/plain", headers, b"payload"),
    ]


def mutate(random: Random, request: Request, others: list[Request]) -> Request:
    """`request` with one to four faults."""
    body = bytearray(request.body)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        random.choice(MUTATIONS)(random, body, random.choice(others).body)
    headers = {
        name: _mutated_text(random, value) if random.random() < 0.3 else value
        for name, value in request.headers.items()
    }
    content_type = request.content_type
    if random.random() < 0.02:
        content_type = _mutated_text(random, content_type)
    return Request(content_type, headers, bytes(body))


def _mutated_text(random: Random, text: str) -> str:
    at = random.randrange(len(text) + 1)
    new = random.choice(("", "%", "%zz", "%ff", '"', "\\", "\ud800", "\x00", "é", "9" * 20, ",", "x" * 2_000))
    return text[:at] + new + text[at + random.randrange(3) :]


def _flip(random: Random, body: bytearray, other: bytes) -> None:
    if body:
        body[random.randrange(len(body))] ^= 1 << random.randrange(8)


def _overwrite(random: Random, body: bytearray, other: bytes) -> None:
    if body:
        body[random.randrange(len(body))] = random.randrange(256)


def _number(random: Random, body: bytearray, other: bytes) -> None:
    form, size = random.choice((("<i", 4), ("<q", 8), ("<h", 2)))
    if len(body) >= size:
        at = random.randrange(0, len(body) - size + 1, random.choice((1, size)))
        mask = (1 << 8 * size) - 1
        value = random.choice((random.choice(EXTREMES), random.randrange(-64, 1_024)))
        body[at : at + size] = (value & mask).to_bytes(struct.calcsize(form), "little")


def _nudge(random: Random, body: bytearray, other: bytes) -> None:
    """Change an aligned number by a little: offsets and lengths that are almost right."""
    if len(body) >= 8:
        at = random.randrange(0, len(body) - 7, 4)
        value = int.from_bytes(body[at : at + 4], "little") + random.choice((-8, -4, -1, 1, 4, 8))
        body[at : at + 4] = (value & 0xFFFFFFFF).to_bytes(4, "little")


def _cut(random: Random, body: bytearray, other: bytes) -> None:
    at = random.randrange(len(body) + 1)
    del body[at : at + random.choice((1, 4, 8, 64, len(body)))]


def _double(random: Random, body: bytearray, other: bytes) -> None:
    at = random.randrange(len(body) + 1)
    body[at:at] = body[at : at + random.choice((1, 4, 8, 64, 256))]


def _splice(random: Random, body: bytearray, other: bytes) -> None:
    at = random.randrange(len(body) + 1)
    start = random.randrange(len(other) + 1) & ~7
    body[at & ~7 :] = other[start:]


def _transplant(random: Random, body: bytearray, other: bytes) -> None:
    size = random.choice((4, 8, 16, 64))
    at = random.randrange(len(body) + 1) & ~3
    start = random.randrange(len(other) + 1) & ~3
    body[at : at + size] = other[start : start + size]


MUTATIONS: tuple[Callable[[Random, bytearray, bytes], None], ...] = (
    _flip,
    _flip,
    _overwrite,
    _number,
    _number,
    _nudge,
    _nudge,
    _cut,
    _double,
    _splice,
    _transplant,
)


def run_round(seed: int, number: int, arrow: list[Request], others: list[Request]) -> bool:
    """One mutated request; whether it was decoded. Anything not allowed is raised."""
    random = Random(f"{seed}:{number}")
    corpus = arrow if random.random() < 0.8 else others
    request = mutate(random, random.choice(corpus), corpus)
    try:
        if random.random() < 0.02:
            inflate(random.choice(("gzip", "deflate")), request.body, LIMITS.request_bytes_max)
        decoded = decode(request.content_type, request.headers, request.body, LIMITS)
    except ALLOWED:
        return False
    if isinstance(decoded, ArrowRows):
        check_rows(decoded.batch)
    elif not decoded:
        raise AssertionError("no messages were decoded")
    return True


def check_rows(batch: pa.RecordBatch) -> None:
    """What was decoded is valid, of the right types, and can be read to the last value."""
    batch.validate(full=True)
    present = [field for field in REQUEST if field.name in batch.schema.names]
    if not batch.schema.equals(pa.schema(present), check_metadata=True):
        raise AssertionError(f"other columns than those of a request: {batch.schema}")
    for row in batch.to_pylist():
        if row["body"] is None or len(row["body"]) > LIMITS.message_bytes_max:
            raise AssertionError("a body is null or too large")
        for text in (row.get("tag"), row.get("ordering_key"), *(row.get("keys") or ())):
            if text == "":
                raise AssertionError("an empty text was let through")
        if not 0 <= (row.get("queue_id") or 0) <= 65_534:
            raise AssertionError("a queue was let through that is none")


def rounds(seed: int) -> AbstractContextManager[Round]:
    """The rounds of that seed."""
    arrow, others = arrow_requests(), other_requests()
    return plain(lambda number: run_round(seed, number, arrow, others))


if __name__ == "__main__":
    raise SystemExit(main("tests.gateway.decode.fuzz", __doc__ or "", rounds, MEMORY_BYTES_MAX))
