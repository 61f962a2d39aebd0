"""Where servers listen, and what their connections may take."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from lakemq.model.forwarded import parse_network
from lakemq.model.pull_limit import MESSAGES_PER_PULL_MAX
from lakemq.settings.section import GIB, HOUR_MS, KIB, MIB, Section, check_url, split_list

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")


class Listener(Section):
    """Where a server listens, and how much its connections take on at once.

    A head must be whole within `head_ms_max`; of a body, and of an answer, `stall_bytes_min` must get through in
    each `stall_ms_max`; a connection without a request is closed after `idle_ms_max`. `answer_bytes_max`: of answers
    that clients have not taken yet, all together. `client_share`: of the bytes of bodies on their way, and of large
    requests that are worked on, one client, by its address, has no more than this share, and so of the places of those
    that wait for their turn; 1 where all come through one proxy.

    `hosts`: other names that a request's `Host` may have, with or without a port. `origins`: other pages
    that may use the server, as a browser's `Origin` names them.

    `trusted_proxies`: addresses and networks of proxies whose `X-Forwarded-For` is believed: the client is then the
    last address in it that is none of theirs. Of all others it is no more than a header.
    """

    host: str = "127.0.0.1"
    """The address to listen on; another than this machine's own takes a token and TLS."""
    port: int = Field(ge=0, le=65535)
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    request_bytes_max: int = Field(default=64 * MIB, ge=1, le=GIB)
    """A request's body may have so many, counted while it comes and while it is inflated."""
    request_bytes_in_flight_max: int = Field(default=256 * MIB, ge=1)
    """So many of bodies that are coming in, and so many of those that are worked on, all together."""
    connections_max: int = Field(default=20_000, ge=1)
    """Connections at once."""
    connections_per_client_max: int = Field(default=15_000, ge=1)
    """Connections at once from one address."""
    client_share: float = Field(default=0.75, gt=0, le=1)
    head_ms_max: int = Field(default=10_000, ge=10, le=HOUR_MS)
    idle_ms_max: int = Field(default=75_000, ge=10, le=HOUR_MS)
    stall_ms_max: int = Field(default=10_000, ge=10, le=HOUR_MS)
    stall_bytes_min: int = Field(default=10 * KIB, ge=1)
    answer_bytes_max: int = Field(default=64 * MIB, ge=1)
    waiters_max: int = Field(default=20_000, ge=1)
    """Requests that wait at once, such as long polls."""
    wait_ms_max: int = Field(default=60_000, ge=0, le=600_000)
    """How long one may ask to wait."""
    stop_grace_ms: int = Field(default=5_000, ge=0)
    """So long a stop waits for requests that are being answered."""

    @property
    def names(self) -> tuple[str, ...]:
        """What requests may call it, beside its own host."""
        return self.hosts

    @field_validator("hosts", "origins", "trusted_proxies", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return split_list(value)

    @field_validator("hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for host in value:
            if not _HOST.fullmatch(host):
                raise ValueError(f"{host!r} is no name or address, with or without a port")
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _proxies(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            parse_network(each)
        return value

    @field_validator("origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin!r} is no origin: scheme://name, and a port where it has one")
        return value


class Gateway(Listener):
    """The gateway's `Listener`, and what of messages one request has.

    `drain_ms`: how long after a signal to stop it serves on, while `GET /readyz` says 503: as long as a proxy or an
    orchestrator takes to see that, and to send nobody here any more.

    `advertise`: the address by which others find it, such as http://10.0.0.5:8080; empty: where it listens.
    """

    port: int = Field(default=8080, ge=0, le=65535)
    """The port to listen on; 0: any that is free."""
    advertise: str = ""
    drain_ms: int = Field(default=0, ge=0, le=HOUR_MS)
    message_bytes_max: int = Field(default=4 * MIB, ge=1, le=64 * MIB)
    """A message's body may have so many."""
    messages_per_pull_max: int = Field(default=MESSAGES_PER_PULL_MAX, ge=1, le=100_000)
    """A pull answers with so many messages at most."""
    pull_bytes_max: int = Field(default=16 * MIB, ge=64 * KIB, le=GIB)
    """A pull reads so many bytes of frames at most, but one message always."""
    metrics_topics_max: int = Field(default=100, ge=0, le=10_000)
    """Topics that `GET /metrics` tells by name; all others together are `other`."""
    metrics_groups_max: int = Field(default=100, ge=0, le=10_000)
    """So of groups."""

    @field_validator("advertise")
    @classmethod
    def _advertise(cls, value: str) -> str:
        return check_url(value) if value else value

    @property
    def names(self) -> tuple[str, ...]:
        """The advertised one is a name of it too."""
        return (*self.hosts, urlsplit(self.advertise).netloc) if self.advertise else self.hosts


class SqlHttp(Listener):
    """The jobs' server of `POST /v1/sql`, for users who are no administrators (docs/sql.md).

    `enabled`: whether there is one. `port` 0: any that is free, as brokers say the address. `advertise`: the address by
    which others find it; empty: where it listens. A statement has so many characters; an answer has `rows` at most, or
    as many as its request says, up to `rows_max`, and so many bytes of Arrow; `timeout_ms` goes the same way. So many
    statements are under way at once, and of one user (or of one address, without a token) so many of them.
    """

    port: int = Field(default=0, ge=0, le=65535)
    enabled: bool = True
    """Whether it is answered."""
    advertise: str = ""
    request_bytes_max: int = Field(default=256 * KIB, ge=KIB, le=16 * MIB)
    request_bytes_in_flight_max: int = Field(default=16 * MIB, ge=KIB)
    connections_max: int = Field(default=200, ge=1)
    connections_per_client_max: int = Field(default=100, ge=1)
    statement_characters_max: int = Field(default=32 * KIB, ge=1, le=MIB)
    """Characters of a statement."""
    statements_max: int = Field(default=4, ge=1, le=64)
    """Statements at once."""
    user_statements_max: int = Field(default=2, ge=1, le=64)
    """Statements of one user at once."""
    rows: int = Field(default=1_000, ge=1, le=1_000_000)
    """Rows of an answer."""
    rows_max: int = Field(default=100_000, ge=1, le=1_000_000)
    bytes_max: int = Field(default=16 * MIB, ge=KIB, le=256 * MIB)
    """Bytes of an answer."""
    timeout_ms: int = Field(default=30_000, ge=1, le=HOUR_MS)
    timeout_ms_max: int = Field(default=300_000, ge=1, le=HOUR_MS)
    """The longest that a request may ask for."""

    @field_validator("advertise")
    @classmethod
    def _advertise(cls, value: str) -> str:
        return check_url(value) if value else value

    @model_validator(mode="after")
    def _fits(self) -> SqlHttp:
        for name in ("rows", "timeout_ms"):
            if getattr(self, name) > getattr(self, f"{name}_max"):
                raise ValueError(f"sql_http.{name} is above sql_http.{name}_max")
        return self


class NameServer(Listener):
    """The name server's `Listener`, and how much it keeps in memory.

    A replica that isn't heard of for `expiry_ms` is gone. Each is probed every `probe_ms`, or less often when there are
    many; 0: never. `topics_max`: of one replica; `all_topics_max`: of all together, counted as often as they are told.
    `client_share`: also of the replicas, and of all topics, for whoever comes from one address. `token_file`: tokens by
    which brokers may register, a line each; without, everybody may. `drain_ms`: as the gateway's.
    """

    token_file: Path | None = None
    port: int = Field(default=9876, ge=0, le=65535)
    """The port to listen on; 0: any that is free."""
    drain_ms: int = Field(default=0, ge=0, le=HOUR_MS)
    request_bytes_max: int = Field(default=4 * MIB, ge=KIB, le=GIB)
    """A heartbeat may have so many."""
    request_bytes_in_flight_max: int = Field(default=64 * MIB, ge=KIB)
    """So many of bodies that are coming in, all together."""
    expiry_ms: int = Field(default=120_000, ge=100, le=24 * HOUR_MS)
    probe_ms: int = Field(default=3_000, ge=0, le=HOUR_MS)
    brokers_max: int = Field(default=5_000, ge=1)
    """So many brokers are known."""
    replicas_max: int = Field(default=10_000, ge=1)
    """So many replicas of all brokers together."""
    broker_replicas_max: int = Field(default=16, ge=1)
    """So many replicas of one broker."""
    topics_max: int = Field(default=20_000, ge=1)
    all_topics_max: int = Field(default=200_000, ge=1)


class Console(Listener):
    """The console's `Listener`, and who may look (docs/console.md).

    `enabled`: whether `lakemq up` starts one beside the gateway. `sign_in_required`: nobody without a token; else who
    is on this machine sees what its brokers show without one; from other machines it takes a token always. A session
    that isn't used for `session_idle_ms_max` ends, and so does one that is `session_ms_max` old.
    """

    port: int = Field(default=8088, ge=0, le=65535)
    """The port to listen on; 0: any that is free."""
    enabled: bool = True
    sign_in_required: bool = False
    request_bytes_max: int = Field(default=16 * MIB, ge=64 * KIB, le=256 * MIB)
    """A form may have so many: one with a message has up to three for each of its body."""
    request_bytes_in_flight_max: int = Field(default=64 * MIB, ge=64 * KIB)
    connections_max: int = Field(default=1_000, ge=1)
    connections_per_client_max: int = Field(default=500, ge=1)
    sessions_max: int = Field(default=1_000, ge=1, le=100_000)
    """Who is signed in at once; then those that were not used for longest end."""
    session_idle_ms_max: int = Field(default=8 * HOUR_MS, ge=60_000, le=24 * HOUR_MS)
    session_ms_max: int = Field(default=24 * HOUR_MS, ge=60_000, le=7 * 24 * HOUR_MS)
    live_max: int = Field(default=64, ge=1, le=10_000)
    """Pages that are kept current at once."""
