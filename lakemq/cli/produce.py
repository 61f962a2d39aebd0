"""`lakemq produce`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakemq.cli.brokers import connect_all
from lakemq.cli.delay import Delay, DelayLevel, DeliverAt, delay_of
from lakemq.cli.destinations import Destinations
from lakemq.cli.lines import STDIN, batches_of_lines, stdin_descriptor
from lakemq.cli.options import AsJson, Broker, Nameservers
from lakemq.cli.output import note, progress, write_json, write_line
from lakemq.cli.pace import Pace
from lakemq.model.errors import LakemqError
from lakemq.model.message import Draft

if TYPE_CHECKING:
    from lakemq.client.http import Ack, HttpClient
    from lakemq.client.results import Receipt

AckOption = Annotated[
    str,
    typer.Option(
        "--ack", metavar="async|sync|none", help="Answer once written (async), on disk (sync), or not at all (none)."
    ),
]
LINES_PER_REQUEST_MAX = 1_000
File = Annotated[Path | None, typer.Option("--file", help="Messages as JSON, one a line, with all fields. -: stdin.")]
OrderingKey = Annotated[
    str | None, typer.Option("--ordering-key", help="Messages with the same key are consumed in order.")
]
Rate = Annotated[
    float | None,
    typer.Option("--rate", min=0.01, help="At most this many a second.", show_default="no limit"),
]
Priority = Annotated[int | None, typer.Option("--priority", min=0, help="In a priority topic: higher is sooner.")]
TtlMs = Annotated[int | None, typer.Option("--ttl-ms", min=1, help="Not delivered after this time.")]
_NOTHING_SAID = Draft(b"")
ACKS = ("async", "sync", "none")


def produce(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic. It is created if it doesn't exist.")],
    body: Annotated[str | None, typer.Argument(help="The message. Without it, each line of stdin is one.")] = None,
    file: File = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Tag, by which consumers filter.")] = None,
    key: Annotated[list[str] | None, typer.Option("--key", help="Key to find the message by. Repeatable.")] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="Property of the message. Repeatable.")
    ] = None,
    ordering_key: OrderingKey = None,
    queue: Annotated[int | None, typer.Option("--queue", min=0, help="Send to this queue.")] = None,
    priority: Priority = None,
    ttl_ms: TtlMs = None,
    delay_level: DelayLevel = None,
    delay: Delay = None,
    deliver_at: DeliverAt = None,
    ack: AckOption = "async",
    rate: Rate = None,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Send messages to a topic: an argument, the lines of stdin or a file.

    With several brokers, batches go to each in turn. A message with an ordering key or a queue goes where other
    clients send it too.

    \b
    lakemq produce orders '{"id": 42}' --tag paid --key 42 --ordering-key customer-7
    tail -f access.log | lakemq produce access --property host=web-1
    lakemq produce orders --file orders.ndjson --rate 500
    jq -c '{body: .text, keys: [.id]}' events.json | lakemq produce events --file -
    lakemq produce orders '{"id": 43}' --queue 0 --ack sync --json
    lakemq produce reminders "time to go" --delay 10m
    lakemq produce reminders "ten seconds later" --delay-level 3
    lakemq produce quotes '{"id": 42, "price": 7}' --ttl-ms 60000
    lakemq produce alarms "disk full" --priority 2
    lakemq produce reminders "it begins" --deliver-at 2026-12-24T18:00
    lakemq produce orders --file orders.ndjson --nameservers http://127.0.0.1:9876
    """
    if ack not in ACKS:
        raise typer.BadParameter("one of async, sync, none", param_hint="--ack")
    later = delay_of(delay_level, delay, deliver_at)
    said = Draft(b"", tag, key, _properties(properties or []), ordering_key, queue)
    template = said._replace(priority=priority, ttl_ms=ttl_ms, **later)
    if file is not None and (body or template != _NOTHING_SAID):
        raise typer.BadParameter("each message in the file says it all itself", param_hint="--file")
    with connect_all(context, broker, nameservers) as brokers:
        sender = _Sender(Destinations(brokers, topic), topic, ack, as_json, Pace(rate))
        if file is not None:
            sender.send_file(file)
        elif body is not None:
            sender.send([template._replace(body=body.encode())])
        else:
            for lines in sender.batches(stdin_descriptor(), STDIN):
                sender.send([template._replace(body=line) for line in lines])
        sender.report()


