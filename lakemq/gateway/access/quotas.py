"""What users with a quota take of a broker: requests, bytes of bodies both ways, connections, and the topics that
they make. Of who has none nothing is counted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from lakemq.model.access import User, UserType
from lakemq.model.errors import OverQuota
from lakemq.model.quota import NONE, Made, Quota, Quotas, burst_of, in_seconds, room_refusal
from lakemq.model.token_bucket import TokenBucket
from lakemq.settings import Auth
from lakemq.storage.disk.clock import Clock
from lakemq.web.asgi import Scope
from lakemq.web.meter import METER, body_bytes
from lakemq.web.seat import SEAT, Seat

CLOSED_RETRY_S = 1
"""Nobody knows when a connection of the user's is closed."""


class Usage:
    """What one user takes, by whatever tokens, addresses and connections."""

    __slots__ = ("_bytes", "_now_ms", "_quotas", "_requests", "_user", "connections")

    def __init__(self, user: str, quotas: Quotas, now_ms: Callable[[], int]) -> None:
        self._user, self._quotas, self._now_ms = user, Quotas(), now_ms
        self._requests: TokenBucket | None = None
        self._bytes: TokenBucket | None = None
        self.connections = 0
        self.change(quotas)

    def change(self, quotas: Quotas) -> None:
        """These are its quotas from now on. Connections that are open stay."""
        if quotas != self._quotas:
            now_ms = self._now_ms()
            self._requests = _bucket(self._requests, quotas.requests_per_s, now_ms, whole=True)
            self._bytes = _bucket(self._bytes, quotas.bytes_per_s, now_ms, whole=False)
            self._quotas = quotas

    def has_room(self, seat: Seat | None) -> bool:
        """Whether a request goes now, on a connection that has a place then."""
        return self.refusal(seat) is None

    def refusal(self, seat: Seat | None) -> OverQuota | None:
        """Why a request on that connection doesn't go now. The connection has a place then, where there is one."""
        if seat is not None and seat.of is not self:
            if (refusal := self.one_more(self.connections)) is not None:
                return refusal
            seat.move(self)
        now_ms = self._now_ms()
        waits_ms = 0 if self._requests is None else self._requests.wait_ms(now_ms)
        bytes_ms = 0 if self._bytes is None else self._bytes.wait_ms(now_ms)
        if not waits_ms and not bytes_ms:
            return None
        quota, rate = Quota.REQUESTS, self._quotas.requests_per_s
        if bytes_ms > waits_ms:
            quota, rate, waits_ms = Quota.BYTES, self._quotas.bytes_per_s, bytes_ms
        text = f"user {self._user} has taken all that its quota of {rate} {quota} a second lets it take"
        return OverQuota(text, quota, in_seconds(waits_ms))

    def one_more(self, connections: int) -> OverQuota | None:
        """Why a user with so many connections may not have another."""
        if not 0 < (self._quotas.connections or 0) <= connections:
            return None
        text = f"as many connections as its quota lets it, {self._quotas.connections}"
        return OverQuota(f"user {self._user} has {text}", Quota.CONNECTIONS, CLOSED_RETRY_S, closes=True)

    def no_room(self, made: Callable[[], Made]) -> OverQuota | None:
        """Why the user may not have made so many topics and queues."""
        quotas = self._quotas
        return room_refusal(self._user, quotas, made()) if quotas.topics or quotas.queues else None

    def begin(self, size: int) -> None:
        """A request with so many bytes of body goes."""
        now_ms = self._now_ms()
        if self._requests is not None:
            self._requests.take(1, now_ms)
        if self._bytes is not None:
            self._bytes.take(size, now_ms)

    def took(self, size: int) -> None:
        """So many bytes more have come, or gone."""
        if self._bytes is not None:
            self._bytes.take(size, self._now_ms())


def _bucket(before: TokenBucket | None, per_s: float | None, now_ms: int, whole: bool) -> TokenBucket | None:
    if not per_s:
        return None
    burst = burst_of(per_s)
    return TokenBucket(burst, per_s, now_ms, whole=whole) if before is None else before.change(burst, per_s, now_ms)


class QuotaKeeper:
    """Those of one broker. `refused`: how many requests each kind of quota held up."""

    def __init__(self, limits: Auth, request_bytes_max: int, clock: Clock) -> None:
        self._defaults = Quotas(
            limits.user_requests_per_s_max,
            limits.user_bytes_per_s_max,
            limits.user_connections_max,
            limits.user_topics_max,
            limits.user_queues_max,
        )
        self._users_max = limits.users_max
        self._request_bytes_max = request_bytes_max
        self._clock = clock
        self._of: OrderedDict[str, Usage] = OrderedDict()
        self.refused = dict.fromkeys(Quota, 0)

    def of(self, user: User) -> Usage | None:
        """What the user takes; None: it has no quota. Super users have none but their own."""
        defaults = NONE if user.type is UserType.SUPER else self._defaults
        quotas = user.quotas.over(defaults)
        usage = self._of.get(user.name)
        if not quotas.limits:
            if usage is not None:
                usage.change(quotas)  # its connections are counted on: it may have a quota again
            return None
        if usage is None:
            usage = self._of[user.name] = Usage(user.name, quotas, self._clock.counted_ms)
            if len(self._of) > self._users_max:  # of users that were deleted
                self._of.popitem(last=False)
        usage.change(quotas)
        self._of.move_to_end(user.name)
        return usage

    def admit(self, usage: Usage | None, scope: Scope, seated: bool = True) -> None:
        """Let a request of that user's go, and count it. `seated`: its connection is the user's own. Raises
        `OverQuota`."""
        seat: Seat | None = scope.get(SEAT) if seated else None
        if usage is None:
            if seat is not None:
                seat.leave()
            return
        self._raise(usage.refusal(seat))
        # One that is too large is refused as it comes, so no more than that does.
        usage.begin(min(body_bytes(scope["headers"]) or 0, self._request_bytes_max))
        scope[METER] = usage

    def take(self, user: User, requests: int, size: int, connections: int = 0) -> None:
        """The user takes something beside the gateway: with a request that may be refused, as here. `connections`: so
        many others the user has there, if the request is the first of its connection. Raises `OverQuota`, and then
        nothing was taken."""
        usage = self.of(user)
        if usage is None:
            return
        if requests:
            self._raise(usage.one_more(connections) or usage.refusal(None))
            usage.begin(size)
        else:
            usage.took(size)

    def _raise(self, refusal: OverQuota | None) -> None:
        if refusal is not None:
            self.refused[Quota(refusal.quota)] += 1
            raise refusal
