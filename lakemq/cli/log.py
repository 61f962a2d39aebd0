"""`lakemq log verify | repair | show`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lakemq.cli.options import BrokerName, DataDir, settings_of
from lakemq.cli.output import remark, stdout, write_json, write_line

if TYPE_CHECKING:
    from lakemq.storage.mend.verify import Damage

app = typer.Typer(no_args_is_help=True, help="Check and repair a log on disk.")


@app.command()
def verify(context: typer.Context, data_dir: DataDir = None) -> None:
    """Check every byte of a log, and change none. Exit code 1 if damaged.

    Stop the gateway first: a write in progress looks like damage.

    \b
    lakemq log verify --data-dir /var/lib/lakemq
    """
    from lakemq.storage.mend.verify import verify_log

    directory = settings_of(context, storage__data_dir=data_dir).storage.data_dir
    report = verify_log(directory)
    table = Table("segment", "bytes", "frames", "messages", "positions", "damages")
    for segment in report.segments:
        table.add_row(
            segment.segment,
            f"{segment.size:,}",
            f"{segment.frames:,}",
            f"{segment.messages:,}",
            f"{segment.base_position:,} to {segment.next_position:,}",
            str(len(segment.damages)),
        )
    stdout().print(table)
    _show_damages(report.damages)
    if not report.sound:
        remark(
            "the log is damaged; a gateway that is started makes good what its lake holds, and"
            f" lakemq log repair --data-dir {directory} keeps what is readable"
        )
        raise typer.Exit(1)
    write_line(f"sound: {report.messages:,} messages")


@app.command()
def repair(context: typer.Context, data_dir: DataDir = None) -> None:
    """Repair a damaged log: keep every frame that can be read.

    Start the gateway first: it restores by itself what its lake has. What this command can't read becomes a hole; the
    damaged files are kept as *.damaged.

    \b
    lakemq log repair --data-dir /var/lib/lakemq
    """
    from lakemq.storage.mend.repair import repair_log

    repaired = repair_log(settings_of(context, storage__data_dir=data_dir).storage.data_dir)
    _show_damages(repaired.damages)
    write_line(f"kept {repaired.messages_kept:,} messages in {repaired.frames_kept:,} frames")
    if repaired.segments_rewritten:
        write_line(f"lost {repaired.positions_lost:,} positions, {repaired.bytes_lost:,} bytes")
        write_line(f"rewritten: {', '.join(repaired.segments_rewritten)}")
    else:
        write_line("nothing to repair")


@app.command()
def show(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The file: cut-….frames, or a segment.", dir_okay=False)],
    broker_name: BrokerName = None,
) -> None:
    """Print the messages in a file of frames as JSON, one a line.

    \b
    lakemq log show data/commitlog/cut-1-480300.frames --broker-name broker-a
    """
    from lakemq.storage.slices.kept_frames import messages_in

    for message in messages_in(file, settings_of(context, broker__name=broker_name).broker.name):
        write_json(message)


def _show_damages(damages: Iterable[Damage]) -> None:
    for damage in damages:
        write_line(f"{damage.segment} at byte {damage.offset:,}, {damage.size:,} bytes: {damage.reason}")
