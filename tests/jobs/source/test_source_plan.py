from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.jobs.source.bounds import check_log
from lakemq.jobs.source.plan import MESSAGES_PER_PARTITION_MIN, StreamOffset, share, split
from lakemq.model.errors import LogReplaced

POSITIONS = st.integers(0, 2**62)


@given(begin=POSITIONS, count=st.integers(-5, 10**9), partitions=st.integers(1, 64))
def test_the_parts_of_a_range_are_the_range(begin: int, count: int, partitions: int) -> None:
    parts = split(begin, begin + count, partitions)
    assert len(parts) <= partitions
    if count <= 0:
        assert parts == []
        return
    assert parts[0][0] == begin
    assert parts[-1][1] == begin + count
    assert all(low < high for low, high in parts)
    assert all(left[1] == right[0] for left, right in pairwise(parts))


@given(count=st.integers(1, 2 * MESSAGES_PER_PARTITION_MIN - 1), partitions=st.integers(1, 64))
def test_a_small_range_stays_whole(count: int, partitions: int) -> None:
    assert split(3, 3 + count, partitions) == [(3, 3 + count)]


@given(
    positions=st.dictionaries(st.text("ab-", min_size=1), POSITIONS),
    clock_ms=POSITIONS,
    begins=st.dictionaries(
        st.text("xy", min_size=1),
        st.dictionaries(st.integers(0, 9), POSITIONS, min_size=1),
    ),
)
def test_an_offset_survives_its_text_and_is_the_same_text_again(
    positions: dict[str, int], clock_ms: int, begins: dict[str, dict[int, int]]
) -> None:
    offset = StreamOffset(positions, clock_ms, begins)
    text = json.dumps(offset.to_json())
    again = StreamOffset.from_json(json.loads(text))
    assert again == offset
    assert json.dumps(again.to_json()) == text


def test_every_broker_gets_a_share_of_the_limit() -> None:
    assert share(None, 3) is None
    assert share(10, 3) == 3
    assert share(1, 3) == 1


def test_an_offset_says_of_which_logs_it_is() -> None:
    offset = StreamOffset({"b": 7}, 5, logs={"b": "one"})
    assert offset.to_json()["logs"] == {"b": "one"}
    assert StreamOffset.from_json(offset.to_json()) == offset
    assert "logs" not in StreamOffset({"b": 7}, 5).to_json()
    check_log("b", "one", "one")
    check_log("b", None, "two")
    with pytest.raises(LogReplaced, match="other messages"):
        check_log("b", "one", "two")
