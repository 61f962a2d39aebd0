"""One route of the contract, and what may stand in its query."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple
from urllib.parse import quote

from lakemq.contract.right import Right, Rights
from lakemq.model.errors import InvalidRequest

_NO_NAMES = ("", ".", "..")
_READING = ("GET", "HEAD")


class Reads(Enum):
    """What a route reads of a request beside its path and query."""

    NOTHING = "nothing"
    """Or what its handler looks at itself."""
    JSON = "JSON"
    """The body, if there is one, has to be called JSON."""
    MESSAGES = "messages"
    """One or many, in any form; headers `Lakemq-…` are fields of the message."""


class Answered(Enum):
    """When a route's answer may be given."""

    AT_ONCE = "at once"
    """It says nothing that could be lost again, as what it shows is confirmed."""
    BY_HANDLER = "when its handler says so"
    """As that waits for less than all that is written, or has to do something afterwards."""
    SHOWN = "when it may be shown"
    """Under synchronous replication: when all that is written by then is confirmed."""
    SAFE = "when it is safe"
    """So too; or when it is on disk, as `storage.flush` says; or confirmed, as its `ack` does."""
    TOPICS_SHOWN = "when what it says of topics may be shown"
    """Under synchronous replication: at once, unless a change of a topic isn't confirmed yet."""
    CONFIRMED = "when it is confirmed"
    """Whatever the settings say."""


class Target(NamedTuple):
    """A route with its names filled in: what a client asks for."""

    method: str
    path: str


class Field(NamedTuple):
    """A field of a query. `default` None: there is none, or it is the handler's. `least`: of an integer."""

    name: str
    kind: str
    description: str = ""
    default: str | int | bool | None = None
    required: bool = False
    choices: tuple[str, ...] = ()
    least: int | None = None


@dataclass(frozen=True, eq=False)
class Route:
    """A method and a path. Each name in braces stands for one segment of the path, which is never empty."""

    method: str
    path: str
    tag: str
    summary: str
    query: tuple[Field, ...] = ()
    reads: Reads = Reads.NOTHING
    hands_out: bool = False
    """Whether a GET of it changes something all the same, as what it answers is this client's then."""
    of_replica: bool = False
    """Whether it is for the replica that is asked, and not for whoever leads."""
    differs: Answered | None = None
    """When it may be answered, if that is not as of most."""
    rights: Rights = field(kw_only=True)
    """What it needs of who asks."""
    audited: bool = field(kw_only=True, default=False)
    """Whether it is written down who did it, before it is done, or it isn't done: it changes more than messages, and
    how far they are consumed."""
    urgent: bool = field(kw_only=True, default=False)
    """Whether it is done also where it can't be written down: it may be what it takes to write again."""
    answered: Answered = field(init=False)
    """When it may be answered: of most that are got `SHOWN`, of all others `SAFE`."""
    writes: bool = field(init=False)
    """Whether it changes anything: followers serve only what doesn't."""
    names: frozenset[str] = field(init=False)
    """Of the query's fields."""
    bound: tuple[Field, ...] = field(init=False)
    """Those of them that are needed, or have only some values."""
    within: tuple[str, ...] = field(init=False)
    """The names in the path."""
    path_rights: tuple[Right, ...] = field(init=False)
    """What of `rights` is known by the path alone."""
    query_rights: tuple[Right, ...] = field(init=False)
    """What is known by the query."""
    needed: bool = field(init=False)
    """Whether there has to be a query."""
    _template: str = field(init=False)

    def __post_init__(self) -> None:
        segments = ["%s" if is_name(each) else each for each in self.path.split("/")]
        object.__setattr__(self, "_template", "/".join(segments))
        object.__setattr__(self, "names", frozenset(each.name for each in self.query))
        within = tuple(each[1:-1] for each in self.path.split("/") if is_name(each))
        object.__setattr__(self, "within", within)
        by_query = tuple(each for each in self.rights.each if each.of and each.of not in within)
        object.__setattr__(self, "query_rights", by_query)
        object.__setattr__(self, "path_rights", tuple(each for each in self.rights.each if each not in by_query))
        reads = self.method in _READING
        object.__setattr__(self, "writes", (self.hands_out or not reads) and not self.of_replica)
        object.__setattr__(self, "answered", self.differs or (Answered.SHOWN if reads else Answered.SAFE))
        object.__setattr__(self, "needed", any(each.required for each in self.query))
        object.__setattr__(self, "bound", tuple(each for each in self.query if each.required or each.choices))

    def at(self, *values: str | int) -> Target:
        """The route with the values of its names, in their order. Raises `InvalidRequest` for a value that can be none,
        as it would make another path."""
        return Target(self.method, self._template % tuple([_segment(str(each)) for each in values]))


def _segment(value: str) -> str:
    if value in _NO_NAMES or "/" in value:
        raise InvalidRequest(f"{value!r} is no name")
    return quote(value, safe="")


def is_name(segment: str) -> bool:
    """Whether the segment of a route's path is a name in braces."""
    return segment.startswith("{")
