"""Predicates over messages, written in SQL, evaluated column by column.

`compile_filter` makes a `Filter` of a text in Spark's dialect, so that a predicate tried with
`lakemq sql` means the same here. What differs, on purpose:

- where Spark would stop a query with an error (a text that is no number, an overflow, a division
  by zero), the value is null here: one odd message must not stop a filter;
- a number with a point is a double, and NaN is null;
- a binary column compared with text means its text in UTF-8; what isn't UTF-8 is null.
"""

from __future__ import annotations

from lakemq.gateway.filter.compiler import Filter, compile_filter
from lakemq.gateway.filter.values import Node, Resolve, Rows, column, columns_resolver

__all__ = ["Filter", "Node", "Resolve", "Rows", "column", "columns_resolver", "compile_filter"]
