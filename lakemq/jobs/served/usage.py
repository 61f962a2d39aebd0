"""What users take here counts in their quotas at each broker that the jobs follow: one rule, wherever they ask."""

from __future__ import annotations

import json
from collections.abc import Iterator

from lakemq.contract.sql_routes import USAGE
from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.served.brokers import Brokers
from lakemq.jobs.served.who import Asker
from lakemq.model.access import ADMINISTRATOR
from lakemq.model.errors import LakemqError, OverQuota, Unauthenticated, UserNotFound


class Usage:
    """As brokers keep it, who are asked as the jobs. For any thread."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def admit(self, asker: Asker, size: int, request_id: str) -> None:
        """A request with so many bytes goes. Raises `OverQuota`, which the broker that says so has audited,
        `Unauthenticated` where the user is gone, `BrokerUnavailable`."""
        said = {"requests": 1, "bytes": size, "source": asker.source, "request_id": request_id}
        for user, address in _limited(asker):
            self._tell(address, user, said)

    def took(self, asker: Asker, size: int) -> None:
        """It is to be answered in so many bytes. Raises as `admit`, but no `OverQuota`: what is too much waits before
        the next."""
        for user, address in _limited(asker):
            self._tell(address, user, {"bytes": size})

    def _tell(self, address: str, user: str, said: object) -> None:
        refusal = self._brokers.tell(address, USAGE.at(user), json.dumps(said).encode())
        if isinstance(refusal, OverQuota):
            raise refusal
        if isinstance(refusal, UserNotFound):
            raise Unauthenticated("this token is not valid")
        if isinstance(refusal, LakemqError):
            raise BrokerUnavailable(f"a broker doesn't take from these jobs what users take: {refusal.detail}")


def _limited(asker: Asker) -> Iterator[tuple[str, str]]:
    """Whom it may be too much for, and at which broker."""
    for address, user in zip(asker.addresses, asker.users, strict=True):
        if user is not None and user.name != ADMINISTRATOR:
            yield user.name, address
