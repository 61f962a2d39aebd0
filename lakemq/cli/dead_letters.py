"""`lakemq dead-letters list | causes | show | redrive | watch | discard`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
import typer
from rich.table import Table
from rich.text import Text

from lakemq.cli import shown
from lakemq.cli.brokers import ask_each, connect_all, said_of, the_one_of
from lakemq.cli.delay import moment_ms
from lakemq.cli.options import AsJson, Broker, Nameservers
from lakemq.cli.output import progress, remark, stdout, write_json, write_line
from lakemq.client.dead_letter import DeadLetterState, count_causes
from lakemq.client.message import encode_message
from lakemq.model.causes import Causes
from lakemq.model.dead_letter import LetterState
from lakemq.model.errors import GroupNotFound, MessageNotFound, TopicNotFound
from lakemq.model.names import dead_letter_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakemq.client.dead_letter import DeadLetter, DeadLetterPage
    from lakemq.client.http import HttpClient

LOOK_S = 0.2
PAGE, RESULTS_PAGE = 500, 1_000
RUNNING = "running"
_NOT_THERE = (GroupNotFound, TopicNotFound)
"""A broker may not have heard of a group that others have."""

app = typer.Typer(no_args_is_help=True, help="Show dead letters, redrive them to their group, or discard them.")
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]
State = Annotated[Literal[DeadLetterState, "all"], typer.Option("--state", help="Only letters in this state.")]
Topic = Annotated[str | None, typer.Option("--topic", help="Only of messages sent to this topic.")]
Begin = Annotated[str | None, typer.Option("--begin", metavar="TIME", help="Failed at this time or later.")]
End = Annotated[str | None, typer.Option("--end", metavar="TIME", help="Failed before this time.")]
CountMax = Annotated[int, typer.Option("--max", min=1, max=1_000_000, help="At most this many of each broker.")]


@app.command("list")
def list_letters(
    context: typer.Context,
    group: GroupName,
    state: State = "open",
    reason: Annotated[
        str | None,
        typer.Option("--reason", metavar="TEXT", help="Only with this text in the failure's class or message."),
    ] = None,
    cause: Annotated[
        str | None,
        typer.Option("--cause", help="Only of exactly this cause, as causes shows it; empty: none given."),
    ] = None,
    topic: Topic = None,
    begin: Begin = None,
    end: End = None,
    count_max: CountMax = 100,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """List a group's dead letters, newest first, with why they failed.

    Open ones can be redriven or discarded. Gone ones can't: neither the log nor the lake has them any more.

    \b
    lakemq dead-letters list billing
    lakemq dead-letters list billing --reason timeout --begin 2026-12-24T18:00 --end 2026-12-25
    lakemq dead-letters list billing --cause TimeoutError
    lakemq dead-letters list billing --topic orders --max 1000 --state all --json | jq -r .message_id
    lakemq dead-letters list billing --nameservers http://127.0.0.1:9876
    """
    wanted = _wanted(state, topic, begin, end) | {"reason": reason, "cause": cause}
    with connect_all(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: _letters(client, group, wanted, count_max), _NOT_THERE)
    if as_json:
        for name, (letters, _) in found.items():
            for letter in letters:
                write_json({**letter._asdict(), **said_of(name)})
    else:
        stdout().print(_table(found))
    if any(more for _, more in found.values()):
        remark(f"there are more; --max shows more than {count_max:,}")


@app.command()
def causes(
    context: typer.Context,
    group: GroupName,
    state: State = "open",
    topic: Topic = None,
    begin: Begin = None,
    end: End = None,
    count_max: CountMax = 100_000,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Count a group's dead letters by what they died of.

    A cause is the class of the error, or the beginning of the text of one without a class. The newest letters are
    counted, of all brokers together.

    \b
    lakemq dead-letters causes billing
    lakemq dead-letters causes billing --topic orders --begin 2026-12-24T18:00 --end 2026-12-25
    lakemq dead-letters causes billing --state all --max 1000 --json | jq -r .cause
    lakemq dead-letters causes billing --nameservers http://127.0.0.1:9876
    """
    wanted, counted = _wanted(state, topic, begin, end), Causes()
    with connect_all(context, broker, nameservers) as brokers:
        more = ask_each(brokers, lambda client: _count(client, group, wanted, count_max, counted), _NOT_THERE)
    if as_json:
        for each in counted.most():
            line = {"cause": each.name, "letters": each.letters}
            write_json(line | {"oldest_ms": each.oldest_ms, "newest_ms": each.newest_ms})
    else:
        made = shown.table("letters", "cause", shown.whole("oldest"), shown.whole("newest"))
        for each in counted.most():
            cause = Text(shown.plain(each.name), shown.NOWHERE) if each.name else Text("no reason given", "dim")
            times = (shown.time_of(each.oldest_ms), shown.time_of(each.newest_ms))
            made.add_row(f"{each.letters:,}", cause, *times)
        stdout().print(made)
    if any(more.values()):
        remark(f"there are older ones; --max counts more than {count_max:,}")