class _Sender:
    """Sends batches, and says what became of them."""

    def __init__(self, destinations: Destinations, topic: str, ack: Ack, as_json: bool, pace: Pace) -> None:
        self._destinations = destinations
        self._topic = topic
        self._ack: Ack = ack
        self._as_json = as_json
        self._pace = pace
        self._sent = 0
        self._only: Receipt | None = None

    def batches(self, descriptor: int, name: str) -> Iterator[list[bytes]]:
        """The lines of a stream, as many at a time as the rate allows, when it does. Raises `LakemqError`."""
        try:
            for lines in batches_of_lines(descriptor, self._pace.step(LINES_PER_REQUEST_MAX)):
                self._pace.wait(len(lines))
                yield lines
        except OSError as error:
            so_far = f" ({self._sent:,} messages were sent)" if self._sent else ""
            raise LakemqError(f"can't read {name}: {error.strerror}{so_far}") from None

    def send(self, drafts: list[Draft]) -> None:
        for part in self._destinations.drafts(drafts):
            receipts = self._destinations.send(part, partial(self._produce, part.items))
            self._count(len(part.items), receipts)

    def _produce(self, drafts: list[Draft], client: HttpClient) -> list[Receipt]:
        return client.produce(self._topic, drafts, self._ack)

    def send_file(self, file: Path) -> None:
        if str(file) == "-":
            self._send_lines(stdin_descriptor(), STDIN, lambda count: None)
            return
        try:
            size = file.stat().st_size
            descriptor = os.open(file, os.O_RDONLY)
            os.read(descriptor, 0)  # a folder can be opened
        except OSError as error:
            raise typer.BadParameter(f"can't read {file}: {error.strerror}", param_hint="--file") from None
        with progress() as bar:
            task = bar.add_task(f"to {self._topic}, bytes", total=size)
            try:
                self._send_lines(descriptor, str(file), lambda count: bar.advance(task, count))
            finally:
                os.close(descriptor)

    def _send_lines(self, descriptor: int, name: str, advance: Callable[[int], None]) -> None:
        for lines in self.batches(descriptor, name):
            for part in self._destinations.lines(lines):
                receipts = self._destinations.send(part, partial(self._produce_lines, part.items))
                self._count(len(part.items), receipts)
            advance(sum(len(line) + 1 for line in lines))

    def _produce_lines(self, lines: list[bytes], client: HttpClient) -> list[Receipt]:
        return client.produce_lines(self._topic, b"\n".join(lines), self._ack)

    def _count(self, sent: int, receipts: list[Receipt]) -> None:
        self._sent += sent
        self._only = receipts[0] if self._sent == len(receipts) == 1 else None
        if self._as_json:
            for receipt in receipts:
                write_json(receipt)

    def report(self) -> None:
        if self._as_json:
            return
        if self._only is None:
            noun = "message" if self._sent == 1 else "messages"
            note(f"{self._sent:,} {noun} to {self._topic}")
            return
        stored = self._only
        write_line(f"{stored.message_id}  queue {stored.queue_id}  offset {stored.queue_offset}")


def _properties(pairs: list[str]) -> dict[str, str] | None:
    split = [pair.partition("=") for pair in pairs]
    for name, equals, _ in split:
        if not name or not equals:
            raise typer.BadParameter("has the form NAME=VALUE", param_hint="--property")
    return {name: value for name, _, value in split} or None
