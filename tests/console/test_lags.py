"""A group's lag over time, of what the lake has: the rule alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakemq.console import lags
from lakemq.model.errors import InvalidRequest


def row(queue_id: int, bucket: int, value: int, **fields: Any) -> dict[str, Any]:
    return {"topic": "t", "queue_id": queue_id, "bucket": bucket, "value": value} | fields


def test_lag_is_what_had_come_by_then_without_what_was_committed() -> None:
    offsets = [row(0, -1, 5), row(0, 2, 8), row(1, 1, 3)]
    ends = [row(0, 1, 10, first=7), row(0, 3, 12, first=10)]
    found = lags.lag_over_time(offsets, ends, {("t", 0): 12, ("t", 1): 4})
    assert found[:5] == [2, 5 + 1, 2 + 1, 4 + 1, 4 + 1]
    assert found[-1] == 5


def test_nothing_is_known_before_a_groups_first_commit() -> None:
    found = lags.lag_over_time([row(0, 58, 1)], [], {("t", 0): 3})
    assert found[57:] == [None, 2, 2]
    assert lags.lag_over_time([], [row(0, 1, 2, first=0)], {}) == [None] * lags.BUCKETS
    assert lags.lag_over_time([row(9, -1, 2)], [], {}) == [None] * lags.BUCKETS


def test_a_reset_forward_is_no_negative_lag() -> None:
    assert lags.lag_over_time([row(0, -1, 9)], [row(0, 0, 4, first=1)], {})[0] == 0


def test_a_chart_has_each_value_at_the_end_of_its_bucket() -> None:
    times = lags.times_of("1h", 3_600_000)
    assert (times.begin_ms, times.width_ms, times.end_ms) == (0, 60_000, 3_600_000)
    assert lags.plot_of([None] * lags.BUCKETS, times) == ""
    at, values = json.loads(lags.plot_of([None, 7, *[0] * 58], times))
    assert at["values"][:2] == [60.0, 120.0]
    assert values["values"][:3] == [None, 7, 0]
    with pytest.raises(InvalidRequest):
        lags.times_of("1y", 0)


def test_statements_hold_names_as_text() -> None:
    times = lags.times_of("1d", 86_400_000)
    assert "`group` = 'it\\'s'" in lags.offsets_statement("a", "it's", times)
    assert "topic IN ('t', 'x\\' OR 1=1')" in lags.ends_statement("a", ["t", "x' OR 1=1"], times)
    assert lags.rows_of({"columns": [{"name": "topic"}, {"name": "value"}], "rows": [["t", "7"]]}) == [
        {"topic": "t", "value": 7}
    ]
    for wrong in ({}, {"columns": [{"name": "value"}], "rows": [["x"]]}, {"columns": [], "rows": [["x"]]}):
        with pytest.raises(InvalidRequest):
            lags.rows_of(wrong)
