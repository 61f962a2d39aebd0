"""`lakemq consume`."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lakemq.cli.delay import moment_ms
from lakemq.cli.options import AsJson, Broker, Filter, Nameservers, Tags, broker_url, name_servers
from lakemq.cli.output import remark, stdout
from lakemq.cli.shown import message_line, write_message
from lakemq.model.stop_signals import stop_signals

if TYPE_CHECKING:
    from lakemq.client import PullConsumer
    from lakemq.client.consume.message_batch import MessageBatch

POLL_S = 1.0
POLL_MAX = 500


def consume(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    context: typer.Context,
    group: Annotated[str, typer.Option("--group", help="The consumer group. Each message goes to one of its members.")],
    tags: Tags = "*",
    sql: Filter = None,
    begin: Annotated[
        str, typer.Option("--from", metavar="last|first|TIME", help="Where a new group starts.")
    ] = "first",
    count_max: Annotated[
        int | None, typer.Option("--max", min=1, help="Stop after this many messages.", show_default="at Ctrl-C")
    ] = None,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Consume a topic as a group, and print each message.

    A new group starts with the oldest message; --from changes that. Ctrl-C ends it. The same group continues where it
    stopped; several processes of a group share the queues.

    \b
    lakemq consume orders --group console
    lakemq consume orders --group audit --from last --filter "amount > 100" --json
    lakemq consume orders --group shipping --tags 'paid||shipped' --max 10
    lakemq consume orders --group console --nameservers http://127.0.0.1:9876
    """
    from lakemq.client import PullConsumer

    if sql is not None and tags != "*":
        raise typer.BadParameter("a group subscribes by one of them; in a filter TAGS is the tag", param_hint="--tags")
    servers = name_servers(context, broker, nameservers)
    url = None if servers else broker_url(context, broker)
    start = _begin(begin)
    # All are like Ctrl-C: it leaves the group.
    before = {number: signal.signal(number, signal.default_int_handler) for number in stop_signals()}
    with (
        contextlib.suppress(KeyboardInterrupt),
        PullConsumer(
            group, brokers=url, nameservers=servers or None, consume_from=start, auto_commit=False
        ) as consumer,
    ):
        consumer.subscribe(topic, tags, sql)
        consumer.start()
        remark(f"consuming {topic} as {consumer.client_id} of group {group}; Ctrl-C ends it")
        _show_all(consumer, count_max, as_json)
    for number, handler in before.items():
        signal.signal(number, handler)


def _begin(text: str) -> Literal["first", "last"] | datetime:
    if text == "first":
        return "first"
    if text == "last":
        return "last"
    return datetime.fromtimestamp(moment_ms(text, "--from") / 1000, UTC)


def _show_all(consumer: PullConsumer, count_max: int | None, as_json: bool) -> None:
    left = count_max
    while left is None or left > 0:
        batch = consumer.poll(POLL_MAX if left is None else min(left, POLL_MAX), POLL_S)
        if not batch:
            continue
        try:
            _show(batch, as_json)
        except BrokenPipeError:  # whoever reads has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
        consumer.commit()  # of what was shown, and of no more
        if left is not None:
            left -= len(batch)


def _show(batch: MessageBatch, as_json: bool) -> None:
    console = stdout()
    for message in batch:
        if as_json:
            write_message(message)
        else:
            console.print(message_line(message), soft_wrap=True)
    sys.stdout.flush()
