"""Conditions of erasures and replays: expressions over columns, by the list of functions that statements of users are
held to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakemq.jobs.errors import InvalidStatement
from lakemq.jobs.sql.condition import check_condition

TAKEN = [
    "topic = 'orders' AND key = 'user-17'",
    "store_time > '2026-01-01' AND tag IS NOT NULL AND NOT is_system(topic)",
    "body_text(body) LIKE '%user-17%' OR body_json(body):user::int = 17",
    "exists(keys, k -> k = 'a') OR properties['a'] = 'b' OR position IN (1, 2)",
    "no_such_column = 1",
]
REFUSED = [
    "position IN (SELECT position FROM messages)",
    "EXISTS (SELECT 1)",
    "(SELECT true)",
    "(SELECT count(*) FROM delta.`/etc`) > 0",
    "reflect('java.lang.System', 'exit', '1') = ''",
    "java_method('java.lang.Runtime', 'getRuntime') IS NULL",
    "count(*) > 1",
    "row_number() OVER (ORDER BY position) = 1",
    "explode(keys) = 'a'",
    "input_file_name() = ''",
    "current_user() = 'root'",
    "rand() > 0.5",
    "my_udf(topic)",
    "topic RLIKE '(a+)+$'",
    "topic = '${env:HOME}'",
    "topic = 'a'; DROP TABLE messages",
    "topic =",
    "",
    "(" * 5_000 + "true" + ")" * 5_000,
    "NOT " * 10_000 + "true",
]


@pytest.mark.parametrize("where", TAKEN)
@pytest.mark.usefixtures("spark")
def test_an_expression_over_columns_is_taken(where: str) -> None:
    check_condition(where)


@pytest.mark.parametrize("where", REFUSED)
@pytest.mark.usefixtures("spark")
def test_all_else_is_refused_before_anything_runs(where: str) -> None:
    with pytest.raises(InvalidStatement):
        check_condition(where)


def test_without_a_spark_of_its_own_a_process_is_told_the_same_and_none_is_left() -> None:
    """As `lakemq replay` beside jobs that run, which asks their Spark."""
    code = (
        "from pyspark import SparkContext; from lakemq.jobs.sql.condition import check_condition\n"
        "from lakemq.jobs.sql.parser import open_parser; from lakemq.jobs.errors import InvalidStatement\n"
        "check_condition(\"topic = 'a' AND key = 'b'\")\n"
        "try: check_condition(\"reflect('java.lang.System', 'exit', '1') = ''\")\n"
        "except InvalidStatement as error: print(error)\n"
        "assert SparkContext._gateway is None"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, "function 'reflect'" in done.stdout) == (0, True), done.stderr


def test_javas_parser_starts_beside_fork_handlers_and_remote_sessions() -> None:
    """gRPC has such handlers while a session over Spark Connect is open, and they end a child now and then."""
    code = (
        "import os; os.register_at_fork(after_in_child=os.abort); os.environ['SPARK_REMOTE'] = 'sc://127.0.0.1:1'\n"
        "from lakemq.jobs.sql.condition import check_condition; check_condition(\"topic = 'a'\")"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_a_java_that_does_not_start_is_no_fault_of_the_condition(tmp_path: Path) -> None:
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho no room for a heap >&2\nexit 1\n")
    java.chmod(0o755)
    code = (
        "from lakemq.jobs.errors import SparkNotStarted; from lakemq.jobs.sql.condition import check_condition\n"
        "try: check_condition('true')\n"
        "except SparkNotStarted as error: print(error.code)"
    )
    environment = os.environ | {"JAVA_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert (done.stdout, "no room for a heap" in done.stderr) == ("spark_not_started\n", True), done.stderr
