"""How messages and numbers look on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from rich.table import Column, Table
from rich.text import Text

from lakemq.cli.output import write_json
from lakemq.client.message import encode_body, encode_message

if TYPE_CHECKING:
    from lakemq.client import MessageView

NOWHERE, HERE, NAME, LABEL = "red", "green", "cyan", "yellow"
"""Colours: what is behind or missing, what is well, names, what a message is labelled with."""


def table(*columns: str | Column, title: str | None = None) -> Table:
    """A table with these headings."""
    return Table(*columns, title=title, header_style="bold", title_style="bold cyan")


def whole(heading: str) -> Column:
    """A column of ids, which are to be copied: in one line each, whatever room is left for the others."""
    return Column(heading, no_wrap=True, overflow="fold")


def folded(heading: str) -> Column:
    """A column whose long words continue in the next line, as nothing of them may be missing."""
    return Column(heading, overflow="fold")


def name(text: str) -> Text:
    """A name."""
    return Text(text, NAME)


def lag(count: int | None) -> Text:
    """How many messages somebody is behind; None: nobody knows."""
    if count is None:
        return Text("unknown", LABEL, justify="right")
    return Text(f"{count:,}", NOWHERE if count else HERE, justify="right")


def plain(text: str) -> str:
    """Text that can't steer the terminal."""
    return "".join(letter if letter.isprintable() else "·" for letter in text)


def body_of(body: bytes) -> str:
    """A body in one line."""
    encoded = encode_body(body)
    return plain(encoded["body"]) if "body_encoding" not in encoded else f"({len(body):,} bytes)"


def time_of(time_ms: int) -> str:
    """A time, local, to the millisecond."""
    return datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(" ", "milliseconds")[:23]


def message_table(messages: Iterable[MessageView], with_topic: bool = False) -> Table:
    """Messages, one a row; why they failed, if some did."""
    shown = list(messages)
    failed = any(message.failure_class or message.failure_text for message in shown)
    topic = ["topic"] if with_topic else []
    made = table(
        *topic, "queue", "offset", "tag", "keys", *(["failed by"] if failed else []), "body", whole("message id")
    )
    for message in shown:
        labels = (Text(plain(message.tag or ""), LABEL), Text(plain(" ".join(message.keys)), LABEL))
        place = (*([message.topic] if with_topic else []), str(message.queue_id), str(message.queue_offset))
        why = [Text(plain(_why(message)), NOWHERE)] if failed else []
        made.add_row(*place, *labels, *why, Text(body_of(message.body)), Text(message.message_id, NAME))
    return made


def _why(message: MessageView) -> str:
    return ": ".join(part for part in (message.failure_class, message.failure_text) if part)


def message_line(message: MessageView) -> Text:
    """A message in one line, as it arrives."""
    line = Text.assemble(
        (time_of(message.store_time_ms), "dim"),
        " ",
        (f"{message.topic}/{message.queue_id}@{message.queue_offset}", NAME),
    )
    labels = [message.tag, *message.keys]
    if any(labels):
        line.append(" " + plain(" ".join(label for label in labels if label)), LABEL)
    if message.reconsume_times:
        line.append(f" again {message.reconsume_times}", NOWHERE)
    return line.append(" " + body_of(message.body))


def write_message(message: MessageView) -> None:
    """A message as a line of JSON, with the gateway's names."""
    write_json(encode_message(message))
