from __future__ import annotations

import json

from lakemq.storage.state.open_halves import OpenHalf, OpenHalves


def over(halves: OpenHalves, at_ms: int) -> list[int]:
    return [half.origin for half in halves.over(at_ms, timeout_ms=6_000, check_interval_ms=60_000)]


def test_what_is_over_is_what_was_resolved_and_whose_timers_are_over() -> None:
    halves = OpenHalves()
    for origin in range(4):
        halves.begin(OpenHalf(origin, origin, 0, 1_000 * origin, "g"))
    halves.begin(OpenHalf(0, 10, 1, 7_000, "g"))
    halves.resolve(3, "commit", 4_000)
    halves.resolve(1, "rollback", 5_000)
    halves.resolve(1, "commit", 5_500)
    assert over(halves, 3_999) == []
    assert over(halves, 4_000) == [3]
    assert over(halves, 6_999) == [3, 1]
    assert over(halves, 8_000) == [3, 1, 1, 2]
    assert over(halves, 67_000)[-1] == 0
    again = OpenHalves()
    again.restore(json.loads(json.dumps(halves.dump())))
    assert [over(again, at) for at in (3_999, 6_999, 8_000)] == [[], [3, 1], [3, 1, 1, 2]]
    again.end(3, "commit")
    assert over(again, 5_000) == [1]


def test_an_operation_goes_over_to_the_half_that_a_check_leaves() -> None:
    halves = OpenHalves()
    halves.begin(OpenHalf(5, 5, 0, 0, "g"))
    halves.resolve(5, "commit", 100)
    halves.begin(OpenHalf(5, 9, 1, 7_000, "g"))
    (half,) = halves.over(100, 6_000, 60_000)
    assert (half.cause, half.resolution, half.resolved_ms) == (9, "commit", 100)
