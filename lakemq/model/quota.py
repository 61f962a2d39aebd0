"""How much of a broker one user may take in a time. Requests and bytes are counted by a bucket of tokens each
(`token_bucket.py`): what is only known afterwards, or is larger than the bucket, puts it into debt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, cast

from lakemq.model.errors import InvalidRequest

BURST_S = 2
"""A bucket holds what comes in so many seconds."""
PER_S_MIN = 0.001
"""The lowest rate, so the highest wait for a single request is about a quarter of an hour."""
PER_S_MAX = 10**12
CONNECTIONS_MAX = 1_000_000


class Quota(StrEnum):
    """What a quota is of."""

    REQUESTS = "requests"
    BYTES = "bytes"
    CONNECTIONS = "connections"


class Quotas(NamedTuple):
    """What a user may take. 0: as much as there is; None: what the broker's settings say."""

    requests_per_s: float | None = None
    bytes_per_s: float | None = None
    connections: int | None = None

    def over(self, defaults: Quotas) -> Quotas:
        """These, and of the defaults what these don't say."""
        return Quotas(*(theirs if own is None else own for own, theirs in zip(self, defaults, strict=True)))  # type: ignore[arg-type]

    @property
    def limits(self) -> bool:
        """Whether any of them holds anybody up."""
        return any(self)

    def fields(self) -> dict[str, float | int | None]:
        """As JSON values, as `parse_quotas` takes them."""
        return self._asdict()


UNSAID = Quotas()
NONE = Quotas(0, 0, 0)


def is_rate(value: object) -> bool:
    """Whether that is so much a second: 0, or what is neither too little nor too much."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value == 0 or PER_S_MIN <= value <= PER_S_MAX


def plain(rate: float) -> float:
    """The same number, as people write it: 100 and not 100.0."""
    return int(rate) if rate == int(rate) else rate


def parse_quotas(fields: object, before: Quotas = UNSAID) -> Quotas:
    """The quotas of such a JSON object; what it doesn't say is as `before`, and names that are none are passed over: a
    later version may know them. Raises `InvalidRequest`."""
    if not isinstance(fields, Mapping):
        raise InvalidRequest("quotas are an object with requests_per_s, bytes_per_s and connections")
    said = {name: value for name, value in cast("Mapping[str, object]", fields).items() if name in Quotas._fields}
    for name, value in list(said.items()):
        if value is None:
            continue
        if name == "connections":
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= CONNECTIONS_MAX:
                raise InvalidRequest(f"the quota connections is a number up to {CONNECTIONS_MAX}, 0 for none")
        elif not is_rate(value):
            raise InvalidRequest(f"the quota {name} is a number from {PER_S_MIN} to {PER_S_MAX}, or 0 for none")
        else:
            said[name] = plain(cast("float", value))
    return before._replace(**said)  # pyright: ignore[reportArgumentType]  each was looked at


def burst_of(per_s: float) -> float:
    """How much goes at once, at such a rate."""
    return per_s * BURST_S


def in_seconds(wait_ms: int) -> int:
    """Whole seconds that are no less, and one at least: what `Retry-After` says."""
    return max(math.ceil(wait_ms / 1_000), 1)
