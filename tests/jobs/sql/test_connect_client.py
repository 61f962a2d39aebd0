"""What `lakemq sql` says when Spark complains."""

from __future__ import annotations

import pytest

from lakemq.jobs.sql.connect_client import complaint
from lakemq.jobs.sql.place import place_in

IN_PYTHON = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/x/pyspark/worker.py", line 1, in main
    process()
ConnectionRefusedError: [Errno 111] Connection refused

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/lakemq/jobs/log_client.py", line 2, in ask
    raise BrokerUnavailable(why)
{error}
 SQLSTATE: 38000

JVM stacktrace:
org.apache.spark.api.python.PythonException
"""


def test_an_error_of_python_is_what_was_raised_last() -> None:
    ours = "lakemq.jobs.errors.BrokerUnavailable: http://127.0.0.1:1 does not answer: refused"
    assert complaint(IN_PYTHON.format(error=ours)) == "http://127.0.0.1:1 does not answer: refused"
    assert complaint(IN_PYTHON.format(error="ZeroDivisionError: division by zero")) == (
        "ZeroDivisionError: division by zero"
    )


def test_spark_s_own_complaint_is_its_first_line_without_class_and_state() -> None:
    text = "[TABLE_OR_VIEW_NOT_FOUND] The table or view `x` cannot be found. SQLSTATE: 42P01; line 1 pos 14"
    assert complaint(text) == "The table or view `x` cannot be found."
    assert "lakemq topic schema infer" in complaint(text.replace("`x`", "`topics`.`x`"))
    divided = '[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. If necessary set "a" to "b". SQLSTATE: 22012'
    assert complaint(divided) == "Division by zero. Use `try_divide`."
    assert complaint(" \n") == "Spark gives no reason"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[X] Syntax error at or near 'm'. SQLSTATE: 42601 (line 2, pos 5)\n\n== SQL ==\nSELECT a\nFORM m", (2, 6)),
        ("[X] No `x`. SQLSTATE: 42P01; line 1 pos 14;\n'Project ['a]", (1, 15)),
        ("[X] Division by zero. SQLSTATE: 22012\n== SQL (line 2, position 4) ==\n   1/0\n   ^^^\n", (2, 4)),
        ("[X] Division by zero. SQLSTATE: 22012\n== SQL of VIEW v (line 2, position 4) ==\n   1/0\n", (None, None)),
        ("[X] No function. SQLSTATE: 42883", (None, None)),
    ],
)
def test_spark_s_places_are_counted_from_one(text: str, place: tuple[int | None, int | None]) -> None:
    assert place_in(text) == place
