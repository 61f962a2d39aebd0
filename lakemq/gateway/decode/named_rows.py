"""The names of a request's messages, as their property: written by the broker, so that none has to be read."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

from array import array
from functools import lru_cache
from itertools import accumulate
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

FEW = 64
"""So many names are written faster than Arrow finds the functions that do it."""
_KEPT = 16_384
"""For so many rows what is the same for all is kept: as many as most requests have, or more."""
_ROW_BYTES = len(SEND_ID) + 4 * 3 + 1
"""What a message's name takes beside what the header has: three offsets, and a digit by which its number may grow."""
_PROPERTIES = "properties"
_MAP = SINK.field(_PROPERTIES).type
_ENTRIES = pa.struct([_MAP.key_field, _MAP.item_field])


def name_rows(rows: ArrowRows, header: str, room: int) -> ArrowRows:
    """The messages of a request, each with the name that the header says as its only property; all of them together
    take at most `room` bytes. Raises `InvalidRequest` or `MessageTooLarge`."""
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
    if batch.num_rows * (len(header) + _ROW_BYTES) > room:
        raise MessageTooLarge(f"with {SEND_IDS}, the {batch.num_rows} messages are more than a request may have")
    columns = dict(zip(names, batch.columns, strict=True))
    columns[_PROPERTIES] = _name_maps(batch.num_rows, send_ids)
    schema = request_schema(frozenset(columns))
    return ArrowRows(pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema))


def _name_maps(count: int, send_ids: SendIds) -> Any:
    if count <= FEW:
        names = _few_names(count, send_ids)
    else:
        numbers = pc.cast(pa.arange(send_ids.begin, send_ids.begin + count), pa.string())
        names = pc.binary_join_element_wise(send_ids.sender, numbers, SEPARATOR)
    keys, begins = _kept_keys(_KEPT) if count <= _KEPT else _keys(count)
    entries = pa.Array.from_buffers(_ENTRIES, count, [None], 0, children=[keys.slice(0, count), names])
    return pa.Array.from_buffers(_MAP, count, [None, begins], 0, children=[entries])


def _few_names(count: int, send_ids: SendIds) -> Any:
    texts = [send_ids.of(number) for number in range(count)]
    offsets = array("i", accumulate(map(len, texts), initial=0))  # each character is a byte
    data = "".join(texts).encode()
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)], 0)


def _keys(count: int) -> tuple[Any, Any]:
    """The one name of each row's properties, and where each row's begin."""
    buffers = [None, _steps(count, len(SEND_ID)), pa.py_buffer(SEND_ID.encode() * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers, 0), _steps(count, 1)


_kept_keys = lru_cache(1)(_keys)


def _steps(count: int, size: int) -> Any:
    return pc.cast(pa.arange(0, count * size + 1, size), pa.int32()).buffers()[1]
