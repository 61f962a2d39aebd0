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
_MAP = SINK.field(_PROPERTIES).type
_ENTRIES = pa.struct([_MAP.key_field, _MAP.item_field])


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
    if batch.nbytes + batch.num_rows * (len(send_ids.of(batch.num_rows)) + _ROW_BYTES) > bytes_max:
        raise MessageTooLarge(f"with {SEND_IDS}, the {batch.num_rows} messages are more than a request may have")
    columns = dict(zip(names, batch.columns, strict=True))
    columns[_PROPERTIES] = _name_maps(batch.num_rows, send_ids)
    schema = request_schema(frozenset(columns))
    return ArrowRows(pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema))


def _name_maps(count: int, send_ids: SendIds) -> Any:
    keys, begins = _kept_keys(_KEPT) if count <= _KEPT else _keys(count)
    children = [keys.slice(0, count), _names(count, send_ids)]
    entries = pa.Array.from_buffers(_ENTRIES, count, [None], 0, children=children)
    return pa.Array.from_buffers(_MAP, count, [None, begins], 0, children=[entries])


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
    """The one name of each row's properties, and where each row's begin."""
    buffers = [None, _steps(count, len(SEND_ID)), pa.py_buffer(SEND_ID.encode() * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers, 0), _steps(count, 1)


def _steps(count: int, size: int) -> Any:
    return pc.cast(pa.arange(0, count * size + 1, size), pa.int32()).buffers()[1]


_kept_keys = lru_cache(1)(_keys)
_kept_steps = lru_cache(16)(_steps)
