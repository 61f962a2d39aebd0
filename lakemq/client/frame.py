"""Rows that were read, as a table for who computes on columns."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class Frame:
    """Rows of a topic, a backlog or a statement, in memory. `truncated`: the limits left rows out."""

    def __init__(self, table: pa.Table, truncated: bool) -> None:
        self._table = table
        self.truncated = truncated

    @property
    def table(self) -> pa.Table:
        """The same as `to_arrow()`, under the name that `SqlRows` uses."""
        return self._table

    def to_arrow(self) -> pa.Table:
        """As an Arrow table."""
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """As a pandas DataFrame. Maps are lists of pairs. Raises `ImportError` where pandas is not installed."""
        _need("pandas")
        return self._table.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """As a Polars DataFrame. Maps are lists of structs of `name` and `value`. Raises `ImportError` where Polars is
        not installed."""
        return to_polars(self._table)

    def __len__(self) -> int:
        return self._table.num_rows

    def __repr__(self) -> str:
        more = ", truncated" if self.truncated else ""
        return f"<Frame of {len(self)} rows and {self._table.num_columns} columns{more}>"


def to_polars(table: pa.Table) -> pl.DataFrame:
    """As a Polars frame; a map, for which Polars has no type, is a list of name and value. Raises `ImportError`."""
    _need("polars")
    import polars as pl  # here: it is the caller's, not a dependency of lakemq
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for field in table.schema:
        column = table.column(field.name)
        if pa.types.is_map(field.type):
            entry = pa.struct([("name", field.type.key_type), ("value", field.type.item_type)])
            column = pa.chunked_array([_entries(chunk, entry) for chunk in column.chunks], pa.list_(entry))
        columns[field.name] = column
    return pl.DataFrame(pl.from_arrow(pa.table(columns)))


def _entries(maps: pa.MapArray, entry: pa.DataType) -> pa.ListArray:
    """A column of maps as lists of their entries, which Polars has a type for."""
    import pyarrow as pa

    entries = pa.StructArray.from_arrays([maps.keys, maps.items], fields=list(entry))
    return pa.ListArray.from_arrays(maps.offsets, entries, mask=maps.is_null())


def _need(library: str) -> None:
    """Raises `ImportError`, with what installs it."""
    try:
        import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        said = f"this needs {library}, which is not installed: pip install 'lakemq[{library}]'"
        raise ImportError(said, name=library) from None
