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

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from lakemq.model.errors import SettingsError
from lakemq.model.ids import is_broker_name

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
HOUR_MS = 3_600_000
ENV_PREFIX = "LAKEMQ_"
DEFAULT_FILE = Path("conf/lakemq.toml")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Broker(_Section):
    """Who this broker is."""

    name: str = "broker-a"

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if not is_broker_name(value):
            raise ValueError("a broker's name matches [A-Za-z0-9_-]{1,63}")
        return value


class Gateway(_Section):
    """Where the gateway listens, and how much it takes on at once."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    message_bytes_max: int = Field(default=4 * MIB, ge=1, le=64 * MIB)
    request_bytes_max: int = Field(default=64 * MIB, ge=1, le=GIB)
    request_bytes_in_flight_max: int = Field(default=256 * MIB, ge=1)
    connections_max: int = Field(default=20_000, ge=1)
    waiters_max: int = Field(default=20_000, ge=1)
    messages_per_pull_max: int = Field(default=10_000, ge=1, le=100_000)
    pull_bytes_max: int = Field(default=16 * MIB, ge=64 * KIB, le=GIB)
    wait_ms_max: int = Field(default=60_000, ge=0, le=600_000)
    stop_grace_ms: int = Field(default=5_000, ge=0)


class Storage(_Section):
    """The CommitLog on the local disk."""

    data_dir: Path = Path("data")
    segment_bytes: int = Field(default=GIB, ge=MIB, le=64 * GIB)
    frame_bytes_max: int = Field(default=160 * MIB, ge=MIB, le=GIB)
    flush: Literal["async", "sync"] = "async"
    flush_interval_ms: int = Field(default=500, ge=1, le=60_000)
    flush_bytes: int = Field(default=16 * MIB, ge=KIB)
    dirty_bytes_max: int = Field(default=256 * MIB, ge=MIB)
    verify_ms: int = Field(default=250, ge=0)
    snapshot_bytes: int = Field(default=64 * MIB, ge=KIB)
    snapshot_interval_ms: int = Field(default=30_000, ge=100)
    retention_ms: int = Field(default=72 * HOUR_MS, ge=0)
    disk_high_ratio: float = Field(default=0.85, gt=0, le=1)
    free_bytes_min: int = Field(default=16 * MIB, ge=0)
    compression: Literal["none", "lz4", "zstd"] = "lz4"
    compression_body_bytes_min: int = Field(default=4 * KIB, ge=0)
    cache_bytes: int = Field(default=32 * MIB, ge=0)


class Topics(_Section):
    """How topics come to be."""

    auto_create: bool = True
    default_queues: int = Field(default=4, ge=1, le=1024)
    queues_max: int = Field(default=1024, ge=1, le=65_535)
    topics_max: int = Field(default=10_000, ge=1)


class Idempotency(_Section):
    """How long, and for how many keys, a repeated request is answered with the first result."""

    window_ms: int = Field(default=600_000, ge=0)
    keys_max: int = Field(default=200_000, ge=1)


class Lake(_Section):
    """The Delta tables and the query that writes them."""

    dir: Path = Path("lake")
    trigger_ms: int = Field(default=5_000, ge=0)
    messages_per_trigger_max: int = Field(default=1_000_000, ge=1)
    partitions: int = Field(default=2, ge=1, le=1024)
    optimize_interval_ms: int = Field(default=600_000, ge=0)


class Spark(_Section):
    """The session that `lakemq jobs` and `lakemq sql` start; `conf` is passed on to Spark.

    The jobs run with `niceness`: what they do can wait, a gateway on the same machine can't.
    """

    master: str = "local[2]"
    driver_memory: str = "2g"
    niceness: int = Field(default=10, ge=0, le=19)
    conf: dict[str, str] = Field(default_factory=dict)


class Settings(_Section):
    """Everything that can be set, by section."""

    broker: Broker = Field(default_factory=Broker)
    gateway: Gateway = Field(default_factory=Gateway)
    storage: Storage = Field(default_factory=Storage)
    topics: Topics = Field(default_factory=Topics)
    idempotency: Idempotency = Field(default_factory=Idempotency)
    lake: Lake = Field(default_factory=Lake)
    spark: Spark = Field(default_factory=Spark)

    @model_validator(mode="after")
    def _limits_fit(self) -> Settings:
        gateway, storage, topics = self.gateway, self.storage, self.topics
        if gateway.message_bytes_max > gateway.request_bytes_max:
            raise ValueError("gateway.message_bytes_max is above gateway.request_bytes_max")
        if gateway.request_bytes_max > gateway.request_bytes_in_flight_max:
            raise ValueError("gateway.request_bytes_max is above gateway.request_bytes_in_flight_max")
        if storage.frame_bytes_max < 2 * gateway.request_bytes_max:
            raise ValueError("storage.frame_bytes_max is below 2 × gateway.request_bytes_max")
        if topics.default_queues > topics.queues_max:
            raise ValueError("topics.default_queues is above topics.queues_max")
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
    process's own.
    """
    environment = os.environ if environment is None else environment
    if file is None:
        file = DEFAULT_FILE if DEFAULT_FILE.exists() else None
    layers = [
        (str(file), _read_file(file) if file else {}),
        ("the environment", _read_environment(environment)),
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


def _read_environment(environment: Mapping[str, str]) -> Layer:
    layer: Layer = {}
    for name, value in environment.items():
        if name.startswith(ENV_PREFIX) and "__" in name:
            section, _, key = name.removeprefix(ENV_PREFIX).lower().partition("__")
            layer.setdefault(section, {})[key] = value
    return layer


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
    return f"setting {name!r} in {source}: {message} (got {fault.get('input')!r})"
