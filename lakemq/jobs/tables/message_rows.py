"""What `messages`, `consume_queue` and `message_index` take of the log's rows, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers


def select(log: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Just these columns, in that order."""
    return pa.RecordBatch.from_arrays([log.column(name) for name in names], names=list(names))


def with_tag_hash(log: pa.RecordBatch) -> pa.RecordBatch:
    """And `tag_hash`: the crc32 of the tag, 0 where there is none."""
    tags = log.column("tag").dictionary_encode()
    hashes = pa.array([crc32(tag.encode()) for tag in tags.dictionary.to_pylist()], pa.int64())
    return log.append_column("tag_hash", pc.fill_null(hashes.take(tags.indices), 0))


def with_each_key(log: pa.RecordBatch) -> pa.RecordBatch:
    """A row for each different key of each message, in the order of both: `key` instead of `keys`."""
    lists = log.column("keys")
    parents, keys = pc.list_parent_indices(lists), pc.list_flatten(lists)
    if len(keys) > len(lists) - lists.null_count or len(keys) > len(pc.unique(parents)):
        first = _first_of_each(parents, keys)
        parents, keys = parents.take(first), keys.take(first)
    rest = log.drop_columns(["keys"]).take(parents)
    return rest.append_column("key", keys)


def _first_of_each(parents: pa.Array, keys: pa.Array) -> pa.Array:
    """Where each pair of both is first, ascending."""
    coded = keys.dictionary_encode("encode")
    pairs = parents.to_numpy().astype(np.int64) * (len(coded.dictionary) + 1) + coded.indices.to_numpy()
    return pa.array(np.sort(np.unique(pairs, return_index=True)[1]))
