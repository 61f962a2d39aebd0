"""Messages that were polled together: a sequence, and a table for those who compute on columns."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from lakemq.client.bodies.decoder import Decoder
from lakemq.client.frame import to_polars
from lakemq.client.view import MessageView, Rows

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


class MessageBatch(Sequence[MessageView]):
    """The messages of a poll, in order within each queue. Nothing is copied until you read a value."""

    def __init__(self, table: pa.Table, decoder: Decoder | None = None) -> None:
        self._table = table
        self._rows = Rows.of_table(table)
        self._rows.decoder = decoder

    def to_arrow(self) -> pa.Table:
        """All of them as a table, with a column for each field, as in `lakemq.model.columns.MESSAGE`."""
        return self._table

    def to_polars(self) -> pl.DataFrame:
        """All of them as a Polars frame; `properties` is a list of name and value. Raises
        `ImportError` where Polars is not installed."""
        return to_polars(self._table)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> MessageView: ...
    @overload
    def __getitem__(self, at: slice) -> list[MessageView]: ...
    def __getitem__(self, at: Any) -> Any:
        return self._rows[at]

    def __iter__(self) -> Iterator[MessageView]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"<MessageBatch of {len(self)} messages>"
