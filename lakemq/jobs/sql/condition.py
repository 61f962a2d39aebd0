"""A condition on a row that somebody gives as text, looked at before anything runs: an expression over columns, by the
list that statements of users are held to (`allowed.py`)."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from lakemq.jobs.errors import InvalidStatement
from lakemq.jobs.sql import allowed
from lakemq.jobs.sql.connect_client import complaint
from lakemq.jobs.sql.parsed_plan import Walk
from lakemq.jobs.sql.parser import open_parser
from lakemq.jobs.sql.text import check_text
from lakemq.model.errors import InvalidSql

CHARACTERS_MAX = 64 * 1024


def check_condition(where: str) -> None:
    """Raises `InvalidStatement` for what is no such expression; `JavaNotFound`."""
    try:
        check_text(where, CHARACTERS_MAX)
        with open_parser() as parser:
            parsed = parser.parseExpression(where)
            Walk(functions=allowed.CONDITION_FUNCTIONS, plans=frozenset()).check(parsed)
    except InvalidSql as error:
        detail = error.detail.replace("by POST /v1/sql", "in a condition")
        raise InvalidStatement(f"the condition can't be that: {detail}") from None
    except PySparkException as error:
        raise InvalidStatement(complaint(str(error))) from None
    except Py4JJavaError:
        raise InvalidStatement("the condition is too deep: make it simpler") from None
