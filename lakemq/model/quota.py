"""How much of a broker one user may take. Requests and bytes, in a time, are counted by a bucket of tokens each
(`token_bucket.py`): what is only known afterwards, or is larger than the bucket, puts it into debt. Of connections,
topics and queues it is how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, cast

from lakemq.model.errors import InvalidRequest, OverQuota

BURST_S = 2
"""A bucket holds what comes in so many seconds."""
PER_S_MIN = 0.001
"""The lowest rate, so the highest wait for a single request is about a quarter of an hour."""
PER_S_MAX = 10**12
CONNECTIONS_MAX = 1_000_000
TOPICS_MAX = 1_000_000
QUEUES_MAX = 100_000_000
DELETED_RETRY_S = 60
"""Nobody knows when the user deletes a topic."""


class Quota(StrEnum):
    """What a quota is of."""

    REQUESTS = "requests"
    BYTES = "bytes"
    CONNECTIONS = "connections"
    TOPICS = "topics"
    QUEUES = "queues"


class Quotas(NamedTuple):
    """What a user may take. 0: as much as there is; None: what the broker's settings say."""

    requests_per_s: float | None = None
    bytes_per_s: float | None = None
    connections: int | None = None
    topics: int | None = None
    queues: int | None = None

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
NONE = Quotas(0, 0, 0, 0, 0)
_COUNTS_MAX = {"connections": CONNECTIONS_MAX, "topics": TOPICS_MAX, "queues": QUEUES_MAX}
"""What is counted, and the highest quota of it."""


class Made(NamedTuple):
    """What counts for one user: topics that it made, or was the last to add queues to, and all their queues."""

    topics: int
    queues: int


def room_refusal(user: str, quotas: Quotas, made: Made) -> OverQuota | None:
    """Why the user may not have made so much; None: it may."""
    limits = ((Quota.TOPICS, quotas.topics, made.topics), (Quota.QUEUES, quotas.queues, made.queues))
    for quota, most, count in limits:
        if 0 < (most or 0) < count:
            text = f"user {user} would have {count} {quota}, and its quota is {most}: delete topics that nobody needs"
            return OverQuota(text, quota, DELETED_RETRY_S)
    return None


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
        raise InvalidRequest(f"quotas are an object with some of {', '.join(Quotas._fields)}")
    said = {name: value for name, value in cast("Mapping[str, object]", fields).items() if name in Quotas._fields}
    for name, value in list(said.items()):
        if value is None:
            continue
        if (most := _COUNTS_MAX.get(name)) is not None:
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
                raise InvalidRequest(f"the quota {name} is a number up to {most}, 0 for none")
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
