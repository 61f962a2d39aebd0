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

from lakemq.model.delay import DELAY_MS_MAX, parse_levels
from lakemq.model.environment import read_environment
from lakemq.model.errors import SettingsError
from lakemq.model.ids import is_broker_name
from lakemq.model.keep import parse_keep
from lakemq.settings.fleet import Fleet as Fleet
from lakemq.settings.lake import Lake as Lake
from lakemq.settings.lake import LakeStorage as LakeStorage
from lakemq.settings.listener import Gateway as Gateway
from lakemq.settings.listener import Listener as Listener
from lakemq.settings.listener import NameServer as NameServer
from lakemq.settings.listener import SqlHttp as SqlHttp
from lakemq.settings.replication import Replication as Replication
from lakemq.settings.section import GIB as GIB
from lakemq.settings.section import HOUR_MS, KIB, MIB, Options, Section
from lakemq.settings.section import is_loopback as is_loopback

DEFAULT_FILE = Path("conf/lakemq.toml")
_ANY = ("0.0.0.0", "::", "")  # noqa: S104  (what is refused)


class Broker(Section):
    """Who this broker is: `name` is the group's, `replica` says which of it (0: the primary, others follow it),
    `cluster` is what clients see it in.

    `permission`: what clients may do here at all; `r` drains it: nothing new is taken, what there is is consumed.
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
    """Who may use the gateway (docs/security.md). `required`: nobody without a token; else what can neither destroy nor
    forge is for everybody who reaches it. `audit`: whether it is written down who did what; None: where `required`.
    `insecure`: it may be reached from other machines, by anybody. So many users there are, with so many tokens each,
    and so many bytes of policies together."""

    required: bool = False
    audit: bool | None = None
    insecure: bool = False
    users_max: int = Field(default=10_000, ge=1, le=100_000)
    user_tokens_max: int = Field(default=16, ge=1, le=1_000)
    policies_bytes_max: int = Field(default=4 * MIB, ge=KIB, le=256 * MIB)


class Storage(Section):
    """The CommitLog on the local disk.

    `memory_survives`: what was written outlives the process for as long as the machine runs, on disk or
    not. False where the data's file system can lose it alone, in user space or over a network: then
    every end that is no clean stop counts as a loss (docs/log_format.md, "What is given once").

    `log_bytes_max`: so large the log may be; 0: as large as the disk. `when_full`: what becomes of messages where
    nothing can leave the log, as the lake doesn't hold it: new ones are refused, or the oldest go for good.

    `cut_bytes_max`: so much is kept of what was cut off a follower's log, as its primary lacks it; 0: nothing.
    """

    data_dir: Path = Path("data")
    segment_bytes: int = Field(default=GIB, ge=MIB, le=64 * GIB)
    frame_bytes_max: int = Field(default=160 * MIB, ge=MIB, le=GIB)
    flush: Literal["async", "sync"] = "async"
    flush_interval_ms: int = Field(default=500, ge=1, le=60_000)
    flush_bytes: int = Field(default=16 * MIB, ge=KIB)
    dirty_bytes_max: int = Field(default=256 * MIB, ge=MIB)
    verify_ms: int = Field(default=250, ge=0)
    memory_survives: bool = True
    snapshot_bytes: int = Field(default=64 * MIB, ge=KIB)
    snapshot_interval_ms: int = Field(default=30_000, ge=100)
    retention_ms: int = Field(default=72 * HOUR_MS, ge=0)
    compacted_grace_ms: int = Field(default=300_000, ge=0, le=24 * HOUR_MS)
    clock_confirm_ms: int = Field(default=HOUR_MS, ge=0, le=24 * HOUR_MS)
    disk_high_ratio: float = Field(default=0.85, gt=0, le=1)
    free_bytes_min: int = Field(default=16 * MIB, ge=0)
    log_bytes_max: int = Field(default=0, ge=0)
    when_full: Literal["refuse", "drop_oldest"] = "refuse"
    cut_bytes_max: int = Field(default=GIB, ge=0)
    compression: Literal["none", "lz4", "zstd"] = "lz4"
    compression_body_bytes_min: int = Field(default=4 * KIB, ge=0)
    cache_bytes: int = Field(default=32 * MIB, ge=0)


class Topics(Section):
    """How topics come to be, and how many: `queues_max` of one topic, `all_queues_max` of all together."""

    auto_create: bool = True
    default_queues: int = Field(default=4, ge=1, le=1024)
    queues_max: int = Field(default=1024, ge=1, le=65_535)
    topics_max: int = Field(default=10_000, ge=1)
    all_queues_max: int = Field(default=100_000, ge=1)


class Idempotency(Section):
    """How long, and for how many keys, a repeated request is answered with the first result."""

    window_ms: int = Field(default=600_000, ge=0)
    keys_max: int = Field(default=200_000, ge=1)


class Routing(Section):
    """How decisions of the routing queries are carried out (docs/routing.md).

    `lead_ms`: so long before it is due a delay is decided, and the gateway holds it. 0: the gateway
    anticipates nothing, the queries do it all. `trigger_ms` and `tick_ms` are for the queries: the
    least time between two batches, and between two batches that only carry the time. `grace_ms`: what
    is overdue by so much, as no query decided it, the gateway decides itself; -1: never.
    `clock_confirm_ms`: a clock that jumped ahead is believed when it has stayed there for so long, and
    until then nothing is due by it; 0: at once.
    """

    lead_ms: int = Field(default=10_000, ge=0, le=600_000)
    trigger_ms: int = Field(default=0, ge=0)
    tick_ms: int = Field(default=500, ge=10)
    grace_ms: int = Field(default=5_000, ge=-1, le=HOUR_MS)
    clock_confirm_ms: int = Field(default=60_000, ge=0, le=24 * HOUR_MS)


class Delay(Section):
    """Messages that are delivered later. `levels[i]` is the delay of level i + 1, in ms."""

    levels: tuple[int, ...] = parse_levels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
    delay_ms_max: int = Field(default=366 * 24 * HOUR_MS, ge=1, le=DELAY_MS_MAX)
    waiting_max: int = Field(default=10_000_000, ge=1)

    @field_validator("levels", mode="before")
    @classmethod
    def _levels(cls, value: object) -> object:
        return parse_levels(value) if isinstance(value, str) else value


class Transactions(Section):
    """When a half without an answer is checked: first after `timeout_ms`, then every
    `check_interval_ms`, at most `check_max` times; a check that one client was given and didn't
    answer is offered to others after `check_answer_ms`."""

    timeout_ms: int = Field(default=6_000, ge=1, le=24 * HOUR_MS)
    check_interval_ms: int = Field(default=60_000, ge=1, le=24 * HOUR_MS)
    check_max: int = Field(default=15, ge=1, le=1000)
    check_answer_ms: int = Field(default=5_000, ge=1)
    open_max: int = Field(default=1_000_000, ge=1)
    halves_bytes_max: int = Field(default=32 * MIB, ge=0)


class Retry(Section):
    """Messages that a consumer could not process: so many attempts unless it says otherwise."""

    max_reconsume_times: int = Field(default=16, ge=0, le=10_000)
    waiting_max: int = Field(default=1_000_000, ge=1)


class Groups(Section):
    """Consumer groups. A member that isn't heard of for `member_expiry_ms` is gone; a lock that isn't
    renewed for `lock_expiry_ms` is free. The bounds are of all groups together."""

    member_expiry_ms: int = Field(default=120_000, ge=100, le=24 * HOUR_MS)
    lock_expiry_ms: int = Field(default=60_000, ge=100, le=24 * HOUR_MS)
    groups_max: int = Field(default=10_000, ge=1)
    members_max: int = Field(default=20_000, ge=1)
    member_characters_max: int = Field(default=32 * MIB, ge=1)
    offsets_max: int = Field(default=200_000, ge=1)
    locks_max: int = Field(default=200_000, ge=1)


class Requests(Section):
    """Requests that wait for a reply: so many at a time."""

    waiting_max: int = Field(default=10_000, ge=1)


class Receive(Section):
    """What is handed out to be acknowledged: so many messages at most are out, of all groups together
    and of each, and so many groups' places in topics are kept: where nobody received for `idle_ms`, a place gives way
    to a new one."""

    out_max: int = Field(default=100_000, ge=1, le=10_000_000)
    group_out_max: int = Field(default=50_000, ge=1, le=10_000_000)
    subscriptions_max: int = Field(default=10_000, ge=1)
    idle_ms: int = Field(default=24 * HOUR_MS, ge=0)
    messages_per_call_max: int = Field(default=1_000, ge=1, le=10_000)
    receipts_per_call_max: int = Field(default=10_000, ge=1, le=100_000)
    invisible_ms_max: int = Field(default=12 * HOUR_MS, ge=1, le=7 * 24 * HOUR_MS)


class Sinks(Section):
    """Batches of messages that are committed as one (docs/lake.md, "The sink"): so many sinks are known,
    so many bytes of parts wait for their commit. Parts that wait, and sinks of one batch, are forgotten
    after `keep_ms`."""

    sinks_max: int = Field(default=1_000, ge=1)
    staged_bytes_max: int = Field(default=8 * GIB, ge=MIB)
    staged_parts_max: int = Field(default=100_000, ge=1)
    keep_ms: int = Field(default=24 * HOUR_MS, ge=1_000)


class Maintenance(Section):
    """When each job of maintenance runs, and what it needs to know (docs/maintenance.md).

    A schedule is a crontab's five fields, and a sixth for a time zone other than `timezone`; empty:
    only when asked for. `keep` says by topic, or pattern of topics, how much the lake keeps.
    """

    timezone: str = "UTC"
    optimize: str = "47 2 * * *"
    vacuum: str = "17 3 * * *"
    retention: str = "7 * * * *"
    checkpoint_cleanup: str = "37 * * * *"
    index_rebuild: str = ""
    verify: str = "47 4 * * 0"
    stats: str = "27 */6 * * *"
    keep: Options = Field(default_factory=dict)
    attempts_max: int = Field(default=3, ge=1, le=10)
    retry_pause_ms: int = Field(default=5_000, ge=0, le=HOUR_MS)
    small_file_bytes: int = Field(default=64 * MIB, ge=1)
    small_files_min: int = Field(default=64, ge=2)
    verify_rows: int = Field(default=2_000_000, ge=1)
    verify_bodies: bool = True
    runs_retention_ms: int = Field(default=90 * 24 * HOUR_MS, ge=HOUR_MS)
    metrics_host: str = "127.0.0.1"
    metrics_port: int = Field(default=0, ge=0, le=65535)

    @field_validator("keep")
    @classmethod
    def _keep(cls, value: dict[str, str]) -> dict[str, str]:
        for text in value.values():
            parse_keep(text)
        return value


class Spark(Section):
    """The session that `lakemq jobs` and `lakemq sql` start; `conf` is passed on to Spark.

    The jobs run with `niceness`: what they do can wait, a gateway on the same machine can't.
    """

    master: str = "local[2]"
    driver_memory: str = "2g"
    niceness: int = Field(default=10, ge=0, le=19)
    conf: Options = Field(default_factory=dict, repr=False)


class Sql(Section):
    """The Spark Connect server of the jobs, which `lakemq sql`, notebooks and any Spark client share.

    When the port is taken, one of the next is. Whoever has the token can do what the jobs can: where none is set, the
    jobs make one at each start, which only their user finds (docs/sql.md). From other machines it takes a set one.
    """

    host: str = "127.0.0.1"
    port: int = Field(default=15_002, ge=0, le=65535)
    token: str = Field(default="", repr=False, pattern=r"^[\x21-\x7e]*$")

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

    @model_validator(mode="after")
    def _follows_somebody(self) -> Settings:
        if (
            self.fleet.leader == "static"
            and self.broker.follows
            and not self.fleet.primary
            and not self.fleet.nameservers
        ):
            raise ValueError(
                f"broker.replica is {self.broker.replica}, a follower: fleet.primary says whom it follows, "
                "or fleet.nameservers who knows"
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
        if topics.default_queues > topics.queues_max:
            raise ValueError("topics.default_queues is above topics.queues_max")
        for name, listener in (("gateway", gateway), ("nameserver", self.nameserver), ("sql_http", self.sql_http)):
            if not is_loopback(listener.host) and not self.auth.insecure:
                raise ValueError(
                    f"{name}.host is {listener.host}: others could read on the way what goes there, tokens too, as "
                    "there is no TLS yet; auth.insecure = true allows that"
                )
        if self.fleet.nameservers and not gateway.advertise and gateway.host in _ANY:
            raise ValueError(
                f"gateway.host is {gateway.host}, which no other finds: gateway.advertise says the address"
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
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"can't read the settings in {file}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file} is no valid TOML: {error}") from None
    for section, values in content.items():
        if not isinstance(values, dict):
            raise SettingsError(f"unknown setting {section!r} in {file}: settings stand in sections")
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
