from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.send_ids import SENDER_CHARACTERS_MAX, SendIds, send_ids_of

SENDERS = st.text("abzABZ019_-", min_size=1, max_size=SENDER_CHARACTERS_MAX)


@given(SENDERS, st.integers(0, 10**18 - 1))
def test_what_is_written_is_read(sender: str, begin: int) -> None:
    send_ids = SendIds(sender, begin)
    assert send_ids_of(str(send_ids)) == send_ids
    assert send_ids.of(0) == str(send_ids)


def test_each_message_has_the_next_number() -> None:
    assert [SendIds("s", 9).of(number) for number in range(3)] == ["s.9", "s.10", "s.11"]


@pytest.mark.parametrize(
    "text",
    ["", "s", "s.", ".1", "s.-1", "s.01", "s.1.2", "s 1.1", "s.1 ", "é.1", "s.١", f"s.{10**18}", "s" * 65 + ".1"],
)
def test_what_names_nothing_is_none(text: str) -> None:
    assert send_ids_of(text) is None
