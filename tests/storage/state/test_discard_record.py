"""The record of a discard."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from lakemq.storage.state.discard_record import positions_of, to_body


@given(st.sets(st.integers(0, 2**62)), st.none() | st.text(max_size=20))
def test_it_says_which_letters_it_is_about(positions: set[int], where: str | None) -> None:
    body = to_body(where, sorted(positions))
    assert set(positions_of(body)) == positions
    assert orjson.loads(body)["where"] == where


def test_neighbours_are_one_range() -> None:
    assert orjson.loads(to_body("true", [3, 4, 5, 9, 11, 12])) == {
        "where": "true",
        "ranges": [[3, 5], [9, 9], [11, 12]],
    }
    assert to_body(None, []) == b'{"where":null,"ranges":[]}'
