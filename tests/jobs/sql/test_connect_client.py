"""What `lakemq sql` says when Spark complains."""

from __future__ import annotations

from lakemq.jobs.sql.connect_client import complaint

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
    assert complaint(" \n") == "Spark gives no reason"
