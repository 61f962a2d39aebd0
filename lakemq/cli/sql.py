"""`lakemq sql`."""
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow carries no types)

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakemq.cli.bars import bars_within
from lakemq.cli.brokers import addresses_of
from lakemq.cli.lines import stdin_text
from lakemq.cli.options import Broker, LakeDir, Nameservers, check_folder, settings_of
from lakemq.cli.output import remark, stdout, write_line
from lakemq.cli.quiet import quiet_stderr
from lakemq.cli.sql_place import fail_statement
from lakemq.model.errors import InvalidSql, LakemqError, SettingsError
from lakemq.model.safe_text import one_line

if TYPE_CHECKING:
    from lakemq.jobs.sql.result import Result
    from lakemq.settings import Settings


_HIDES = re.compile(r"\blive`?\s*\.\s*`?(?:messages|consume_queue|message_index|topics)\b", re.IGNORECASE)
_SYSTEM_TOPIC = re.compile(r"['\"](?:%RETRY%|%DLQ%|RMQ_SYS_|SCHEDULE_TOPIC_XXXX)")


class Format(StrEnum):
    """How rows are written."""

    table = "table"
    json = "json"
    csv = "csv"
    arrow = "arrow"
    parquet = "parquet"


OutputFormat = Annotated[
    Format | None,
    typer.Option("--format", help="Format of the rows.", show_default="table, or by the name of --output"),
]
Chart = Annotated[
    Path | None,
    typer.Option(
        "--chart",
        metavar="FILE",
        help="Draw the rows instead, to a file (.png, .svg, .pdf) or, with -, on the terminal.",
    ),
]