def _count(client: HttpClient, group: str, wanted: dict[str, Any], count_max: int, causes: Causes) -> bool:
    """Count so many of a broker's. Returns whether it may have more."""
    more = False
    for page in _pages(client, group, wanted, count_max):
        count_causes(page.letters, causes)
        more = page.next_after is not None
    return more


def _wanted(state: str, topic: str | None, begin: str | None, end: str | None) -> dict[str, Any]:
    """Which letters a command is about."""
    return {
        "state": None if state == "all" else state,
        "topic": topic,
        "begin_ms": None if begin is None else moment_ms(begin, "--begin"),
        "end_ms": None if end is None else moment_ms(end, "--end"),
    }


def _letters(client: HttpClient, group: str, wanted: dict[str, Any], count_max: int) -> tuple[list[DeadLetter], bool]:
    """So many of them, and whether there may be more."""
    letters: list[DeadLetter] = []
    more = False
    for page in _pages(client, group, wanted, count_max):
        letters += page.letters
        more = page.next_after is not None
    return letters, more


def _pages(client: HttpClient, group: str, wanted: dict[str, Any], count_max: int) -> Iterator[DeadLetterPage]:
    """Of so many letters."""
    after: int | None = None
    while True:
        page = client.dead_letters(group, **wanted, after=after, count_max=min(count_max, PAGE))
        yield page
        after, count_max = page.next_after, count_max - len(page.letters)
        if after is None or count_max <= 0:
            return


def _table(found: dict[str, tuple[list[DeadLetter], bool]]) -> Table:
    made = shown.table(
        *("failed", "state", *said_of(*found), "topic", "keys", "tries"),
        shown.folded("failed by"),
        shown.whole("message id"),
    )
    for name, (letters, _) in found.items():
        for each in letters:
            failed = "" if each.failed_ms is None else shown.time_of(each.failed_ms)
            keys = shown.plain(" ".join(each.keys)) + (f" +{each.more_keys}" if each.more_keys else "")
            made.add_row(
                Text(failed),
                Text(each.state, shown.NOWHERE if each.state == LetterState.OPEN else "dim"),
                *said_of(name).values(),
                Text(each.topic or "", shown.NAME),
                Text(keys, shown.LABEL),
                "" if each.deliveries is None else str(each.deliveries),
                Text(shown.plain(_why(each)), shown.NOWHERE),
                Text(each.message_id or f"offset {each.queue_offset}", shown.NAME),
            )
    return made


def _why(letter: DeadLetter) -> str:
    return ": ".join(part for part in (letter.failure_class, letter.failure_text) if part)


