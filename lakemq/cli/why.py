"""Why a message was or wasn't delivered, as `lakemq message why` shows it. The rules are those of the console:
`lakemq.model.life`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from lakemq.cli import shown
from lakemq.cli.brokers import Named, ask_each
from lakemq.cli.output import remark, stdout, write_json
from lakemq.cli.search import SearchQuery, search_by_key, together
from lakemq.model.errors import MessageNotFound
from lakemq.model.ids import parse_message_id
from lakemq.model.life import Answer, Life, goes_on, life_of, with_page
from lakemq.model.spark_sql import literal
from lakemq.model.written import moment

if TYPE_CHECKING:
    from lakemq.client.http import HttpClient

_COLOURS = {"good": shown.HERE, "bad": shown.NOWHERE, "warn": shown.LABEL, "": ""}


def check_id(text: str) -> str:
    """The text. Raises `MessageNotFound` for what can't be an id, with the command that looks for a key."""
    try:
        parse_message_id(text)
    except MessageNotFound as error:
        raise MessageNotFound(
            f"{error.detail}; if it is a key: lakemq message why --key {shlex.quote(text[:200])}"
        ) from None
    return text


def ids_of(brokers: list[Named], topic: str | None, wanted: SearchQuery) -> list[str]:
    """The ids of messages with a key, those that wait first; says how many they are, and what was not searched. Raises
    `MessageNotFound` where there is none."""
    found = together(ask_each(brokers, lambda client: search_by_key(client, topic, wanted, "--topic TOPIC")), wanted)
    ids = [each.message_id for each in (*found.waiting, *found.messages)][: wanted.count_max]
    key = shown.plain(wanted.key or "")
    if ids:
        remark(f"{len(ids):,} with the key {key!r}: {', '.join(ids)}")
    else:
        # A recalled message is in no queue and waits no more: only the lake finds it by its key.
        statement = f"SELECT message_id, topic, state FROM scheduled WHERE array_contains(keys, {literal(key)})"  # noqa: S608  shown, not run
        argument = shlex.quote(statement) if set(statement) & set('"$`\\!') else f'"{statement}"'
        remark(f"to see whether it was recalled: lakemq sql {argument}")
    if not found.complete:
        remark("not all of the log was looked at, so there may be older ones")
    for said in found.notes:
        remark(said)
    if not ids:
        where = "any topic that this user may list and read" if topic is None else f"topic {topic}"
        at = f" at {len(brokers):,} brokers" if len(brokers) > 1 else ""
        searched = f"searched its messages in the log and the lake, and what waits{at}"
        raise MessageNotFound(f"no message of {where} has the key {key!r}: {searched}")
    return ids


def answer(client: HttpClient, message_id: str, group: str | None, pages_max: int, as_json: bool) -> None:
    """Look at one message, and write what is known. Raises `MessageNotFound`, `GroupNotFound`."""
    history = history_of(client, message_id, pages_max)
    life = life_of(history)
    answers = answers_for(client, history, life, group)
    if as_json:
        write_message(history, life, answers)
    else:
        show(history, life, answers, group)
    if history["next_after"] is not None:
        remark("the log wasn't read to its end; --pages reads more of it")
    if group is None and history["more_groups"]:
        remark(f"{history['more_groups']:,} more groups of this topic were not looked at")


def history_of(client: HttpClient, message_id: str, pages_max: int) -> dict[str, Any]:
    """The history of a message, from so many pages of the log at most: its `next_after` is None if that was all.
    Raises `MessageNotFound`."""
    whole = client.history(message_id)
    for _ in range(pages_max - 1):
        if not goes_on(whole):
            break
        whole = with_page(whole, client.history(message_id, whole["next_after"]))
    return whole


def answers_for(client: HttpClient, history: Mapping[str, Any], life: Life, group: str | None) -> list[Answer]:
    """Those of one group, or all. Raises `GroupNotFound`."""
    if group is None:
        return [*life.answers]
    found = [each for each in life.answers if each.group == group or (not each.group and history["target"] is None)]
    if not found:
        client.group(group)
        if history["more_groups"]:
            text = f"{history['more_groups']:,} groups of {history['topic']} were not looked at, and it may be of them."
            return [Answer(group, text, "warn", f"lakemq group show {group}")]
        return [Answer(group, f"The group doesn't consume {history['topic']}.", "bad", f"lakemq group show {group}")]
    return found


def write_message(history: Mapping[str, Any], life: Life, answers: list[Answer]) -> None:
    """One message, as a line."""
    content = {
        "message_id": history["message"]["message_id"],
        "topic": history["topic"],
        "answers": [each._asdict() for each in answers],
        "steps": [each._asdict() for each in life.steps],
        "complete": history["next_after"] is None,
    }
    write_json(content)


def show(history: Mapping[str, Any], life: Life, answers: list[Answer], group: str | None) -> None:
    """One message: the answers, then what happened, with times in UTC."""
    screen = stdout()
    screen.print(_head(history), soft_wrap=True)
    for each in answers:
        who = f"{each.group}: " if each.group else ""
        screen.print(Text.assemble("  ", (who, "bold"), (shown.plain(each.text), _COLOURS[each.tone])), soft_wrap=True)
        if each.command:
            screen.print(Text(f"    next: {each.command}"), soft_wrap=True)
    screen.print(Text("  What happened (UTC):"))
    table = Table.grid(padding=(0, 2))
    for step in life.steps:
        if group is not None and step.group not in ("", group):
            continue
        title = f"{step.title} (to come)" if step.to_come else step.title
        detail = shown.plain(": ".join(part for part in (title, step.detail) if part))
        table.add_row(Text(f"    {moment(step.time_ms)}"), Text(shown.plain(step.group), shown.NAME), Text(detail))
    screen.print(table)


def _head(history: Mapping[str, Any]) -> Text:
    place, message = history["target"], history["message"]
    head = Text.assemble((message["message_id"], "bold"), f"  {history['topic']}")
    if place is not None:
        head.append(f" queue {place['queue_id']} offset {place['queue_offset']:,}")
    return head
