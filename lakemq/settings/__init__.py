"""Settings: defaults < a TOML file < environment `LAKEMQ_SECTION__KEY` < options.

A setting that is unknown or impossible raises `SettingsError`, which names it and where it was
set, before anything starts. How limits relate is checked here too.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from lakemq.model.environment import read_environment
from lakemq.model.errors import SettingsError
from lakemq.model.ids import is_broker_name
from lakemq.model.quota import CONNECTIONS_MAX, PER_S_MAX, PER_S_MIN, QUEUES_MAX, TOPICS_MAX, is_rate, plain
from lakemq.settings.fleet import Fleet as Fleet
from lakemq.settings.jobs import Maintenance as Maintenance
from lakemq.settings.jobs import Spark as Spark
from lakemq.settings.lake import Lake as Lake
from lakemq.settings.lake import LakeStorage as LakeStorage
from lakemq.settings.limits import Groups as Groups
from lakemq.settings.limits import Idempotency as Idempotency
from lakemq.settings.limits import Receive as Receive
from lakemq.settings.limits import Requests as Requests
from lakemq.settings.limits import Sinks as Sinks
from lakemq.settings.limits import Topics as Topics
from lakemq.settings.listener import Console as Console
from lakemq.settings.listener import Gateway as Gateway
from lakemq.settings.listener import Listener as Listener
from lakemq.settings.listener import NameServer as NameServer
from lakemq.settings.listener import SqlHttp as SqlHttp
from lakemq.settings.log import Log as Log
from lakemq.settings.replication import Replication as Replication
from lakemq.settings.routing import Delay as Delay
from lakemq.settings.routing import Retry as Retry
from lakemq.settings.routing import Routing as Routing
from lakemq.settings.routing import Transactions as Transactions
from lakemq.settings.section import GIB as GIB
from lakemq.settings.section import HOUR_MS as HOUR_MS
from lakemq.settings.section import KIB, MIB, Section
from lakemq.settings.section import is_loopback as is_loopback
from lakemq.settings.storage import Storage as Storage
from lakemq.settings.tls import Tls as Tls
from lakemq.settings.traces import Traces as Traces

DEFAULT_FILE = Path("conf/lakemq.toml")
_ANY = ("0.0.0.0", "::", "")  # noqa: S104  (what is refused)


class Broker(Section):
    """The identity of this broker. `name`: shared by its replicas. `replica`: the number of this one (0: the
    primary, which the others follow). `cluster`: the name that clients see. `permission`: what clients may do on
    this broker; `r` drains it: it accepts no new messages, and its messages are consumed.
    """

    name: str = "broker-a"
    replica: int = Field(default=0, ge=0, le=255)
    cluster: str = "default"
    permission: Literal["rw", "r"] = "rw"

    @property
    def follows(self) -> bool:
        """Whether it is a follower: replica 0 is the primary."""
        return self.replica > 0

    @property
    def role(self) -> Literal["primary", "follower"]:
        """What it is to clients."""
        return "follower" if self.follows else "primary"

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if not is_broker_name(value):
            raise ValueError("a broker's name matches [A-Za-z0-9_-]{1,63}")
        return value

    @field_validator("cluster")
    @classmethod
    def _cluster(cls, value: str) -> str:
        if not is_broker_name(value):
            raise ValueError("a cluster's name matches [A-Za-z0-9_-]{1,63}")
        return value


class Auth(Section):
    """Authentication and rights (docs/security.md). `required`: everybody needs a token; otherwise only requests
    that could destroy or forge data need one. `admin_token_file`: the file with the administrator's token, which
    replicas can share; none: `admin.token` in the data folder, which the first start creates. `audit`: whether to
    record who did what; none: if `required` is set. `insecure`: allow access from other machines without tokens, or
    without TLS. `user_requests_per_s_max`, `user_bytes_per_s_max` (of bodies, both ways), `user_connections_max`,
    `user_topics_max` (that it made, and that are there), `user_queues_max` (of these topics together): the quota of
    each user that is not a super user and has no quota of its own; 0: unlimited."""

    required: bool = False
    admin_token_file: Path | None = None
    audit: bool | None = None
    insecure: bool = False
    users_max: int = Field(default=10_000, ge=1, le=100_000)
    """The most users."""
    user_tokens_max: int = Field(default=16, ge=1, le=1_000)
    """The most tokens of each user; new ones replace expired ones."""
    policies_bytes_max: int = Field(default=4 * MIB, ge=KIB, le=256 * MIB)
    """The policies of all users together."""
    user_requests_per_s_max: float = 0
    user_bytes_per_s_max: float = 0
    user_connections_max: int = Field(default=0, ge=0, le=CONNECTIONS_MAX)
    user_topics_max: int = Field(default=0, ge=0, le=TOPICS_MAX)
    user_queues_max: int = Field(default=0, ge=0, le=QUEUES_MAX)

    @field_validator("user_requests_per_s_max", "user_bytes_per_s_max")
    @classmethod
    def _rate(cls, value: float) -> float:
        if not is_rate(value):
            raise ValueError(f"it is from {PER_S_MIN} to {PER_S_MAX}, or 0 for none")
        return plain(value)


class Sql(Section):
    """The Spark Connect server of the jobs, which `lakemq sql`, notebooks and any Spark client share. If the port
    is taken, the server uses one of the next. Whoever has the token can do what the jobs can. If none is set, the
    jobs generate one at each start, which only their user can read (docs/sql.md). Access from other machines
    requires one that you set.
    """

    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = Field(default=15_002, ge=0, le=65535)
    """The port to listen on."""
    token: str = Field(default="", repr=False, pattern=r"^[\x21-\x7e]*$")
    """Make it as long as a root password; empty: the jobs generate one."""

    @model_validator(mode="after")
    def _is_guarded(self) -> Sql:
        if not self.token and not is_loopback(self.host):
            raise ValueError(f"sql.token is needed when sql.host is {self.host}: others can reach it")
        return self


class Settings(Section):
    """Everything that can be set, by section."""

    broker: Broker = Field(default_factory=Broker)
    gateway: Gateway = Field(default_factory=Gateway)
    nameserver: NameServer = Field(default_factory=NameServer)
    auth: Auth = Field(default_factory=Auth)
    log: Log = Field(default_factory=Log)
    traces: Traces = Field(default_factory=Traces)
    tls: Tls = Field(default_factory=Tls)
    fleet: Fleet = Field(default_factory=Fleet)
    replication: Replication = Field(default_factory=Replication)
    storage: Storage = Field(default_factory=Storage)
    topics: Topics = Field(default_factory=Topics)
    idempotency: Idempotency = Field(default_factory=Idempotency)
    routing: Routing = Field(default_factory=Routing)
    delay: Delay = Field(default_factory=Delay)
    transactions: Transactions = Field(default_factory=Transactions)
    retry: Retry = Field(default_factory=Retry)
    groups: Groups = Field(default_factory=Groups)
    requests: Requests = Field(default_factory=Requests)
    receive: Receive = Field(default_factory=Receive)
    sinks: Sinks = Field(default_factory=Sinks)
    lake: Lake = Field(default_factory=Lake)
    maintenance: Maintenance = Field(default_factory=Maintenance)
    spark: Spark = Field(default_factory=Spark)
    sql: Sql = Field(default_factory=Sql)
    sql_http: SqlHttp = Field(default_factory=SqlHttp)
    console: Console = Field(default_factory=Console)

    @model_validator(mode="after")
    def _follows_somebody(self) -> Settings:
        if (
            self.fleet.leader == "static"
            and self.broker.follows
            and not self.fleet.primary
            and not self.fleet.nameservers
        ):
            raise ValueError(
                f"broker.replica is {self.broker.replica}, a follower: set fleet.primary to its primary, or "
                "fleet.nameservers"
            )
        return self

    @model_validator(mode="after")
    def _knows_who_registers(self) -> Settings:
        server = self.nameserver
        if (
            server.token_file is None
            and not self.auth.insecure
            and not (is_loopback(server.host) and not server.trusted_proxies)
        ):
            is_open = not is_loopback(server.host)
            at = f"host is {server.host}" if is_open else "trusted_proxies allows access from other machines"
            raise ValueError(
                f"nameserver.{at}: anyone who reaches it could register as a broker; set "
                "nameserver.token_file to a file of tokens, or auth.insecure = true to allow everybody"
            )
        return self

    @model_validator(mode="after")
    def _limits_fit(self) -> Settings:
        gateway, storage, topics = self.gateway, self.storage, self.topics
        if gateway.message_bytes_max > gateway.request_bytes_max:
            raise ValueError("gateway.message_bytes_max is above gateway.request_bytes_max")
        if gateway.request_bytes_max > gateway.request_bytes_in_flight_max:
            raise ValueError("gateway.request_bytes_max is above gateway.request_bytes_in_flight_max")
        if storage.frame_bytes_max < 2 * gateway.request_bytes_max:
            raise ValueError("storage.frame_bytes_max is below 2 × gateway.request_bytes_max")
        if 0 < storage.log_bytes_max < 2 * storage.segment_bytes:
            raise ValueError("storage.log_bytes_max is below 2 × storage.segment_bytes")
        if self.nameserver.request_bytes_max > self.nameserver.request_bytes_in_flight_max:
            raise ValueError("nameserver.request_bytes_max is above nameserver.request_bytes_in_flight_max")
        if self.console.request_bytes_max > self.console.request_bytes_in_flight_max:
            raise ValueError("console.request_bytes_max is above console.request_bytes_in_flight_max")
        if topics.default_queues > topics.queues_max:
            raise ValueError("topics.default_queues is above topics.queues_max")
        return self

    @model_validator(mode="after")
    def _others_reach_it_as_they_may(self) -> Settings:
        gateway = self.gateway
        servers = {
            "gateway": gateway,
            "nameserver": self.nameserver,
            "sql_http": self.sql_http,
            "console": self.console,
        }
        for name, listener in servers.items():
            if not is_loopback(listener.host) and not self.auth.insecure and not (self.auth.required and self.tls.on):
                lacking = [
                    *([] if self.auth.required else ["auth.required = true"]),
                    *([] if self.tls.on else ["tls.cert_file and tls.key_file"]),
                ]
                raise ValueError(
                    f"{name}.host is {listener.host}: access from other machines needs {' and '.join(lacking)}, because"
                    " anyone could send requests, or read them on the way; auth.insecure = true allows that"
                )
            if listener.trusted_proxies and not self.auth.required and not self.auth.insecure:
                raise ValueError(
                    f"{name}.trusted_proxies allows access from other machines through a proxy: this needs "
                    "auth.required = true; auth.insecure = true allows it without"
                )
        return self

    @model_validator(mode="after")
    def _others_are_told_where_it_is(self) -> Settings:
        gateway, sql_http = self.gateway, self.sql_http
        for name, advertise in (("gateway", gateway.advertise), ("sql_http", sql_http.advertise)):
            if self.tls.on and advertise.startswith("http:"):
                raise ValueError(
                    f"{name}.advertise is {advertise}, but with tls.cert_file the address begins with https://"
                )
        is_told = self.fleet.nameservers or self.replication.far_behind_bytes
        if is_told and not gateway.advertise and gateway.host in _ANY:
            raise ValueError(
                f"gateway.host is {gateway.host}, which others can't reach: set gateway.advertise to the address"
            )
        if sql_http.enabled and not sql_http.advertise and sql_http.host in _ANY:
            raise ValueError(
                f"sql_http.host is {sql_http.host}, which others can't reach: set sql_http.advertise to the address"
            )
        return self


Layer = dict[str, dict[str, object]]
"""Settings by section and key, as one source gives them."""


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    options: Layer | None = None,
) -> Settings:
    """The settings of all layers; raises `SettingsError`.

    `file` None means `conf/lakemq.toml` where there is one. `environment` None means the
    process's own; a name in it that begins with LAKEMQ_ and is nothing of lakemq's is an error too.
    """
    environment = os.environ if environment is None else environment
    if file is None:
        file = DEFAULT_FILE if DEFAULT_FILE.exists() else None
    layers = [
        (str(file), _read_file(file) if file else {}),
        ("the environment", read_environment(environment, _known())),
        ("the options", options or {}),
    ]
    merged: Layer = {}
    origin: dict[tuple[str, str], str] = {}
    for source, layer in layers:
        for section, values in layer.items():
            for key, value in values.items():
                merged.setdefault(section, {})[key] = value
                origin[section, key] = source
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise SettingsError(_explain(error, origin)) from None


def _read_file(file: Path) -> Layer:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))  # some editors begin a file so
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"can't read the settings in {file}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file} isn't valid TOML: {error}") from None
    for section, values in content.items():
        if not isinstance(values, dict):
            raise SettingsError(f"unknown setting {section!r} in {file}: each setting belongs in a section")
    return content


def _known() -> dict[str, list[str]]:
    """The keys of each section."""
    sections = {name: field.default_factory for name, field in Settings.model_fields.items()}
    return {name: list(kind.model_fields) for name, kind in sections.items() if isinstance(kind, type)}


def _explain(error: ValidationError, origin: dict[tuple[str, str], str]) -> str:
    """The first fault in one line: which setting, where it was set, and what is wrong."""
    fault = error.errors()[0]
    place = [str(part) for part in fault["loc"]]
    if not place:
        return str(fault["msg"]).removeprefix("Value error, ")
    source = next((where for at, where in origin.items() if list(at) == place[:2]), None)
    if source is None:
        source = next((where for at, where in origin.items() if at[0] == place[0]), "the settings")
    name = ".".join(place)
    if fault["type"] == "extra_forbidden":
        return f"unknown setting {name!r} in {source}"
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"setting {name!r} in {source}: {message}{_got(place, fault.get('input'))}"


_WITH_KEYS = {("lake", "storage"), ("fleet", "store_options"), ("spark", "conf")}


def _got(place: list[str], value: object) -> str:
    """What was set; nothing of what may hold keys: of whole sections, how a bucket is reached, an address with a user
    in it."""
    is_plain = value is None or isinstance(value, str | int | float | bool | Path)
    is_secret = tuple(place[:2]) in _WITH_KEYS or place[-1] == "token" or "@" in str(value)
    return f" (got {value!r})" if is_plain and not is_secret else ""
