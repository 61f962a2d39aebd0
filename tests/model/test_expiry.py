"""When messages expire."""

from __future__ import annotations

import pytest

from lakemq.model.expiry import expires_ms, left_ms


@pytest.mark.parametrize(
    ("ttl_ms", "topic_ttl_ms", "expires"),
    [(None, 0, None), (50, 0, 1_050), (None, 70, 1_070), (50, 70, 1_050), (90, 70, 1_090)],
)
def test_what_a_message_says_itself_counts_before_what_its_topic_says(
    ttl_ms: int | None, topic_ttl_ms: int, expires: int | None
) -> None:
    assert expires_ms(1_000, ttl_ms, topic_ttl_ms) == expires


def test_a_copy_has_what_is_left() -> None:
    assert left_ms(None, 1_000) is None
    assert left_ms(1_050, 1_000) == 50
    assert left_ms(1_050, 1_050) == left_ms(1_050, 9_000) == 0
