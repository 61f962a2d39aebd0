"""`lakemq sql`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakemq.cli.brokers import addresses_of
from lakemq.cli.lines import stdin_text
from lakemq.cli.options import Broker, LakeDir, Nameservers, check_folder, settings_of
from lakemq.cli.output import note
from lakemq.cli.quiet import quiet_stderr

if TYPE_CHECKING:
    from lakemq.jobs.sql.connect_client import Result
    from lakemq.settings import Settings


class Format(StrEnum):
    """How rows are written."""

    table = "table"
    json = "json"
    csv = "csv"
    arrow = "arrow"
    parquet = "parquet"


Chart = Annotated[
    Path | None,
    typer.Option(
        "--chart",
        metavar="FILE",
        help="Draw the rows instead (.png, .svg, .pdf): the first column along x, the others as lines or bars.",
    ),
]


def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One statement of Spark SQL; - reads it from stdin.")],
    output_format: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="json: an object a line; arrow: an IPC stream.",
            show_default="table, or as the name of --output says",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write the rows to a file, whole or not at all.")
    ] = None,
    chart: Chart = None,
    lake: LakeDir = None,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Ask the lake with Spark SQL.

    Tables: messages, consume_queue, message_index, scheduled, transactions; views: topics, dead_letters,
    consumer_offsets. They have a message some seconds after it was produced. live.messages,
    live.consume_queue, live.message_index and the views in live have it at once.

    Functions: body_text(body), body_json(body), has_tag(tag, 'A || B'), is_system(topic),
    position_of(message_id), broker_of(message_id), half_of(transaction_id).

    The running jobs answer, within a second; else Spark is started, which takes some.

    \b
    lakemq sql "SELECT topic, count(*) FROM live.messages WHERE NOT is_system(topic) GROUP BY topic"
    lakemq sql "SELECT body_text(body) FROM messages WHERE tag = 'paid'" --format json
    lakemq sql "SELECT * FROM messages WHERE topic = 'flights'" --output flights.parquet
    lakemq sql "SELECT date_trunc('minute', store_time) AS minute, count(*) FROM messages GROUP BY 1 ORDER BY 1"
        --chart minutes.png
    lakemq sql - --format csv < report.sql > report.csv
    lakemq sql "SELECT topic, count(*) FROM live.messages GROUP BY topic" --nameservers http://127.0.0.1:9876
    """
    check_folder(output, "--output")
    check_folder(chart, "--chart")
    settings = settings_of(context, lake__dir=lake)
    url = addresses_of(context, broker, nameservers)
    statement = stdin_text() if query == "-" else query
    from lakemq.jobs.sql.chart import check_chart_file, draw_chart
    from lakemq.jobs.sql.statement import format_of, write_file, write_rows

    if chart is not None:
        check_chart_file(chart)
        _answer(settings, url, statement, partial(draw_chart, file=chart))
        return
    if output is None:
        form = (output_format or Format.table).value
        _answer(settings, url, statement, partial(write_rows, format=form, out=sys.stdout.buffer))
    else:
        form = output_format.value if output_format else format_of(output)
        _answer(settings, url, statement, partial(write_file, format=form, file=output))


def _answer(settings: Settings, url: str, statement: str, write: Callable[[Result], None]) -> None:
    """Has the running jobs answer, or else a Spark of this process."""
    from lakemq.jobs.session.discovery import find_server
    from lakemq.jobs.session.token_file import token_for
    from lakemq.jobs.sql.connect_client import ConnectClient
    from lakemq.jobs.sql.statement import check_lake, embedded_client

    server = find_server(settings.lake.dir)
    if server is not None:
        with ConnectClient(server, token_for(settings.sql, settings.lake.dir)) as client:
            write(client.run(statement))
        return
    check_lake(settings)
    note(f"lakemq: no jobs run for the lake in {settings.lake.dir}; starting Spark here takes some seconds")
    with quiet_stderr(), embedded_client(settings, url, statement) as client:
        write(client.run(statement))
