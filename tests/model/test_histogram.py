from __future__ import annotations

from lakemq.model.histogram import DURATION_BOUNDS_S, Histogram, buckets_of


def test_a_value_counts_at_every_bound_from_its_own_on() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 3.0):
        histogram.note(value)
    assert histogram.buckets() == [("1.0", 2.0), ("2.0", 3.0), ("+Inf", 4.0)]
    assert (histogram.counts, histogram.total) == ([2, 1, 1], 6.0)


def test_durations_are_counted_by_ascending_bounds() -> None:
    assert list(DURATION_BOUNDS_S) == sorted(set(DURATION_BOUNDS_S))
    assert len(Histogram().counts) == len(DURATION_BOUNDS_S) + 1


def test_counts_by_bucket_add_up() -> None:
    assert buckets_of((1.0,), (3, 4)) == [("1.0", 3), ("+Inf", 7)]
