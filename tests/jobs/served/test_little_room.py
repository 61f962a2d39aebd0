"""Refusals that a broker has no room for in one request: from the first of them on none was in the audit."""

from __future__ import annotations

import json

import pytest

from lakemq.contract.route import Target
from lakemq.jobs.served.brokers import Brokers
from lakemq.jobs.served.refusals import Refusal, Refusals
from lakemq.model.errors import LakemqError, MessageTooLarge

OTHERS = 30
HUGE = "\U0001f600" * 400
"""What stands in a path may be as long, and takes twelve bytes a letter."""


class Small(Brokers):
    """A broker that takes requests of so many bytes."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__()
        self._bytes_max = bytes_max
        self.users: list[str] = []
        self.missed = 0

    def tell(self, address: str, target: Target, body: bytes) -> LakemqError | None:
        del address, target
        if len(body) > self._bytes_max:
            return MessageTooLarge(f"this takes {self._bytes_max} bytes")
        said = json.loads(body)
        self.users += [each["user"] for each in said["refusals"]]
        self.missed += said["missed"]
        return None


@pytest.mark.parametrize(("bytes_max", "lost"), [(12_000, 0), (2_000, 3)])
def test_what_a_broker_has_no_room_for_holds_up_none_behind_it(bytes_max: int, lost: int) -> None:
    broker = Small(bytes_max)
    told = Refusals(broker, lambda: "http://127.0.0.1:1")
    large = [Refusal("mallory", None, HUGE, "why", "", "run") for _ in range(3)]
    others = [Refusal(f"user-{number}", None, "SELECT", "why", "") for number in range(OTHERS)]
    for each in (*others[:10], *large, *others[10:]):
        told.add(each)
    told.close()
    assert [each for each in broker.users if each != "mallory"] == [each.user for each in others]
    assert (broker.users.count("mallory"), broker.missed) == (3 - lost, lost)
