from __future__ import annotations

import pytest

from lakemq.model.latency import LatencyTable, avoid_ms


@pytest.mark.parametrize(
    ("latency_ms", "avoided_ms"),
    [
        (0, 0),
        (100, 0),
        (549, 0),
        (550, 30_000),
        (999, 30_000),
        (1_000, 60_000),
        (2_000, 120_000),
        (3_000, 180_000),
        (14_999, 180_000),
        (15_000, 600_000),
        (10**9, 600_000),
    ],
)
def test_the_slower_the_longer_it_is_avoided(latency_ms: int, avoided_ms: int) -> None:
    assert avoid_ms(latency_ms) == avoided_ms


def test_brokers_take_turns() -> None:
    table = LatencyTable()
    picked = [table.pick(["a", "b", "c"], 0) for _ in range(6)]
    assert sorted(picked) == ["a", "a", "b", "b", "c", "c"]
    assert picked[:3] == picked[3:]


def test_a_broker_that_failed_is_avoided_until_its_time_is_over() -> None:
    table = LatencyTable()
    table.note_failure("a", 1_000)
    assert {table.pick(["a", "b"], now) for now in range(1_000, 181_000, 1_000)} == {"b"}
    assert {table.pick(["a", "b"], 181_000) for _ in range(4)} == {"a", "b"}


def test_a_broker_that_is_back_is_picked_again() -> None:
    table = LatencyTable()
    table.note_failure("a", 0)
    table.forgive("a")
    assert {table.pick(["a", "b"], 1) for _ in range(4)} == {"a", "b"}
    table.forgive("never heard of")


def test_an_answer_in_good_time_ends_it() -> None:
    table = LatencyTable()
    table.note_failure("a", 0)
    table.note("a", 3, 10)
    assert not table.is_avoided("a", 11)


def test_when_all_are_avoided_the_least_bad_is_picked() -> None:
    table = LatencyTable()
    table.note("a", 3_000, 0)
    table.note("b", 700, 0)
    table.note("c", 20_000, 0)
    assert {table.pick(["a", "b", "c"], 1) for _ in range(4)} == {"b"}
    table.note("b", 15_000, 600_000)  # free at 1,200,000
    table.note("a", 15_001, 600_000)
    table.note("c", 15_002, 600_000)
    assert table.pick(["a", "b", "c"], 600_001) == "b"