def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One statement of Spark SQL. -: read it from stdin.")],
    output_format: OutputFormat = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write the rows to this file, completely or not at all."),
    ] = None,
    chart: Chart = None,
    over_http: Annotated[
        bool, typer.Option("--http", help="Ask over HTTP as a user, who sees the topics it may read.")
    ] = False,
    rows_max: Annotated[
        int | None, typer.Option("--rows-max", min=1, metavar="N", help="Over HTTP: at most this many rows.")
    ] = None,
    lake: LakeDir = None,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Query messages and the lake's other tables with SQL.

    Tables: messages, consume_queue, message_index, scheduled, transactions. Views: topics, dead_letters,
    consumer_offsets. They have a message some seconds after it was sent. live.messages, live.topics and so on have it
    at once, and hide system topics; live.all_messages has those too. topics.NAME has the bodies of a topic with a
    schema (lakemq topic schema) as columns.

    Functions: body_text(body), body_json(body), has_tag(tag, 'A || B'), is_system(topic),
    position_of(message_id), broker_of(message_id), half_of(transaction_id).

    The running jobs answer within a second or two; jobs that are still starting are waited for, two minutes at most, or
    five seconds if they wait for a broker. If no jobs run, this starts Spark, which takes some seconds more.
    Without the jobs' token, without a lake here or without Spark, it asks the jobs over HTTP as a user, like --http;
    that needs only `pip install lakemq`.

    \b
    lakemq sql "SELECT topic, count(*) FROM live.messages GROUP BY topic"
    lakemq sql "SELECT body_text(body) FROM messages WHERE tag = 'paid'" --format json
    lakemq sql "SELECT * FROM messages WHERE topic = 'flights'" --output flights.parquet
    lakemq sql "SELECT date_trunc('minute', store_time) AS minute, count(*) FROM messages GROUP BY 1 ORDER BY 1"
        --chart minutes.png
    lakemq sql "SELECT topic, count(*) AS messages FROM live.messages GROUP BY topic" --chart -
    lakemq sql - --format csv < report.sql > report.csv
    lakemq sql "SELECT topic, count(*) FROM messages GROUP BY topic" --http --rows-max 100
    lakemq sql "SELECT topic, count(*) FROM live.messages GROUP BY topic" --nameservers http://127.0.0.1:9876
    """
    check_folder(output, "--output")
    check_folder(chart, "--chart")
    settings = settings_of(context, lake__dir=lake)
    url = addresses_of(context, broker, nameservers)
    statement = stdin_text() if query == "-" else query
    write = _writer(output_format, output, chart)
    try:
        if over_http:
            _answer_over_http(url, statement, rows_max, write)
        else:
            _answer(settings, url, statement, rows_max, write)
    except InvalidSql as error:
        raise typer.Exit(fail_statement(statement, error)) from None
    if _HIDES.search(statement) and _SYSTEM_TOPIC.search(statement):
        remark("live.messages and its like hide system topics; live.all_messages and its like have them")


def _writer(output_format: Format | None, output: Path | None, chart: Path | None) -> Callable[[Result], None]:
    """What is made of the rows. Raises `InvalidOption` for a file of no known kind, before anything runs."""
    from lakemq.jobs.sql.chart import check_chart_file, draw_chart
    from lakemq.jobs.sql.written import format_of, write_file, write_rows

    if chart is not None and str(chart) == "-":
        return _draw_here
    if chart is not None:
        check_chart_file(chart)
        return partial(draw_chart, file=chart)
    if output is None:
        return partial(write_rows, format=(output_format or Format.table).value, out=sys.stdout.buffer)
    form = output_format.value if output_format else format_of(output)
    return partial(write_file, format=form, file=output)


def _draw_here(result: Result) -> None:
    """The rows as bars on the terminal, each column of numbers below the one before."""
    from lakemq.jobs.sql.chart import rows_of_bars

    width = stdout().width
    for name, rows in rows_of_bars(result):
        write_line(one_line(name, width))
        for line in bars_within(rows, width):
            write_line(line)


def _answer_over_http(url: str, statement: str, rows_max: int | None, write: Callable[[Result], None]) -> None:
    """Has the jobs answer that the first of the brokers names, as a user. Raises `Unreachable` where it names none."""
    from lakemq.client.http import HttpClient
    from lakemq.jobs.sql.result import Result

    with HttpClient(url.partition(",")[0]) as client:
        found = client.sql(statement, rows_max)
    write(Result(found.table.schema, iter(found.table.to_batches())))
    if found.truncated:
        remark("there are more rows: --rows-max asks for more of them, as far as the jobs' settings let it")


def _is_answered_over_http(url: str) -> bool:
    from lakemq.client.http import HttpClient

    try:
        with HttpClient(url.partition(",")[0]) as client:
            return bool(client.broker().get("sql"))
    except LakemqError:
        return False


def _answer(
    settings: Settings, url: str, statement: str, rows_max: int | None, write: Callable[[Result], None]
) -> None:
    """Has the running jobs answer, or else a Spark of this process. Where this user can do neither, it is a user like
    others, if there are jobs that answer such."""
    from lakemq.jobs.errors import LakeNotFound

    try:
        from lakemq.jobs.session.starting import find_server_once_up
        from lakemq.jobs.session.token_file import token_for
        from lakemq.jobs.sql.connect_client import ConnectClient
        from lakemq.jobs.sql.statement import check_lake, embedded_client
    except ModuleNotFoundError as error:  # an installation without the jobs
        if not _is_answered_over_http(url):
            raise
        remark(f"asking the jobs over HTTP, with the rights of this user: there is no module {error.name} here")
        _answer_over_http(url, statement, rows_max, write)
        return
    server = find_server_once_up(settings.lake.dir, remark)
    try:
        token = None if server is None else token_for(settings.sql, settings.lake.dir)
        if server is None:
            check_lake(settings)
    except (SettingsError, LakeNotFound) as error:
        if not _is_answered_over_http(url):
            raise
        # What the error advises is for those who have no jobs.
        why = f"there is no lake in {settings.lake.dir}" if isinstance(error, LakeNotFound) else error.detail
        remark(f"asking the jobs over HTTP, with the rights of this user: {why}")
        _answer_over_http(url, statement, rows_max, write)
        return
    if server is not None and token is not None:
        with ConnectClient(server, token) as client:
            write(client.run(statement))
        return
    remark(f"no jobs answer for the lake in {settings.lake.dir}; starting Spark here")
    with quiet_stderr(), embedded_client(settings, url, statement) as client:
        write(client.run(statement))
