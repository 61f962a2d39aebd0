"""Where routes come from, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from lakemq.client.transport import Transport
from lakemq.model.message_queue import MessageQueue

REFRESH_S = 30.0
"""How old a route may be."""
FORGET_S = 120.0
"""How long the queues of a broker that doesn't answer stay in the routes."""
ASK_TIMEOUT_S = 3.0
TOPICS_MAX = 10_000
"""Topics whose routes one client remembers: past that the oldest is asked for again."""
READ_WRITE = "rw"


class BrokerAddress(NamedTuple):
    """A broker's name, with which its message ids begin, and its address.

    `address`: that of its primary. It is empty while there is none; then `followers` serve pulls. `permission`: what
    clients may do there, `rw`, `r` or `w`.
    """

    name: str
    address: str
    followers: tuple[str, ...] = ()
    permission: str = READ_WRITE


class TopicRoute:
    """Where a topic's queues lie.

    `queues`: all of them, sorted. `readable` and `writable`: those that clients may pull from and produce
    to; where none may be written, all, so that a broker says why not. `writers`: the writable ones'
    brokers, sorted. `brokers`: where the brokers are, as far as that was said along.
    """

    __slots__ = ("brokers", "permissions", "queues", "readable", "topic", "writable", "writers")

    def __init__(
        self,
        topic: str,
        queues: Iterable[MessageQueue],
        permissions: Mapping[str, str] | None = None,
        brokers: Sequence[BrokerAddress] = (),
    ) -> None:
        self.topic = topic
        self.queues = sorted(queues)
        self.permissions = dict(permissions or {})
        self.brokers = brokers
        self.readable = [queue for queue in self.queues if "r" in self._permission(queue)]
        self.writable = [queue for queue in self.queues if "w" in self._permission(queue)] or self.queues
        self.writers = sorted({queue.broker for queue in self.writable})

    def _permission(self, queue: MessageQueue) -> str:
        return self.permissions.get(queue.broker, READ_WRITE)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicRoute):
            return NotImplemented
        return (self.queues, self.permissions, self.brokers) == (other.queues, other.permissions, other.brokers)

    __hash__ = None  # pyright: ignore[reportAssignmentType]  it is compared, and no key of anything


class RouteSource(Protocol):
    """A program's own source of routes, instead of addresses.

    Its methods are called on the client's event loop.
    """

    async def brokers(self) -> Sequence[BrokerAddress]:
        """All known brokers. Raises `Unreachable` if none could be asked."""
        ...

    async def routes(self, topic: str) -> list[MessageQueue]:
        """The topic's queues on all brokers, sorted. Raises `TopicNotFound`, `Unreachable`."""
        ...


class Source(Protocol):
    """Where a `Cluster` has its routes from. Lives on the client's event loop."""

    async def brokers(self) -> Sequence[BrokerAddress]:
        """As `RouteSource.brokers`."""
        ...

    async def route(self, topic: str) -> TopicRoute:
        """The topic's route. Raises `TopicNotFound`, `Unreachable`."""
        ...

    async def look(self, broker: BrokerAddress) -> BrokerAddress:
        """Where a broker is now that seems not to be led from where it was. Raises `LakemqError`."""
        ...

    def learn(self, route: TopicRoute) -> None:
        """The route of a topic that the client has just created: others may not know it yet."""
        ...

    async def close(self) -> None:
        """Ask nothing more."""
        ...


Connect = Callable[[str], Transport]
"""The connections to an address: the same ones each time."""
