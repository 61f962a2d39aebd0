"""The options of `format("lakemq")`, read and checked before anything is asked of a broker."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lakemq.jobs.errors import InvalidOption
from lakemq.jobs.log_client import Subscription, check_token
from lakemq.jobs.source.columns import COLUMNS, EXTRA_COLUMNS
from lakemq.model.decide import Kind

EARLIEST = -2
LATEST = -1
PARTITIONS_MAX = 1024
TIMERS = ("delay", "transaction", "receive", "any")
TICK_MS = 500
TICK_MS_MAX = 600_000
"""While nothing waits either, a stream with ticks has one so often: what goes by the time never has to catch up with
more."""
WAIT_MS_MAX = 30_000


@dataclass(frozen=True)
class QueueOffsets:
    """Queue offsets by topic and queue; `EARLIEST` and `LATEST` stand for themselves."""

    by_queue: dict[str, dict[int, int]]


@dataclass(frozen=True)
class Positions:
    """Log positions by broker."""

    by_broker: dict[str, int]


Bound = Literal["earliest", "latest"] | QueueOffsets | Positions


@dataclass(frozen=True)
class SourceOptions:
    """What a reader was asked for. What was not given is None, but for what has a default.

    `tick_ms`: each batch of a stream also has a row of just its clock; the first has one at once,
    and while `timer` is over there is such a batch every `tick_ms`. `pending`: with a broker's ticks come the causes of
    these kinds that it has pending, as `listed_until` its clock. `nameservers`: who is asked for the brokers, once,
    as the reading begins. `token`: by which it says who it is; None: that of where it runs.
    """

    brokers: tuple[str, ...] = ()
    nameservers: tuple[str, ...] = ()
    subscription: Subscription = field(default_factory=Subscription)
    starting: Bound | None = None
    starting_timestamp_ms: int | None = None
    ending: Bound | None = None
    messages_per_trigger_max: int | None = None
    columns: tuple[str, ...] = (*COLUMNS, "clock")
    partitions: int = 4
    retry_s: int = 30
    fail_on_data_loss: bool = True
    wait_ms: int = 0
    timer: str | None = None
    tick_ms: int | None = None
    pending: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Reads the options, whose names Spark compares without case; raises `InvalidOption`."""
    given = {name.lower(): value for name, value in options.items()}
    known = {name.lower(): name for name in _PARSERS}
    unknown = sorted(set(given) - set(known) - {"path"})
    if unknown:
        raise InvalidOption(f"unknown option {unknown[0]!r}; there are {', '.join(_PARSERS)}")
    if ("broker" in given) == ("nameservers" in given):
        raise InvalidOption("option 'broker' is needed: the address of a gateway, or several; or else 'nameservers'")
    if "subscribe" in given and "subscribepattern" in given:
        raise InvalidOption("give either 'subscribe' or 'subscribePattern'")
    if "startingoffsets" in given and "startingtimestamp" in given:
        raise InvalidOption("give either 'startingOffsets' or 'startingTimestamp'")
    fields: dict[str, Any] = {}
    for lower, value in given.items():
        name = known[lower]
        attribute, parse = _PARSERS[name]
        try:
            fields[attribute] = parse(value)
        except (ValueError, TypeError, AttributeError, re.error) as error:
            raise InvalidOption(f"option {name!r} can't be {value!r}: {error}") from None
    if "timer" in fields:
        fields.setdefault("tick_ms", TICK_MS)
    if "pending" in fields and "tick_ms" not in fields:
        raise InvalidOption(
            "option 'pending' goes with 'timer' or 'tickMs': by each tick the broker lists what comes next"
        )
    return SourceOptions(**fields)


def _names(value: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in value.split(","))
    if not all(names):
        raise ValueError("a name is empty")
    if len(set(names)) < len(names):
        raise ValueError("a name is there twice")
    return names


def _pattern(value: str) -> Subscription:
    re.compile(value)
    return Subscription(pattern=value)


def _columns(value: str) -> tuple[str, ...]:
    names = _names(value)
    known = COLUMNS | EXTRA_COLUMNS
    for name in names:
        if name not in known:
            raise ValueError(f"no column {name!r}; there are {', '.join(known)}")
    return names


def _timer(value: str) -> str:
    if value not in TIMERS:
        raise ValueError(f"there are {', '.join(TIMERS)}")
    return value


def _pending(value: str) -> tuple[str, ...]:
    kinds = _names(value)
    return tuple(Kind(kind).value for kind in kinds)


def _token(value: str) -> str:
    check_token(value)  # what it raises is no error of a value's: it doesn't show it
    return value


def _integer(least: int, most: int | None = None) -> Callable[[str], int]:
    def parse(value: str) -> int:
        number = int(value)
        if number < least or (most is not None and number > most):
            raise ValueError(f"at least {least}" + ("" if most is None else f", at most {most}"))
        return number

    return parse


def _boolean(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.lower() == "true"


def _bound(value: str) -> Bound:
    text = value.strip()
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    content = json.loads(text)
    if not isinstance(content, dict) or not content:
        raise ValueError('"earliest", "latest" or a JSON object is needed')
    if list(content) == ["positions"] and _is_flat(content["positions"]):
        return Positions({str(name): _offset(at, 0) for name, at in content["positions"].items()})
    return QueueOffsets(
        {
            topic: {int(queue): _offset(at, EARLIEST) for queue, at in queues.items()}
            for topic, queues in content.items()
        }
    )


def _is_flat(value: object) -> bool:
    """Whether these are positions by broker, and no queue offsets of a topic called `positions`."""
    return isinstance(value, dict) and not all(str(name).isdecimal() for name in value)


def _offset(value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{value!r} is no offset")
    return value


_PARSERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "broker": ("brokers", _names),
    "nameservers": ("nameservers", _names),
    "subscribe": ("subscription", lambda value: Subscription(topics=_names(value))),
    "subscribePattern": ("subscription", _pattern),
    "startingOffsets": ("starting", _bound),
    "startingTimestamp": ("starting_timestamp_ms", _integer(0)),
    "endingOffsets": ("ending", _bound),
    "maxMessagesPerTrigger": ("messages_per_trigger_max", _integer(1)),
    "columns": ("columns", _columns),
    "partitions": ("partitions", _integer(1, PARTITIONS_MAX)),
    "retrySeconds": ("retry_s", _integer(0, 3600)),
    "failOnDataLoss": ("fail_on_data_loss", _boolean),
    "waitMs": ("wait_ms", _integer(0, WAIT_MS_MAX)),
    "timer": ("timer", _timer),
    "tickMs": ("tick_ms", _integer(1, WAIT_MS_MAX)),
    "pending": ("pending", _pending),
    "token": ("token", _token),
}
