"""Looks at a broker, for pages that are kept current: all pages of one user share them, and nobody looks without a
page that is open."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from lakemq.console.asked import Asked, Broker
from lakemq.console.shown import Number
from lakemq.contract import routes
from lakemq.model.errors import LakemqError

FRESH_S = 1.5
"""A look that is so new is shown again."""
SAMPLES_MAX = 20_000
_SAMPLE = re.compile(r'^(lakemq_\w+)(?:\{\w+="((?:[^"\\]|\\.)*)"\})? (\S+)$', re.MULTILINE)
_ESCAPED = re.compile(r"\\(.)")
Samples = Mapping[str, Mapping[str, float]]
"""By name, and by the value of its one label, which is empty where there is none."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Look(NamedTuple):
    """What a broker says. `problem`: why it doesn't answer; then all else is empty. `degraded`: what it says is wrong;
    None: it doesn't tell this user. `silent`: it doesn't tell this user its metrics."""

    address: str
    at_s: float
    problem: str = ""
    said: Mapping[str, Any] = _NOTHING
    degraded: Sequence[str] | None = None
    samples: Samples = _NOTHING
    silent: bool = False

    @property
    def name(self) -> str:
        """The broker's."""
        return str(self.said.get("name", self.address))

    @property
    def leads(self) -> bool:
        """Whether it says so."""
        return self.said.get("role") == "primary"

    def one(self, metric: str, label: str = "") -> Number:
        """A sample's value."""
        return self.samples.get(metric, _NOTHING).get(label)


class Pair(NamedTuple):
    """The last two looks at a broker."""

    now: Look
    before: Look | None = None

    def rate(self, metric: str, label: str = "") -> Number:
        """The rate per second of each counter between the two; a counter that was reset starts at 0."""
        if self.before is None or self.before.problem or self.now.at_s <= self.before.at_s:
            return None
        count, base = self.now.one(metric, label), self.before.one(metric, label)
        if count is None or base is None:
            return None
        return (count if count < base else count - base) / (self.now.at_s - self.before.at_s)


def read_samples(text: str) -> Samples:
    """Those of Prometheus' text that have one label, or none."""
    found: dict[str, dict[str, float]] = {}
    for number, match in enumerate(_SAMPLE.finditer(text)):
        name, label, value = match.groups()
        if number >= SAMPLES_MAX:
            break
        if name.endswith("_bucket"):
            continue
        try:
            found.setdefault(name, {})[_ESCAPED.sub(_unescape, label or "")] = float(value)
        except ValueError:
            continue
    return found


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


async def look_at(broker: Broker) -> Look:
    """Ask it. Raises nothing: what is wrong is said."""
    try:
        said, ready, metrics = await asyncio.gather(broker.describe(), _degraded(broker), _metrics(broker))
    except LakemqError as error:
        return Look(broker.address, time.monotonic(), error.detail)
    samples = {} if metrics is None else read_samples(metrics)
    return Look(broker.address, time.monotonic(), "", said, ready, samples, metrics is None)


async def _degraded(broker: Broker) -> list[str] | None:
    try:
        found: list[str] | None = (await broker.get(routes.READY.at())).get("degraded")
    except LakemqError as error:
        if error.code == "store_unwritable":
            return [error.detail]
        raise
    return found


async def _metrics(broker: Broker) -> str | None:
    if not (await broker.who()).may_see_cluster:
        return None
    try:
        return await broker.text(routes.METRICS.at())
    except LakemqError as error:
        if error.code == "forbidden":
            return None
        raise


class Watch:
    """One broker, as one user sees it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._pair: Pair | None = None
        self._asking: asyncio.Task[Pair] | None = None

    async def pair(self) -> Pair:
        """The last two looks, of which the last is new."""
        if self._pair is not None and time.monotonic() - self._pair.now.at_s < FRESH_S:
            return self._pair
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._ask())
        return await asyncio.shield(self._asking)

    async def _ask(self) -> Pair:
        try:
            found = await look_at(self._broker)
            before = None if self._pair is None or self._pair.now.problem else self._pair.now
            self._pair = Pair(found, before)
            return self._pair
        finally:
            self._asking = None


class Watches:
    """All brokers that a console knows, as one user sees them."""

    def __init__(self, asked: Asked) -> None:
        self._watches = {address: Watch(each) for address, each in asked.brokers.items()}

    async def pair_of(self, address: str) -> Pair:
        """That of one."""
        return await self._watches[address].pair()

    async def pairs(self) -> list[Pair]:
        """All of them."""
        return list(await asyncio.gather(*(each.pair() for each in self._watches.values())))
