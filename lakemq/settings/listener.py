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


def _with_advertised(hosts: tuple[str, ...], advertise: str) -> tuple[str, ...]:
    return (*hosts, urlsplit(advertise).netloc) if advertise else hosts


class Listener(Section):
    """Where a server listens, and the limits of its connections.

    A request's head must arrive within `head_ms_max`; of a body, and of an answer, `stall_bytes_min` must get
    through in each `stall_ms_max`; a connection without a request is closed after `idle_ms_max`.
    `answer_bytes_max`: all answers together that clients have not read yet. `client_share`: the largest share that
    one client, by its address, may have of the bytes of incoming bodies and of those answers, of the large requests
    being processed, and of the requests waiting for their turn, for a message or for a reply; set it to 1 if all
    clients come through one proxy.

    `hosts`: other names allowed in a request's `Host`, with or without a port. `origins`: other web sites whose
    pages may use the server, as a browser's `Origin` names them.

    `trusted_proxies`: addresses and networks of proxies whose `X-Forwarded-For` is trusted: the client is then the
    last address in it that is not a proxy's. From all others the header is ignored.
    """

    host: str = "127.0.0.1"
    """The address to listen on; beyond loopback you need tokens and TLS."""
    port: int = Field(ge=0, le=65535)
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    request_bytes_max: int = Field(default=64 * MIB, ge=1, le=GIB)
    """The largest body of a request, counted as it arrives and as it is decompressed."""
    request_bytes_in_flight_max: int = Field(default=256 * MIB, ge=1)
    """All bodies together: the limit holds for those arriving, and again for those being processed."""
    connections_max: int = Field(default=20_000, ge=1)
    """Concurrent connections."""
    connections_per_client_max: int = Field(default=15_000, ge=1)
    """Concurrent connections from one address, of IPv6 from one network of 64 bits."""
    client_share: float = Field(default=0.75, gt=0, le=1)
    head_ms_max: int = Field(default=10_000, ge=10, le=HOUR_MS)
    idle_ms_max: int = Field(default=75_000, ge=10, le=HOUR_MS)
    stall_ms_max: int = Field(default=10_000, ge=10, le=HOUR_MS)
    stall_bytes_min: int = Field(default=10 * KIB, ge=1)
    answer_bytes_max: int = Field(default=64 * MIB, ge=1)
    waiters_max: int = Field(default=20_000, ge=1)
    """Concurrent waiting requests, such as long polls."""
    wait_ms_max: int = Field(default=60_000, ge=0, le=600_000)
    """The longest wait that a request may ask for."""
    stop_grace_ms: int = Field(default=5_000, ge=0)
    """How long a stop waits for requests in progress."""

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
                raise ValueError(f"{host!r} isn't a name or an address, with or without a port")
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
                raise ValueError(f"{origin!r} isn't an origin: scheme://name, or scheme://name:port")
        return value


class Gateway(Listener):
    """The gateway's `Listener`, and the limits of a request's messages.

    `drain_ms`: how long the gateway keeps serving after a signal to stop, while `GET /readyz` answers 503: as long
    as a proxy or an orchestrator takes to notice, and to stop sending clients here.

    `advertise`: the address that others use, such as http://10.0.0.5:8080; empty: the address on which it listens.
    """

    port: int = Field(default=8080, ge=0, le=65535)
    """The port to listen on; 0: any free port."""
    advertise: str = ""
    drain_ms: int = Field(default=0, ge=0, le=HOUR_MS)
    message_bytes_max: int = Field(default=4 * MIB, ge=1, le=64 * MIB)
    """The largest body of a message."""
    messages_per_pull_max: int = Field(default=MESSAGES_PER_PULL_MAX, ge=1, le=100_000)
    """The most messages in the answer of a pull."""
    pull_bytes_max: int = Field(default=16 * MIB, ge=64 * KIB, le=GIB)
    """The most bytes of frames that a pull reads, but always at least one message."""
    metrics_topics_max: int = Field(default=100, ge=0, le=10_000)
    """Topics that `GET /metrics` lists by name; all others together are `other`."""
    metrics_groups_max: int = Field(default=100, ge=0, le=10_000)
    """The same for groups."""

    @field_validator("advertise")
    @classmethod
    def _advertise(cls, value: str) -> str:
        return check_url(value) if value else value

    @property
    def names(self) -> tuple[str, ...]:
        """The advertised one is a name of it too."""
        return _with_advertised(self.hosts, self.advertise)


