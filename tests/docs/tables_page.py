"""docs/tables.md, made of the tables' columns: `python -m tests.docs.tables_page` writes it anew."""
# ruff: noqa: E501
# (lines of the page, as they stand there)

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql.pandas.types import from_arrow_schema

from lakemq.jobs.sql.catalog import VIEWS
from lakemq.jobs.tables.schemas import SCHEMAS
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.tables import MESSAGES, TABLES
from tests.docs.column_texts import COLUMNS, OF_TABLES, TABLE_TEXTS, VIEW_COLUMNS

FILE = Path("docs/tables.md")
_HEAD = """# Tables and views

<!-- made of lakemq/jobs/tables/ by `python -m tests.docs.tables_page` -->

Every Delta table of a lake and every view of the [SQL catalog](sql.md#the-catalog), with their columns. `live.` in front of a name marked
*live* reads up to the last message. Types are Spark's; times are timestamps in UTC. [lake.md](lake.md) says how the tables are
written, and what a row of `scheduled` and `transactions` goes through.
"""


def page() -> str:
    """As Markdown."""
    parts = [_HEAD]
    for name, columns in tables().items():
        parts += [f"## {name}\n", TABLE_TEXTS[name] + "\n", *_clustered(name), *_columns(name, columns)]
    return "\n".join(parts).rstrip() + "\n"


def tables() -> dict[str, dict[str, str]]:
    """The columns of each table and view, with their types."""
    found = {table.name: dict(table.columns) for table in TABLES}
    for name in VIEWS:
        found[name] = (dict(MESSAGES.columns) if name == "dead_letters" else {}) | VIEW_COLUMNS[name]
    for name, schema in SCHEMAS.items():
        found[name] = {field.name: field.dataType.simpleString() for field in from_arrow_schema(schema)}
    return found


def text_of(table: str, column: str) -> str:
    """What a column holds: as its table says, or as it is everywhere."""
    return OF_TABLES.get(table, {}).get(column) or COLUMNS[column]


def _clustered(name: str) -> Iterator[str]:
    table: LakeTable | None = next((each for each in TABLES if each.name == name), None)
    if table is not None and table.cluster_by:
        yield f"Clustered by {', '.join(f'`{each}`' for each in table.cluster_by)}: conditions on these skip files.\n"


def _columns(name: str, columns: dict[str, str]) -> Iterator[str]:
    if name == "dead_letters":
        yield "It has the columns of [`messages`](#messages), and these:\n"
        columns = VIEW_COLUMNS[name]
    yield "| column | type | |"
    yield "|---|---|---|"
    yield from (f"| `{each}` | `{kind}` | {text_of(name, each)} |" for each, kind in columns.items())
    yield ""


def main() -> None:
    """Write it."""
    FILE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
