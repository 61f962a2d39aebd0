"""What one look at a broker has seen of it: by its routes, and by what of its metrics is known by name. What an older
broker doesn't say isn't known."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from lakemq.client.http import HttpClient
from lakemq.model.errors import LakemqError

Samples = Mapping[str, Mapping[str, float]]
"""By name, and by the value of its one label, which is empty where there is none."""
Answer = TypeVar("Answer")
_NOTHING: Mapping[str, Any] = MappingProxyType({})
TOPIC_IN, GROUP_LAG = "lakemq_topic_messages_in_total", "lakemq_group_lag_messages"
JOBS_MAX = 100
NAMES_MAX = 20_000
"""So many samples of a name at most are looked at."""


class Seen(NamedTuple):
    """`problem`: why it doesn't answer; then all else is empty. `stored`: by topic, how many messages were ever in it,
    and `lags`: by group, how many it has yet to finish (None: not known), where the metrics don't say such. `silent`:
    why it didn't say something."""

    at_s: float
    problem: str = ""
    described: Mapping[str, Any] = _NOTHING
    samples: Samples = _NOTHING
    stored: Mapping[str, int] = _NOTHING
    lags: Mapping[str, int | None] = _NOTHING
    silent: tuple[str, ...] = ()

    @property
    def leads(self) -> bool:
        """Whether it says so."""
        return self.described.get("role") == "primary"

    def one(self, name: str, label: str = "") -> float | None:
        """A sample's value."""
        return self.samples.get(name, {}).get(label)


def look_at(address: str, timeout_s: float) -> Seen:
    """Ask a broker. Never raises: what is wrong is said."""
    silent: list[str] = []
    try:
        with HttpClient(address, timeout_s) as client:
            described = _checked(client.broker())
            samples = read_samples(_as_told(client.metrics, "", silent))
            leads = described.get("role") == "primary"
            topics = [] if TOPIC_IN in samples or not leads else _as_told(client.topics, [], silent)
            groups = [] if GROUP_LAG in samples or not leads else _as_told(client.groups, [], silent)
            stored = {str(each["topic"]): _ends_of(each) for each in topics}
            lags = {str(each["group"]): _number(each["lag_total"]) for each in groups}
            return Seen(time.monotonic(), "", described, samples, stored, lags, tuple(silent))
    except LakemqError as error:
        return Seen(time.monotonic(), error.detail)
    except (KeyError, TypeError, AttributeError, ValueError):
        return Seen(time.monotonic(), "this is no broker's answer")


def read_samples(text: str) -> Samples:
    """Those of Prometheus' text that have one label, or none; of a histogram what it counted. Raises `ValueError`."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.endswith("_bucket") or len(sample.labels) > 1:
                continue
            values = found.setdefault(sample.name, {})
            if len(values) < NAMES_MAX:
                values[next(iter(sample.labels.values()), "")] = sample.value
    return found


def _checked(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is shown of it. Raises `KeyError`, `TypeError`, `ValueError` where it isn't what a broker says."""
    jobs: Mapping[str, Any] = said.get("jobs") or {}
    return {
        "name": str(said["name"]),
        "role": str(said["role"]),
        "replica": int(said["replica"]),
        "epoch": int(said["epoch"]),
        "in_sync": None if said.get("in_sync") is None else [int(each) for each in said["in_sync"]],
        "follower_lag": _number(said.get("follower_lag")),
        "jobs": {
            str(name): {
                "alive": bool(job["alive"]),
                "lag": _number(job["lag"]),
                "heard_s": max(float(said["steady_ms"]) - float(job["last_heartbeat_ms"]), 0.0) / 1000,
            }
            for name, job in islice(jobs.items(), JOBS_MAX)
        },
    }


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _ends_of(topic: Mapping[str, Any]) -> int:
    return sum(int(queue["max_offset"]) for queue in topic["queues"])


def _as_told(ask: Callable[[], Answer], otherwise: Answer, silent: list[str]) -> Answer:
    """The answer; or that, where this user may not ask."""
    try:
        return ask()
    except LakemqError as error:
        silent.append(error.detail)
        return otherwise
