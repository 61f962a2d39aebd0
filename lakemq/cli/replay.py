"""`lakemq replay`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from lakemq.cli.options import AsJson, Broker, LakeDir, broker_url, settings_of
from lakemq.cli.output import progress, remark, stdout, write_json, write_line
from lakemq.cli.quiet import quiet_stderr

if TYPE_CHECKING:
    from lakemq.jobs.replay.replay import Replayed

_RATE_MAX = 1_000_000


def replay(
    context: typer.Context,
    where: Annotated[
        str, typer.Option("--where", metavar="CONDITION", help="SQL condition over the columns of messages, and key.")
    ],
    to: Annotated[str, typer.Option("--to", metavar="TOPIC", help="Topic to send to.")],
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="Only this consumer group receives them.")
    ] = None,
    rate: Annotated[
        int | None, typer.Option("--rate", min=1, max=_RATE_MAX, help="At most about this many a second.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which messages match.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Replay again what was replayed before.")] = False,
    lake: LakeDir = None,
    broker: Broker = None,
    as_json: AsJson = False,
) -> None:
    """Send stored messages again, to a topic or to one group.

    Each copy has the old keys, tag, properties and body; its origin_message_id is the id of the original. If a replay
    is interrupted, run the same command again: it continues, and sends no message twice.

    \b
    lakemq replay --where "topic = 'flights' AND store_time > '2026-01-01'" --to flights-again --dry-run
    lakemq replay --where "topic = 'orders' AND key = 'user-17'" --to orders --group billing
    lakemq replay --where "topic = 'orders' AND tag = 'paid'" --to audit --rate 1000
    lakemq replay --where "topic = 'orders' AND tag = 'paid'" --to audit --again
    """
    settings = settings_of(context, lake__dir=lake)
    url = broker_url(context, broker)
    from lakemq.jobs.session.starting import find_server_once_up

    server = find_server_once_up(settings.lake.dir, remark)
    said: list[str] = []
    with progress() as bar:
        task = bar.add_task("replaying", total=None, visible=False)

        def report(sent: int, matched: int) -> None:
            bar.update(task, completed=sent, total=matched, visible=True)

        with quiet_stderr():
            from lakemq.jobs.replay.plan import ReplayRequest
            from lakemq.jobs.replay.replay import lake_session, look
            from lakemq.jobs.replay.replay import replay as send

            with lake_session(settings, server, said.append) as session:
                if dry_run:
                    found, done = look(session, settings.lake.dir, where), None
                else:
                    found = []
                    wanted = ReplayRequest(where, to, group)
                    done = send(session, settings.lake.dir, url, wanted, rate, again, report)
    for line in said:
        remark(line)
    if done is None:
        _show_found(found, as_json)
    else:
        _show_done(done, to, as_json)


def _show_found(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        for topic in found:
            write_json(topic)
        return
    table = Table("topic", "messages", "first", "last")
    for topic in found:
        table.add_row(topic["topic"], f"{topic['messages']:,}", _moment(topic["first_ms"]), _moment(topic["last_ms"]))
    stdout().print(table)
    write_line(f"{sum(topic['messages'] for topic in found):,} messages would be sent; nothing was")


def _show_done(done: Replayed, topic: str, as_json: bool) -> None:
    if as_json:
        write_json(asdict(done))
        return
    if done.finished_before:
        write_line(f"the same was replayed before: {done.sent:,} messages; --again sends them once more")
        return
    write_line(f"{done.sent:,} of {done.matched:,} messages are in {topic} again")
    if done.resumed:
        remark("an earlier run had begun this; it was gone on with")
    if done.gone or done.dropped:
        remark(f"{done.gone:,} were erased or let go of meanwhile, {done.dropped:,} the topic no longer took")


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