@app.command()
def show(
    context: typer.Context,
    group: GroupName,
    message_id: Annotated[str, typer.Argument(metavar="MESSAGE_ID", help="Id of the dead letter, as list shows it.")],
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Show one dead letter with its body and all fields.

    \b
    lakemq dead-letters show billing broker-a.5b1f3c6e0d0a-1.0
    lakemq dead-letters show billing broker-a.5b1f3c6e0d0a-1.0 --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        client = the_one_of(brokers, message_id)
        message = client.message(message_id)
        if message.topic != dead_letter_topic(group):
            raise MessageNotFound(f"{message_id!r} is no dead letter of group {group!r}")
        (letter,) = client.dead_letters(group, after=message.queue_offset + 1, count_max=1).letters
    said = letter._asdict() | {"queue_id": message.queue_id}
    content = said | {name: value for name, value in encode_message(message).items() if name not in said}
    if as_json:
        write_json(content)
        return
    table = Table.grid(padding=(0, 2))
    for name, value in content.items():
        if value is not None:
            text = value if isinstance(value, str) else orjson.dumps(value).decode()
            table.add_row(Text(name, "bold"), Text(shown.plain(text)))
    stdout().print(table)


@app.command()
def redrive(
    context: typer.Context,
    group: GroupName,
    where: Annotated[str, typer.Option("--where", metavar="SQL", help="SQL predicate that chooses the letters.")],
    rate: Annotated[float, typer.Option("--rate", min=0.01, help="At most this many a second.")] = 100,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the letters.")] = False,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Redrive dead letters to their group, and wait until all are sent.

    Each is sent exactly once. A redrive that has started continues if this command ends. The predicate's columns are
    those of a message (tag, keys, properties, real_topic, body and so on), failure_class, failure_text, failed_at and
    deliveries.

    \b
    lakemq dead-letters redrive billing --where "tag = 'invoice' AND reconsume_times >= 3" --dry-run
    lakemq dead-letters redrive billing --where "failure_class = 'TimeoutError'"
    lakemq dead-letters redrive billing --where "true" --rate 10
    lakemq dead-letters redrive billing --where "true" --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        started = ask_each(brokers, lambda client: client.redrive(group, where, rate, dry_run), _NOT_THERE)
        clients = {each.name: each.client for each in brokers}
        if not dry_run:
            for each in started.values():
                remark(f"redrive {each.redrive_id}")
        done = {name: _wait(clients[name], each.redrive_id) for name, each in started.items()}
    if as_json:
        for name, each in done.items():
            write_json({"redrive_id": started[name].redrive_id} | each | said_of(name))
        return
    matched = sum(each.matched for each in started.values())
    if dry_run:
        write_line(f"{matched:,} dead letters of {group} match; none was sent")
        return
    write_line(f"{sum(each['redriven'] for each in done.values()):,} of {matched:,} dead letters sent to {group} again")
    if failed := sum(each["failed"] for each in done.values()):
        remark(f"{failed:,} failed; lakemq dead-letters watch with the redrive's id says which")
        raise typer.Exit(1)


@app.command()
def discard(
    context: typer.Context,
    group: GroupName,
    where: Annotated[str, typer.Option("--where", metavar="SQL", help="SQL predicate that chooses the letters.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the letters.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Discard dead letters that nothing will ever process.

    They can still be read, but they are no longer open, and no redrive sends them. This can't be undone. The predicate
    is as in redrive.

    \b
    lakemq dead-letters discard billing --where "failure_class = 'ValueError'" --dry-run
    lakemq dead-letters discard billing --where "tag = 'invoice' AND failed_at < '2026-01-01'" --yes
    lakemq dead-letters discard billing --where "true" --yes --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        if dry_run or not yes:
            found = ask_each(brokers, lambda client: client.discard(group, where, dry_run=True), _NOT_THERE)
            matched = _sum(found, "matched")
            if not dry_run and matched:
                asked = f"No redrive will send them again. Discard {_counted(matched)} of {group}?"
                typer.confirm(asked, abort=True, err=True)
                clients = {each.name: each.client for each in brokers}
                # What has died since is left alone: nobody has agreed to that.
                found = {
                    name: clients[name].discard(group, where, up_to=each["last"]) if "last" in each else each
                    for name, each in found.items()
                }
        else:
            found = ask_each(brokers, lambda client: client.discard(group, where), _NOT_THERE)
    if as_json:
        for name, each in found.items():
            write_json(each | said_of(name))
        return
    matched, discarded = _sum(found, "matched"), _sum(found, "discarded")
    if dry_run:
        write_line(f"{_counted(matched)} of {group} would be discarded; none was")
        return
    write_line(f"discarded {discarded:,} of {matched:,} dead letters of {group}")
    if discarded < matched:
        remark(f"{matched - discarded:,} were left out: a redrive has sent them meanwhile, or is sending them")


def _counted(letters: int) -> str:
    return f"{letters:,} dead letter{'' if letters == 1 else 's'}"


def _sum(answers: dict[str, dict[str, int]], name: str) -> int:
    return sum(each[name] for each in answers.values())


@app.command()
def watch(
    context: typer.Context,
    redrive_id: Annotated[str, typer.Argument(metavar="REDRIVE_ID", help="Id of the redrive, as redrive shows it.")],
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Wait for a redrive, and show the result for each letter.

    \b
    lakemq dead-letters watch broker-a.5b1f3c6e0d0a-1.0
    lakemq dead-letters watch broker-a.5b1f3c6e0d0a-1.0 --json | jq 'select(.status == "failed")'
    lakemq dead-letters watch broker-a.5b1f3c6e0d0a-1.0 --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        client = the_one_of(brokers, redrive_id)
        done = _wait(client, redrive_id)
        results: list[dict[str, Any]] = done["results"]
        while done["truncated"]:
            done = client.redrive_progress(redrive_id, offset=len(results), count_max=RESULTS_PAGE)
            results += done["results"]
    if as_json:
        for each in results:
            write_json(each)
        return
    made = shown.table(
        shown.whole("dead letter"), "status", shown.whole("sent again as"), title=f"{done['group']}: {done['state']}"
    )
    for each in results:
        status = Text(each["status"], shown.NOWHERE if each["status"] == "failed" else shown.HERE)
        made.add_row(shown.name(each["message_id"]), status, each.get("redriven_message_id", ""))
    stdout().print(made)


def _wait(client: HttpClient, redrive_id: str) -> dict[str, Any]:
    """What became of the redrive, once it is over."""
    with progress() as bar:
        task = bar.add_task("redriven", total=None)
        while True:
            found = client.redrive_progress(redrive_id)
            bar.update(task, completed=found["redriven"] + found["failed"], total=found["matched"])
            if found["state"] != RUNNING:
                return found
            time.sleep(LOOK_S)
