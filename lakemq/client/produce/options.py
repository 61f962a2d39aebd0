"""A producer's options: as its keywords, and as what it works with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypedDict

from lakemq.client.bodies.encoder import Encoder
from lakemq.client.durations import Seconds, to_seconds
from lakemq.client.produce.deliver import Patience
from lakemq.client.produce.encode import Compression
from lakemq.client.route_source import RouteSource
from lakemq.model.errors import InvalidRequest

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

LINGER_MS = 5.0
BATCH_BYTES = 1024 * 1024
BATCH_MESSAGES = 10_000
IN_FLIGHT_MAX = 4
BUFFER_BYTES = 64 * 1024 * 1024
RETRIES = 2
TIMEOUT_S = 15.0
ATTEMPT_TIMEOUT_S = 5.0
_BATCH_BYTES_MAX = 48 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Options:
    """How messages are collected and sent. `anywhere`: a batch that may be stored goes to another
    broker of its topic when its own doesn't answer, and may so be stored by both."""

    linger_s: float
    batch_bytes: int
    batch_messages: int
    in_flight_max: int
    buffer_bytes: int
    compression: Compression | None
    sync: bool
    anywhere: bool
    patience: Patience

    @property
    def room_timeout_s(self) -> float:
        """How long a message waits for a place: longer than those before it may take to fail."""
        return self.patience.timeout_s + self.patience.attempt_s


class ProducerOptions(TypedDict, total=False):
    """Keywords of every producer, with their defaults.

    Durations may be `timedelta`s, too. `linger_ms` (5): how long a message waits for others while a batch is being
    sent; a lone message never waits. `batch_bytes` (1 MiB), `batch_messages` (10,000): the most in one request.
    `in_flight_max` (4): concurrent requests for a topic, of messages without an ordering key. `buffer_bytes` (64 MiB):
    the most bytes that aren't stored yet; beyond that, sending waits. `compression` ("lz4"): of requests with a body of
    4 KiB or more; it doesn't compress what is stored. `ack` ("async"): "sync" waits for the disk. `retries` (2): the
    most retries after an attempt that may have been carried out, or that flow control refused. `timeout_s` (15): the
    time from the send of a message to the start of its last attempt. `attempt_timeout_s` (5): the timeout of one
    attempt. `duplicates_allowed` (True): if a broker that may have stored a message doesn't answer, the message is sent
    to another broker that has the topic. If both stored it, both copies have the same property `send_id`, which all
    such messages get. False: the message waits for the first broker. Messages with an ordering key or a queue id, and
    halves, always wait for it. `tracing` (False): OpenTelemetry spans, with the process's tracer provider or the given
    one. `encoder`: turns bodies that are neither bytes nor text into bytes. The default encodes dictionaries, lists,
    dataclasses, pydantic models and attrs classes as JSON. `nameservers`: addresses of name servers, which know the
    brokers, instead of `brokers`. `routes`: a source of routes instead of both. `token`: identifies the producer's
    user. By default it is the environment's LAKEMQ_TOKEN, or in the file that LAKEMQ_TOKEN_FILE names, else the token
    of this machine's administrator, if it can be found.
    """

    linger_ms: float | timedelta
    batch_bytes: int
    batch_messages: int
    in_flight_max: int
    buffer_bytes: int
    compression: Compression | None
    ack: Literal["async", "sync"]
    retries: int
    timeout_s: Seconds
    attempt_timeout_s: Seconds
    duplicates_allowed: bool
    tracing: bool | TracerProvider
    encoder: Encoder
    nameservers: str | Sequence[str] | None
    routes: RouteSource | None
    token: str | None


def core_options(given: ProducerOptions) -> Options:
    """The options with their defaults. Raises `InvalidRequest` for what can't be, `TypeError` for names
    that there aren't."""
    unknown = set(given) - set(ProducerOptions.__annotations__)
    if unknown:
        raise TypeError(f"a producer has no option {sorted(unknown)[0]!r}")
    options = Options(
        linger_s=_linger_s(given.get("linger_ms", LINGER_MS)),
        batch_bytes=given.get("batch_bytes", BATCH_BYTES),
        batch_messages=given.get("batch_messages", BATCH_MESSAGES),
        in_flight_max=given.get("in_flight_max", IN_FLIGHT_MAX),
        buffer_bytes=given.get("buffer_bytes", BUFFER_BYTES),
        compression=given.get("compression", "lz4"),
        sync=given.get("ack", "async") == "sync",
        anywhere=given.get("duplicates_allowed", True),
        patience=Patience(
            retries=given.get("retries", RETRIES),
            timeout_s=to_seconds(given.get("timeout_s", TIMEOUT_S), "timeout_s"),
            attempt_s=to_seconds(given.get("attempt_timeout_s", ATTEMPT_TIMEOUT_S), "attempt_timeout_s"),
        ),
    )
    patience = options.patience
    _check("linger_ms", options.linger_s >= 0, "is 0 or more")
    _check("batch_bytes", 1 <= options.batch_bytes <= _BATCH_BYTES_MAX, f"is 1 to {_BATCH_BYTES_MAX}")
    _check("batch_messages", 1 <= options.batch_messages <= 1_000_000, "is 1 to 1,000,000")
    _check("in_flight_max", options.in_flight_max >= 1, "is 1 or more")
    _check("buffer_bytes", options.buffer_bytes >= options.batch_bytes, "is no less than batch_bytes")
    _check("compression", options.compression in ("lz4", "zstd", None), "is lz4, zstd or None")
    _check("ack", given.get("ack", "async") in ("async", "sync"), "is async or sync; without one: send_oneway")
    _check("retries", patience.retries >= 0, "is 0 or more")
    _check("attempt_timeout_s", 0 < patience.attempt_s <= patience.timeout_s, "is above 0, timeout_s at most")
    return options


def _linger_s(given: float | timedelta) -> float:
    return given.total_seconds() if isinstance(given, timedelta) else to_seconds(given, "linger_ms") / 1000


def _check(name: str, holds: bool, rule: str) -> None:
    if not holds:
        raise InvalidRequest(f"a producer's {name} {rule}")
