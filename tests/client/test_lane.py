"""When a batch goes: Nagle's rule with a bound, and one at a time where order counts."""

from __future__ import annotations

from lakemq.client import MessageQueue
from lakemq.client.produce.batch import Batch
from lakemq.client.produce.lane import Lane, LaneKind

LINGER_S = 0.005


def take(lane: Lane, now_s: float = 0.0, in_flight_max: int = 2, flushing: bool = False) -> Batch | None:
    return lane.take(in_flight_max, LINGER_S, now_s, flushing)


def lane_with(kind: LaneKind, ready: int, is_open: bool) -> Lane:
    lane = Lane(kind)
    lane.ready.extend(Batch("orders", 0.0) for _ in range(ready))
    lane.open = Batch("orders", 0.0) if is_open else None
    return lane


def test_a_lone_batch_goes_at_once_and_the_next_waits_for_company() -> None:
    lane = lane_with(LaneKind("orders"), ready=0, is_open=True)
    first = take(lane)
    assert first is not None
    lane.open = Batch("orders", 0.0)
    assert take(lane, LINGER_S - 0.001) is None
    lane.flying.discard(first)
    assert take(lane, LINGER_S - 0.001) is not None


def test_it_waits_no_longer_than_it_may() -> None:
    lane = lane_with(LaneKind("orders"), ready=1, is_open=True)
    assert take(lane) is not None
    assert take(lane, LINGER_S - 0.001) is None
    assert take(lane, LINGER_S) is not None
    assert take(lane, 1.0) is None


def test_flushing_waits_for_nothing_but_a_place() -> None:
    lane = lane_with(LaneKind("orders"), ready=1, is_open=True)
    assert [take(lane, flushing=True) is not None for _ in range(3)] == [True, True, False]
    lane = lane_with(LaneKind("orders"), ready=2, is_open=True)
    assert [take(lane, flushing=True) is not None for _ in range(3)] == [True, True, False]


def test_full_batches_go_in_their_order_as_many_as_may_be_under_way() -> None:
    lane = lane_with(LaneKind("orders"), ready=3, is_open=False)
    in_order = list(lane.ready)
    assert [take(lane), take(lane), take(lane)] == [in_order[0], in_order[1], None]
    assert not lane.idle
    assert len(lane.batches()) == 3


def test_where_order_counts_one_is_under_way() -> None:
    for kind in (LaneKind("orders", queue=MessageQueue("orders", "b", 0)), LaneKind("orders", keyed=True)):
        lane = lane_with(kind, ready=2, is_open=True)
        assert [take(lane, flushing=True) is not None for _ in range(2)] == [True, False]


def test_what_is_late_holds_up_nobody_and_is_still_there() -> None:
    lane = lane_with(LaneKind("orders"), ready=3, is_open=False)
    first, second = take(lane), take(lane)
    assert first is not None
    assert second is not None
    assert take(lane) is None
    lane.is_late(first)
    third = take(lane)
    assert third is not None
    assert take(lane) is None
    assert set(lane.batches()) == {first, second, third}
    for batch in (first, second, third):
        assert not lane.idle
        lane.end(batch)
    lane.is_late(first)
    assert lane.idle
