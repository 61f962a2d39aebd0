"""Stable hashes: other processes, Spark SQL and later versions must find the same queue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.hashing import queue_of_ordering_key, tag_hash

CHECK = 0xCBF43926
"""The check value of CRC-32: its sum over the digits 1 to 9."""


def test_the_hash_of_a_key_never_changes() -> None:
    assert queue_of_ordering_key("123456789", 1 << 32) == CHECK
    assert [queue_of_ordering_key(key, 1 << 31) for key in ("", "customer-7", "grüß")] == [0, 42760520, 268067114]


def test_the_hash_of_a_tag_never_changes() -> None:
    assert (tag_hash("123456789"), tag_hash(""), tag_hash(None)) == (CHECK, 0, 0)


@given(st.text(), st.integers(1, 65_535))
def test_an_ordering_key_has_a_queue_that_is_there(key: str, queues: int) -> None:
    assert 0 <= queue_of_ordering_key(key, queues) < queues
