"""Payloads that hold the bytes a frame begins with: they are stored under a mask.

A body may hold anything, a whole frame too. So that bytes inside a frame are never taken for a frame's
beginning, no 8 bytes of a frame at a multiple of 8 are `MAGIC`, but its first ones. All else in a frame
can't be it by its form (docs/log_format.md); a payload that holds it is stored XORed with a number of 8
bytes under which it does not.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

MAGIC = b"LMQF\xfe\xff\xf6\x9d"
"""What a frame begins with, at a multiple of 8. 0xfe and 0xff are in no UTF-8, the last byte is in no
number below 2^63, and no UUID holds it."""

# Made of its bytes: a Python number would have pyarrow import pandas, a third of the start of Spark's Python workers.
_WORD = pa.Array.from_buffers(pa.uint64(), 1, [None, pa.py_buffer(MAGIC)])[0]
_equal = pc.get_function("equal")
_SMALL_BYTES = 16384
"""Up to here Python's own search is the quicker one."""

Payload = bytes | memoryview | pa.Buffer


def choose_mask(payload: Payload) -> int:
    """The mask that `payload`, a multiple of 8 long, is stored under: 0, none, unless it holds `MAGIC`.

    The same for the same payload; takes time in proportion to its length, whatever it holds.
    """
    # `rfind`: CPython looks for a few bytes from behind four times as fast as from the front.
    if len(payload) <= _SMALL_BYTES and bytes(payload).rfind(MAGIC) < 0:
        return 0
    words = _words(payload)
    if not _equal.call([words, _WORD]).true_count:
        return 0
    # Under mask m a word w becomes MAGIC where m = w ^ MAGIC: one of the numbers 1 … words + 1 is no such m.
    wrong = pc.bit_wise_xor(words, _WORD)
    wrong = wrong.filter(pc.less_equal(wrong, pa.scalar(len(words) + 1, pa.uint64()))).to_pylist()
    taken = set(wrong)
    return next(mask for mask in range(1, len(words) + 2) if mask not in taken)


def apply_mask(payload: Payload, mask: int) -> memoryview:
    """`payload` under the mask; the same again takes it off."""
    if not mask:
        return memoryview(payload).cast("B")
    masked = pc.bit_wise_xor(_words(payload), pa.scalar(mask, pa.uint64()))
    return memoryview(masked.buffers()[1]).cast("B")[: len(payload)]


def _words(payload: Payload) -> pa.Array:
    buffer = pa.py_buffer(payload) if isinstance(payload, bytes | memoryview) else payload
    return pa.Array.from_buffers(pa.uint64(), buffer.size // 8, [None, buffer])
