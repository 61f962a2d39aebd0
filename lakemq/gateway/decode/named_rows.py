"""The names of a request's messages, as their property: written by the broker, so that none has to be read."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute

from lakemq.contract.headers import SEND_IDS
from lakemq.gateway.decode.arrow_form import ArrowRows, request_schema
from lakemq.model.columns import SINK
from lakemq.model.errors import InvalidRequest, MessageTooLarge
from lakemq.model.send_ids import SEND_ID, SENDER_CHARACTERS_MAX, SEPARATOR, SendIds, send_ids_of

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

_KEPT = 16_384
"""For so many rows what is the same for all is kept: as many as most requests have, or more."""
_ROW_BYTES = len(SEND_ID) + 4 * 3
"""What a message's name takes beside its characters: three offsets."""
_PROPERTIES = "properties"
_FIELD = SINK.field(_PROPERTIES)


def name_rows(rows: ArrowRows, header: str, bytes_max: int) -> ArrowRows:
    """The messages of a request, each with the name that the header says as its only property: with them it has at most
    `bytes_max`. Raises `InvalidRequest` or `MessageTooLarge`."""
    send_ids = send_ids_of(header)
    if send_ids is None:
        raise InvalidRequest(
            f"header {SEND_IDS}: {header[:100]!r} is not 1 to {SENDER_CHARACTERS_MAX} of A-Z a-z 0-9 _ -, a point, "
            "and a number below 10^18"
        )
    batch = rows.batch
    names = batch.schema.names
    if _PROPERTIES in names:
        raise InvalidRequest(f"header {SEND_IDS} is for messages without properties: here {SEND_ID!r} is one of those")
    count = batch.num_rows
    room = bytes_max - count * (len(send_ids.of(count)) + _ROW_BYTES)
    # What its buffers take is never less, and known at a twentieth of the cost.
    if batch.get_total_buffer_size() > room and batch.nbytes > room:
        raise MessageTooLarge(f"with {SEND_IDS}, the {count} messages are more than a request may have")
    begins, keys = _kept_keys(count) if count <= _KEPT else _keys(count)
    named = pa.MapArray.from_arrays(begins, keys, _names(count, send_ids), type=_FIELD.type)
    return ArrowRows(batch.add_column(_place(tuple(names)), _FIELD, named))


@lru_cache(maxsize=256)
def _place(names: tuple[str, ...]) -> int:
    """Where the properties stand among these columns."""
    return request_schema(frozenset({*names, _PROPERTIES})).get_field_index(_PROPERTIES)


def _names(count: int, send_ids: SendIds) -> Any:
    first, last = send_ids.begin, send_ids.begin + count - 1
    size = len(send_ids.of(0))
    if first < len(_LOW) or len(send_ids.of(count - 1)) > size:
        numbers = pc.cast(pa.arange(first, last + 1), pa.string())
        return pc.binary_join_element_wise(send_ids.sender, numbers, SEPARATOR)
    # All are of one size, and nearly alike: to write them so costs a third of what Arrow's functions do.
    ends = _kept_steps(_KEPT, size) if count <= _KEPT else _steps(count, size)
    text = "".join(_thousands(send_ids.sender, first, last))
    return pa.Array.from_buffers(pa.string(), count, [None, ends, pa.py_buffer(text.encode())], 0)


def _thousands(sender: str, first: int, last: int) -> Iterator[str]:
    """The names from the first number to the last, which are at least 1,000, one after the other."""
    for high in range(first // 1_000, last // 1_000 + 1):
        begin, end = max(first - high * 1_000, 0), min(last - high * 1_000, 999) + 1
        same = f"{sender}{SEPARATOR}{high}"
        yield same + same.join(_LOW[begin:end])


_LOW = [f"{number:03}" for number in range(1_000)]
"""The last three digits of all numbers."""


def _keys(count: int) -> tuple[Any, Any]:
    """Where each row's properties begin, and the one name of them."""
    buffers = [None, _steps(count, len(SEND_ID)), pa.py_buffer(SEND_ID.encode() * count)]
    begins = pa.Array.from_buffers(pa.int32(), count + 1, [None, _steps(count, 1)], 0)
    return begins, pa.Array.from_buffers(pa.string(), count, buffers, 0)


@lru_cache(maxsize=1_024)
def _kept_keys(count: int) -> tuple[Any, Any]:
    begins, keys = _most_keys()
    return begins.slice(0, count + 1), keys.slice(0, count)


@lru_cache(maxsize=1)
def _most_keys() -> tuple[Any, Any]:
    return _keys(_KEPT)


def _steps(count: int, size: int) -> Any:
    return pc.cast(pa.arange(0, count * size + 1, size), pa.int32()).buffers()[1]


_kept_steps = lru_cache(16)(_steps)
