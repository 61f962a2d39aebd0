"""The mask of a payload: the lowest number under which no word of it is the one that a frame begins with."""

from __future__ import annotations

from array import array

import pyarrow as pa
import pytest

from lakemq.storage.segment.mask import MAGIC, apply_mask, choose_mask

WORD = int.from_bytes(MAGIC, "little")
PLAIN = b"\xff.plain\x80"
LARGE = 3_000
"""Words of a payload that Arrow looks through, and not Python."""


def words(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in numbers)


@pytest.mark.parametrize("before", [0, 1, LARGE])
@pytest.mark.parametrize("after", [0, 2, LARGE])
def test_payload_with_the_magic_is_masked_wherever_it_stands_and_others_are_not(before: int, after: int) -> None:
    assert choose_mask(PLAIN * (before + after)) == 0
    assert choose_mask(PLAIN * before + MAGIC + PLAIN * after) == 1
    within = PLAIN * before + b"...." + MAGIC + b"...." + PLAIN * after
    assert choose_mask(within) == 0, "only at a multiple of 8 it could be a frame's beginning"


@pytest.mark.parametrize("taken", [1, 2, 3, 9])
def test_mask_is_the_lowest_under_which_no_word_becomes_the_magic(taken: int) -> None:
    numbers = [WORD ^ wrong for wrong in range(taken)]
    assert choose_mask(words(*numbers)) == taken
    assert choose_mask(words(*reversed(numbers))) == taken
    far = [WORD ^ wrong for wrong in (2**63, 2**40, taken + 100)]
    assert choose_mask(words(*far, *numbers)) == taken


def test_mask_is_found_past_what_is_taken() -> None:
    assert choose_mask(words(WORD, WORD ^ 2)) == 1
    assert choose_mask(words(WORD, WORD ^ 1, WORD ^ 3)) == 2
    assert choose_mask(words(WORD, WORD, WORD ^ 1, WORD ^ 1)) == 2


@pytest.mark.parametrize("kind", [bytes, memoryview, pa.py_buffer])
@pytest.mark.parametrize("mask", [0, 1, 2**63 + 5])
def test_mask_is_put_on_word_by_word_and_taken_off_by_the_same(kind: type, mask: int) -> None:
    payload = words(WORD, 0, 2**64 - 1)
    masked = apply_mask(kind(payload), mask)
    assert (masked.format, masked.nbytes, len(masked)) == ("B", 24, 24)
    assert bytes(masked) == words(WORD ^ mask, mask, (2**64 - 1) ^ mask)
    assert apply_mask(masked, mask) == payload


def test_payload_without_a_mask_is_its_own_bytes() -> None:
    numbers = memoryview(array("Q", [1, 2]))
    assert (apply_mask(numbers, 0).format, bytes(apply_mask(numbers, 0))) == ("B", words(1, 2))
