"""What a quota says, and how it is read."""

from __future__ import annotations

from typing import Any

import pytest

from lakemq.model.errors import InvalidRequest
from lakemq.model.quota import (
    BURST_S,
    CONNECTIONS_MAX,
    NONE,
    PER_S_MAX,
    PER_S_MIN,
    QUEUES_MAX,
    TOPICS_MAX,
    Made,
    Quotas,
    burst_of,
    in_seconds,
    parse_quotas,
    room_refusal,
)


def test_an_answer_says_whole_seconds_that_are_no_less() -> None:
    assert [in_seconds(wait_ms) for wait_ms in (0, 1, 1_000, 1_001, 10_001)] == [1, 1, 1, 2, 11]


def test_two_seconds_of_it_go_at_once() -> None:
    assert burst_of(0.5) == 0.5 * BURST_S


def test_what_a_user_doesnt_have_of_its_own_is_the_default() -> None:
    own = Quotas(requests_per_s=5, connections=0)
    assert own.over(Quotas(1, 2, 3, 4)) == Quotas(5, 2, 0, 4)
    assert Quotas().over(NONE) == NONE
    assert not NONE.limits
    assert Quotas(0, 0, 1).limits
    assert Quotas(topics=1).limits


def test_what_a_user_made_is_held_against_what_it_may_have() -> None:
    def over(quotas: Quotas, topics: int, queues: int) -> tuple[str, str] | None:
        refusal = room_refusal("ann", quotas, Made(topics, queues))
        return None if refusal is None else (refusal.quota, refusal.detail.partition(":")[0])

    few = Quotas(topics=2, queues=10)
    assert over(few, 2, 10) is None
    assert over(few, 3, 10) == ("topics", "user ann would have 3 topics, and its quota is 2")
    assert over(few, 2, 11) == ("queues", "user ann would have 11 queues, and its quota is 10")
    for unlimited in (Quotas(), NONE):
        assert over(unlimited, 10**6, 10**6) is None


def test_quotas_are_read_as_they_are_written_and_what_is_not_said_stays() -> None:
    for quotas in (
        Quotas(),
        NONE,
        Quotas(0.5, 2**30, 7),
        Quotas(None, 1, CONNECTIONS_MAX, TOPICS_MAX, QUEUES_MAX),
    ):
        assert parse_quotas(quotas.fields()) == quotas
    assert parse_quotas({"bytes_per_s": None, "connections": 3}, Quotas(1, 2, 4)) == Quotas(1, None, 3)
    assert parse_quotas({"of_a_later_version": []}, NONE) == NONE
    assert repr(parse_quotas({"requests_per_s": 100.0}).requests_per_s) == "100"


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        "x",
        {"requests_per_s": -1},
        {"requests_per_s": "1"},
        {"requests_per_s": True},
        {"requests_per_s": PER_S_MIN / 2},
        {"bytes_per_s": PER_S_MAX + 1},
        {"bytes_per_s": float("nan")},
        {"bytes_per_s": float("inf")},
        {"connections": 1.5},
        {"connections": False},
        {"connections": -1},
        {"connections": CONNECTIONS_MAX + 1},
        {"topics": -1},
        {"topics": TOPICS_MAX + 1},
        {"queues": 1.5},
        {"queues": QUEUES_MAX + 1},
    ],
)
def test_what_is_no_quota_is_refused(fields: Any) -> None:
    with pytest.raises(InvalidRequest, match="quota"):
        parse_quotas(fields)
