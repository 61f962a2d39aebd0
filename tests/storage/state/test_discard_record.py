"""The record of a discard."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from lakemq.storage.state.discard_record import positions_of, to_body


@given(st.sets(st.integers(0, 2**62)), st.none() | st.text(max_size=20), st.text(max_size=9))
def test_it_says_which_letters_it_is_about(positions: set[int], where: str | None, by: str) -> None:
    body = to_body(where, by, sorted(positions))
    assert set(positions_of(body)) == positions
    said = orjson.loads(body)
    assert (said["where"], said["by"]) == (where, by)


def test_neighbours_are_one_range() -> None:
    said = orjson.loads(to_body("true", "olga", [3, 4, 5, 9, 11, 12]))
    assert said == {"where": "true", "by": "olga", "ranges": [[3, 5], [9, 9], [11, 12]]}
    assert orjson.loads(to_body(None, "", [])) == {"where": None, "by": "", "ranges": []}
