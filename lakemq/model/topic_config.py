"""What a topic is configured to be, and which messages such a topic takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lakemq.model.errors import InvalidRequest, MessageTooLarge, WrongMessageType
from lakemq.model.message_columns import TTL_MS_MAX

ANY = "any"
PRIORITY = "priority"

KEY, QUEUE, DELAYED, HALF, PRIORITISED = (
    "an ordering key",
    "a queue of its choice",
    "a delay",
    "a transaction",
    "a priority",
)
"""What may be said of where and when a message goes."""

_ALLOWED: dict[str, frozenset[str]] = {
    ANY: frozenset({KEY, QUEUE, DELAYED, HALF}),
    "normal": frozenset({QUEUE}),
    "fifo": frozenset({KEY, QUEUE}),
    "delay": frozenset({QUEUE, DELAYED}),
    "transaction": frozenset({QUEUE, HALF}),
    PRIORITY: frozenset({QUEUE, PRIORITISED}),
}
_NEEDED: dict[str, frozenset[str]] = {
    "fifo": frozenset({KEY, QUEUE}),
    "delay": frozenset({DELAYED}),
    "transaction": frozenset({HALF}),
}
"""Of these each message has one."""
MESSAGE_TYPES = tuple(_ALLOWED)


class TopicConfig(NamedTuple):
    """A topic's configuration. `ttl_ms`: of messages that say none; 0: they don't expire. `message_bytes_max`: of a
    body; 0: as many as the broker takes."""

    message_type: str = ANY
    ttl_ms: int = 0
    message_bytes_max: int = 0

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> TopicConfig:
        """What a record says; what it doesn't say, or a later version has added, is as it is by default."""
        return cls(**{name: value for name, value in stored.items() if name in cls._fields})

    def stored(self) -> dict[str, Any]:
        """What a record has to say: all that isn't the default."""
        return {name: value for name, value in self._asdict().items() if value != self._field_defaults[name]}

    @property
    def restricts(self) -> bool:
        """Whether there are messages that a broker takes and such a topic doesn't, or puts elsewhere."""
        return self.message_type != ANY or self.message_bytes_max > 0


NOTHING_SAID = TopicConfig()


def changed(config: TopicConfig, given: Mapping[str, Any], bytes_max: int) -> TopicConfig:
    """The configuration with what is given (None: left as it is). `bytes_max`: the broker's own limit of a body.
    Raises `InvalidRequest`."""
    new = config._replace(**{name: value for name, value in given.items() if value is not None})
    if new.message_type not in _ALLOWED:
        raise InvalidRequest(f"message_type is one of {', '.join(MESSAGE_TYPES)}, not {new.message_type[:100]!r}")
    if not 0 <= new.ttl_ms <= TTL_MS_MAX:
        raise InvalidRequest(f"ttl_ms is {new.ttl_ms}; it may be 0 (messages don't expire) to {TTL_MS_MAX}")
    if given.get("message_bytes_max") is not None and not 0 <= new.message_bytes_max <= bytes_max:
        raise InvalidRequest(
            f"message_bytes_max is {new.message_bytes_max}; it may be 0 (as the broker) to {bytes_max}"
            " (gateway.message_bytes_max)"
        )
    return new


def check(config: TopicConfig, topic: str, every: frozenset[str], some: frozenset[str], bytes_most: int) -> None:
    """Raise `WrongMessageType` or `MessageTooLarge` unless the topic takes messages of which each has one of `every`
    at least, none has anything but `some`, and the largest body has so many bytes."""
    allowed = _ALLOWED.get(config.message_type, _ALLOWED[ANY])
    excess = some - allowed
    if excess:
        what = " or ".join(sorted(excess))
        raise WrongMessageType(f"topic {topic!r} has message_type {config.message_type}: no message has {what} there")
    needed = _NEEDED.get(config.message_type)
    if needed is not None and not every & needed:
        what = " or ".join(sorted(needed))
        raise WrongMessageType(f"topic {topic!r} has message_type {config.message_type}: each message has {what} there")
    if config.message_bytes_max and bytes_most > config.message_bytes_max:
        raise MessageTooLarge(
            f"a body has {bytes_most} bytes, more than the {config.message_bytes_max} of topic {topic!r}"
            " (message_bytes_max)"
        )
