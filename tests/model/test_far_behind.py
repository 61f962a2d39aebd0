"""Who reads far behind, and where."""

from __future__ import annotations

from lakemq.model.far_behind import Readable, is_far, place_to_read


def test_far_is_beyond_the_bound_and_without_one_nobody_is() -> None:
    assert is_far(101, 100)
    assert not is_far(100, 100)
    assert not is_far(0, 100)
    assert not is_far(10**12, 0)


def test_only_a_follower_that_has_all_of_it_is_named() -> None:
    followers = [Readable("http://a", 10, 20), Readable("http://b", 0, 30)]
    assert {place_to_read(followers, 10, 19, turn) for turn in range(4)} == {"http://a", "http://b"}
    assert {place_to_read(followers, 10, 20, turn) for turn in range(4)} == {"http://b"}
    assert {place_to_read(followers, 9, 19, turn) for turn in range(4)} == {"http://b"}
    assert place_to_read(followers, 10, 30, 0) == ""
    assert place_to_read([], 0, 0, 7) == ""


def test_a_queue_stays_with_its_follower() -> None:
    followers = [Readable("http://a", 0, 9), Readable("http://b", 0, 9)]
    assert [place_to_read(followers, 0, 1, turn) for turn in (0, 1, 0, 2, 3)] == [
        *("http://a", "http://b", "http://a", "http://a", "http://b")
    ]
