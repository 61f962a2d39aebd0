"""What a notebook's process has: `spark`, `display` and `%sql`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sqlglot import tokenize
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from lakemq.jobs.notebook.display import display, shell_here
from lakemq.model.environment import NOTEBOOK
from lakemq.settings import Settings, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LAST_RESULT = "_sqldf"
"""Where the result of the last `%sql` is, by Databricks' name."""


def session_here() -> SparkSession:
    """A session on the lake that the settings name, and `%sql` where IPython is.

    It is the process's active one, or else one of the running jobs', or else an embedded one.
    """
    from lakemq.jobs.notebook.session import find_session

    session = find_session(_settings())
    shell = shell_here()
    if shell is not None:
        register_sql(shell, session)
    return session


def start(shell: Any) -> None:
    """Gives a kernel what notebooks find on Databricks; called once, before the first cell."""
    shell.push({"spark": session_here(), "display": display})


def register_sql(shell: Any, session: SparkSession) -> None:
    """`%sql STATEMENT`, and `%%sql` for a cell of statements: the last one's rows are shown."""

    def sql(line: str, cell: str | None = None) -> None:
        frame: DataFrame | None = None
        for statement in statements_of(line if cell is None else f"{line}\n{cell}"):
            frame = session.sql(statement)
        shell.user_ns[LAST_RESULT] = frame
        if frame is not None and frame.columns:
            display(frame)

    shell.register_magic_function(sql, magic_kind="line_cell", magic_name="sql")


def statements_of(text: str) -> list[str]:
    """The statements of a text, which semicolons part; one in a string or a comment parts nothing.

    What can't be told apart is left as one: Spark says then what is wrong with it.
    """
    try:
        tokens = tokenize(text, read="databricks")
    except SqlglotError:
        return [text]
    ends = [token.start for token in tokens if token.token_type is TokenType.SEMICOLON]
    begins = [0, *(end + 1 for end in ends)]
    found = [(begin, end, text[begin:end].strip()) for begin, end in zip(begins, [*ends, len(text)], strict=True)]
    return [statement for begin, end, statement in found if any(begin <= token.start < end for token in tokens)]


def _settings() -> Settings:
    given = os.environ.get(NOTEBOOK)
    return load(None) if given is None else Settings.model_validate_json(given)
