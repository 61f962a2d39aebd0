"""The answer to a statement of SQL, in JSON, as rows by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakemq.model.errors import InvalidRequest

Row = dict[str, Any]


def rows_by_name(answer: Mapping[str, Any], made: Callable[[Row], Row], what: str) -> list[Row]:
    """Each row, as `made` returns it. Raises `InvalidRequest`, which says that it is not `what`, where the answer or a
    row of it is something else."""
    try:
        names = [column["name"] for column in answer["columns"]]
        return [made(dict(zip(names, row, strict=True))) for row in answer["rows"]]
    except (KeyError, TypeError, ValueError):
        raise InvalidRequest(f"the jobs answered with something other than {what}") from None
