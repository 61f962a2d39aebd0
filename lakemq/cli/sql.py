"""`lakemq sql`."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from lakemq.cli.options import LakeDir, settings_of
from lakemq.cli.quiet import quiet_stderr


class Format(StrEnum):
    """How rows are written."""

    table = "table"
    json = "json"
    csv = "csv"
    arrow = "arrow"


def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One statement of Spark SQL; - reads it from stdin.")],
    output_format: Annotated[
        Format, typer.Option("--format", help="json: an object a line; arrow: an IPC stream.")
    ] = Format.table,
    lake: LakeDir = None,
) -> None:
    """Ask the lake with Spark SQL.

    The tables are messages, consume_queue and message_index. A body is binary: decode(body,
    'UTF-8') makes it text, get_json_object takes it apart. A message is there some seconds after
    it was produced. Spark takes some seconds to start.

    \b
    lakemq sql "SELECT topic, count(*) FROM messages GROUP BY topic"
    lakemq sql "SELECT decode(body, 'UTF-8') FROM messages WHERE tag = 'paid'" --format json
    lakemq sql - --format csv < report.sql > report.csv
    """
    settings = settings_of(context, lake__dir=lake)
    statement = sys.stdin.read() if query == "-" else query
    with quiet_stderr():
        from lakemq.jobs.sql import run_sql

        run_sql(settings, statement, output_format.value, sys.stdout.buffer)
