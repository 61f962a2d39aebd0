"""What users take here counts in their quotas at each broker that the jobs follow: one rule, wherever they ask."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lakemq.contract.sql_routes import USAGE
from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.served.brokers import Brokers
from lakemq.jobs.served.who import Asker
from lakemq.model.access import ADMINISTRATOR
from lakemq.model.errors import InvalidRequest, LakemqError, OverQuota, Unauthenticated, UserNotFound
from lakemq.model.quota import Quota


class Usage:
    """As brokers keep it, who are asked as the jobs. For any thread."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def admit(self, asker: Asker, size: int, request_id: str, others: int = 0) -> None:
        """A request with so many bytes goes. `others`: so many other connections to this server the user has, if it is
        the first of its connection. Raises `OverQuota`, which the broker that says so has audited, and which closes a
        connection that is one too many, `Unauthenticated` where the user is gone, `BrokerUnavailable`."""
        said = {"requests": 1, "bytes": size, "source": asker.source, "request_id": request_id}
        if others:
            said["connections"] = others
        for user, address in _limited(asker):
            self._tell(address, user, said)

    def took(self, asker: Asker, size: int) -> None:
        """It is to be answered in so many bytes. Raises as `admit`, but no `OverQuota`: what is too much waits before
        the next."""
        for user, address in _limited(asker):
            self._tell(address, user, {"bytes": size})

    def _tell(self, address: str, user: str, said: Mapping[str, Any]) -> None:
        refusal = self._brokers.tell(address, USAGE.at(user), json.dumps(said).encode())
        if isinstance(refusal, InvalidRequest) and "connections" in said:  # a broker of an earlier version
            fewer = {name: value for name, value in said.items() if name != "connections"}
            refusal = self._brokers.tell(address, USAGE.at(user), json.dumps(fewer).encode())
        if isinstance(refusal, OverQuota):
            refusal.closes = refusal.quota == Quota.CONNECTIONS
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
