"""What a statement gives, whoever ran it. Nothing of Spark is needed for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Result:
    """A statement's rows, which come as they are taken."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
