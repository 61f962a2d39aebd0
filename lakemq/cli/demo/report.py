"""What the demo shows: the checks, the charts, and how to go on."""

from __future__ import annotations

import calendar
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from lakemq.cli.bars import bars
from lakemq.cli.demo.history import Day, History, Stored
from lakemq.cli.demo.queries import EXAMPLE
from lakemq.cli.demo.replay import Replayed
from lakemq.cli.output import stdout, write_line


@dataclass(frozen=True)
class Check:
    """One claim about the replay."""

    claim: str
    found: str
    holds: bool


def checks(replayed: Replayed, stored: Stored, expected: int) -> list[Check]:
    """Produced = consumed = rows in Delta, each once and in order for each tail number."""
    seen = replayed.outcome
    once = (seen.missing, seen.repeated)
    disorder = (seen.out_of_order, seen.split_tails)
    disorder_stored = (stored.out_of_order, stored.split_tails)
    return [
        Check("produced", f"{replayed.produced:,}", replayed.produced == expected),
        Check("consumed", f"{seen.consumed:,}", seen.consumed == expected),
        Check("rows in Delta", f"{stored.rows:,}", stored.rows == expected),
        Check("consumed: each flight once", _missing(*once), once == (0, 0)),
        Check("Delta: each flight once", f"{stored.flights:,}", stored.flights == expected),
        Check("consumed: in order by tail number", _disorder(*disorder), disorder == (0, 0)),
        Check(
            "Delta: in order by tail number",
            _disorder(*disorder_stored),
            disorder_stored == (0, 0),
        ),
    ]


def show_checks(found: list[Check], title: str = "Checks") -> bool:
    """Print the checks; whether all hold."""
    table = Table("check", "found", "", title=title, title_justify="left")
    for check in found:
        table.add_row(check.claim, check.found, "ok" if check.holds else "WRONG")
    stdout().print(table)
    return all(check.holds for check in found)


def show_history(history: History) -> None:
    """Print the answers of SQL over the history."""
    write_line("\nAverage delay at departure by carrier (SQL over the table messages):")
    _write(bars(history.delay_by_carrier(), "min"))
    write_line("\nand by month:")
    months = [(calendar.month_abbr[month], delay) for month, delay in history.delay_by_month()]
    _write(bars(months, "min"))
    _show_day(history.busiest_day())


def show_how_to_go_on(url: str, root: Path, pid: int) -> None:
    """Print what to do with a broker that was kept."""
    _write(
        [
            f"\nThe broker runs on {url} (process {pid}). Go on with:",
            f"  {_command()} pull flights --queue 0 --max 5 --broker {url}",
            f"  {_command()} produce greetings 'hello' --broker {url}",
            f'  {_command()} sql "{EXAMPLE}" --lake {root / "lake"}',
            f"and stop it with: kill {pid}    (its files are in {root})",
        ]
    )


def show_next(root: Path | None) -> None:
    """Print what to do after a demo that stopped all; `root` is where it left its files."""
    left = "cleaned up" if root is None else f"its files are in {root}"
    ask = [] if root is None else [f'  {_command()} sql --lake {shlex.quote(_short(root / "lake"))} "{EXAMPLE}"']
    _write(
        [
            f"\nAll stopped, {left}. Go on with:",
            *ask,
            f"  {_command()} demo --keep       the same, and leaves the broker running",
            f"  {_command()} up                a broker of your own",
            f"  {_command()} produce --help    how to put messages into it",
        ]
    )


def _show_day(day: Day) -> None:
    date = f"{day.day} {calendar.month_name[day.month]} 2013"
    write_line(f"\n{day.tail} on {date}, found by its key through message_index:")
    table = Table("scheduled", "flight", "from", "to", "delay")
    for leg in day.legs:
        hour, minute = divmod(leg.sched_dep_time, 100)
        delay = "cancelled" if leg.dep_delay is None else f"{leg.dep_delay:+.0f} min"
        table.add_row(f"{hour:02}:{minute:02}", f"{leg.carrier}{leg.flight}", leg.origin, leg.dest, delay)
    stdout().print(table)


def _short(path: Path) -> str:
    """The path as it can be typed here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _command() -> str:
    """The command as it was called, so that what is shown can be typed."""
    called = sys.argv[0]
    return called if Path(called).name == "lakemq" else "lakemq"


def _missing(missing: int, repeated: int) -> str:
    return f"{missing:,} missing, {repeated:,} repeated"


def _disorder(out_of_order: int, split_tails: int) -> str:
    return f"{out_of_order:,} out of order, {split_tails:,} tails split"


def _write(lines: list[str]) -> None:
    for line in lines:
        write_line(line)
