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


def test_each_half_says_itself_when_it_is_due_whatever_the_settings_are_by_now() -> None:
    """The settings were a minute, then a second; two are of a log that only had the settings."""
    halves = OpenHalves()
    for origin, wait_ms in enumerate((60_000, 60_000, 1_000, 1_400, None)):
        stored_ms = 100 * origin
        halves.begin(OpenHalf(origin, origin, 0, stored_ms, "g", None if wait_ms is None else stored_ms + wait_ms))
    halves.begin(OpenHalf(5, 50, 3, 500, "g"))
    for _ in range(2):
        assert halves.earliest(6_000, 60_000) == 1_200
        assert [over(halves, at) for at in (1_199, 1_200, 1_700)] == [[], [2], [2, 3]]
        assert sorted(over(halves, 60_100)) == [0, 1, 2, 3, 4]
        assert sorted(over(halves, 60_500)) == [0, 1, 2, 3, 4, 5]
        assert [half.origin for half in halves.checked()] == [5]
        dumped = json.loads(json.dumps(halves.dump()))
        halves = OpenHalves()
        halves.restore(dumped)
    halves.end(2, "commit")
    halves.begin(OpenHalf(3, 60, 1, 2_000, "g", 9_000))
    assert halves.earliest(6_000, 60_000) == 6_400
    before = halves.dump()
    before["open"] = before["open"][:7]
    halves.restore(before)
    assert sorted(over(halves, 8_000)) == [0, 1, 4]
    for origin in (0, 1, 3, 4, 5):
        halves.end(origin, "rollback")
    assert (halves.earliest(1, 1), over(halves, 10**6)) == (None, [])