class SqlHttp(Listener):
    """The jobs' server of `POST /v1/sql`, for users who aren't administrators (docs/sql.md).

    `enabled`: whether to start it. `port` 0: any free port, because brokers return the address. `advertise`: the
    address that others use; empty: the address on which it listens. A result has at most `rows`, or as many as its
    request asks for, up to `rows_max`; `timeout_ms` works the same way. Limits for one user apply to one address if
    there is no token.
    """

    port: int = Field(default=0, ge=0, le=65535)
    enabled: bool = True
    """Whether the server is started."""
    advertise: str = ""
    request_bytes_max: int = Field(default=256 * KIB, ge=KIB, le=16 * MIB)
    request_bytes_in_flight_max: int = Field(default=16 * MIB, ge=KIB)
    connections_max: int = Field(default=200, ge=1)
    connections_per_client_max: int = Field(default=100, ge=1)
    statement_characters_max: int = Field(default=32 * KIB, ge=1, le=MIB)
    """The longest statement."""
    statements_max: int = Field(default=4, ge=1, le=64)
    """Concurrent statements."""
    user_statements_max: int = Field(default=2, ge=1, le=64)
    """Concurrent statements of one user."""
    rows: int = Field(default=1_000, ge=1, le=1_000_000)
    """Rows of a result."""
    rows_max: int = Field(default=100_000, ge=1, le=1_000_000)
    bytes_max: int = Field(default=16 * MIB, ge=KIB, le=256 * MIB)
    """Bytes of a result."""
    timeout_ms: int = Field(default=30_000, ge=1, le=HOUR_MS)
    timeout_ms_max: int = Field(default=300_000, ge=1, le=HOUR_MS)
    """The longest timeout that a request may ask for."""

    @field_validator("advertise")
    @classmethod
    def _advertise(cls, value: str) -> str:
        return check_url(value) if value else value

    @property
    def names(self) -> tuple[str, ...]:
        """The advertised one is a name of it too."""
        return _with_advertised(self.hosts, self.advertise)

    @model_validator(mode="after")
    def _fits(self) -> SqlHttp:
        for name in ("rows", "timeout_ms"):
            if getattr(self, name) > getattr(self, f"{name}_max"):
                raise ValueError(f"sql_http.{name} is above sql_http.{name}_max")
        return self


class NameServer(Listener):
    """The name server's `Listener`, and the limits of its memory.

    A replica that sends no heartbeat for `expiry_ms` is removed. Each is probed every `probe_ms`, or less often if
    there are many; 0: never. `topics_max`: topics of one replica; `all_topics_max`: of all replicas, counted once
    for each. `client_share`: also the share of the replicas, and of all topics, that one address may register.
    `token_file`: tokens with which brokers may register, one per line; without it, everybody may. `drain_ms`: as the
    gateway's.
    """

    token_file: Path | None = None
    port: int = Field(default=9876, ge=0, le=65535)
    """The port to listen on; 0: any free port."""
    drain_ms: int = Field(default=0, ge=0, le=HOUR_MS)
    request_bytes_max: int = Field(default=4 * MIB, ge=KIB, le=GIB)
    """The largest heartbeat."""
    request_bytes_in_flight_max: int = Field(default=64 * MIB, ge=KIB)
    """All arriving bodies together."""
    expiry_ms: int = Field(default=120_000, ge=100, le=24 * HOUR_MS)
    probe_ms: int = Field(default=3_000, ge=0, le=HOUR_MS)
    brokers_max: int = Field(default=5_000, ge=1)
    """The most brokers."""
    replicas_max: int = Field(default=10_000, ge=1)
    """The most replicas of all brokers."""
    broker_replicas_max: int = Field(default=16, ge=1)
    """The most replicas of one broker."""
    topics_max: int = Field(default=20_000, ge=1)
    all_topics_max: int = Field(default=200_000, ge=1)


class Console(Listener):
    """The console's `Listener`, and its sessions (docs/console.md).

    `enabled`: whether `lakemq up` starts a console with the gateway. `sign_in_required`: everybody needs a token;
    otherwise users on this machine see what its brokers show without one, and only users on other machines need
    one. A session ends after `session_idle_ms_max` without use, and when it is `session_ms_max` old. `client_share`:
    also the share of the sessions, and of the pages with live updates, that one user may have.
    """

    port: int = Field(default=8088, ge=0, le=65535)
    """The port to listen on; 0: any free port."""
    enabled: bool = True
    sign_in_required: bool = False
    request_bytes_max: int = Field(default=16 * MIB, ge=64 * KIB, le=256 * MIB)
    """The largest form: one with a message has up to three bytes for each byte of its body."""
    request_bytes_in_flight_max: int = Field(default=64 * MIB, ge=64 * KIB)
    connections_max: int = Field(default=1_000, ge=1)
    connections_per_client_max: int = Field(default=500, ge=1)
    sessions_max: int = Field(default=1_000, ge=1, le=100_000)
    """Concurrent sessions; beyond that, the least recently used ones end, a user's own before others'."""
    session_idle_ms_max: int = Field(default=8 * HOUR_MS, ge=60_000, le=24 * HOUR_MS)
    session_ms_max: int = Field(default=24 * HOUR_MS, ge=60_000, le=7 * 24 * HOUR_MS)
    live_max: int = Field(default=64, ge=1, le=10_000)
    """Concurrent pages with live updates."""
