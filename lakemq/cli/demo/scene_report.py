"""What the demo shows of delays, transactions and dead letters: the checks, and SQL over the tables."""

from __future__ import annotations

from rich.table import Table

from lakemq.cli.demo import boarding, booking, failing
from lakemq.cli.demo.history import Counted, History
from lakemq.cli.demo.queries import SCHEDULED, transaction_history
from lakemq.cli.demo.report import Check
from lakemq.cli.demo.scenes import Scenes
from lakemq.cli.output import stdout, write_line


def show_scenes(scenes: Scenes) -> None:
    """Tell the three stories in a line or two each."""
    calls, booked, failed = scenes.boarding, scenes.booking, scenes.failing
    expected = calls.scheduled - calls.recalled
    write_line(
        f"\nDelays: {calls.scheduled:,} boarding calls scheduled for their departures (an hour in "
        f"{boarding.HOUR_MS / 1000:g} s), {calls.recalled:,} recalled; {expected:,} delivered, the latest "
        f"{calls.late_ms_max:,} ms after its time, at the consumer."
    )
    write_line(
        f"Transactions: a booking's producer died; another client of group {booking.GROUP} was asked "
        f"{booked.check_s:.1f} s later and committed it; visible after {booked.visible_ms:.0f} ms."
    )
    write_line(
        f"Dead letters: a consumer failed {failed.attempts:,} times on {failed.failing:,} flights; redriven "
        f"WHERE {failed.predicate}: {failed.redriven:,}, still dead: {failed.still_dead:,}."
    )


def scene_checks(scenes: Scenes, counted: list[Counted], events: list[str]) -> list[Check]:
    """What each scene claims, as a consumer saw it and as the lake's tables have it."""
    calls, booked, failed = scenes.boarding, scenes.booking, scenes.failing
    expected, heard = calls.scheduled - calls.recalled, len(calls.called)
    on_time = (calls.early, calls.out_of_time_order)
    redriven = failed.failing - failed.still_dead
    retries = failed.failing * (failing.ATTEMPTS - 1)
    attempts = failed.failing + retries
    rows = {("delay", "delivered"): expected, ("delay", "recalled"): calls.recalled, ("retry", "delivered"): retries}
    stored = {(each.kind, each.state): each.count for each in counted}
    history = ["half", "check", "commit", "committed"]
    return [
        Check("boarding calls: each once", f"{heard:,}", (heard, len(set(calls.called))) == (expected, expected)),
        Check("boarding calls: none of the recalled", f"{calls.recalled_calls:,}", calls.recalled_calls == 0),
        Check(
            "boarding calls: none early, in order of time",
            "{:,} early, {:,} out of order".format(*on_time),
            on_time == (0, 0),
        ),
        Check(
            "booking: seen while open, and committed",
            f"{booked.seen_open}, {booked.seen_committed}",
            (booked.seen_open, booked.seen_committed) == (0, 1),
        ),
        Check("failed attempts", f"{failed.attempts:,}", failed.attempts == attempts),
        Check("dead letters", f"{failed.dead:,}", failed.dead == failed.failing),
        Check(
            "redriven by predicate, each once",
            f"{failed.processed:,}",
            (failed.matched, failed.redriven, failed.processed) == (redriven, redriven, redriven),
        ),
        Check(
            "Delta: scheduled has a row for each",
            f"{sum(stored.values()):,}",
            stored == {key: count for key, count in rows.items() if count},
        ),
        Check("Delta: the booking's history", ", ".join(events), sorted(events) == sorted(history)),
    ]


def show_tables(history: History, scenes: Scenes) -> None:
    """Print the SQL over the two tables, and what it answers."""
    write_line(f"\nWhat was scheduled (SQL over the table scheduled):\n{SCHEDULED}")
    table = Table("topic", "kind", "state", "messages", "late at most")
    for row in history.scheduled():
        late = "" if row.late_ms_max is None else f"{row.late_ms_max:,} ms"
        table.add_row(row.topic, row.kind, row.state, f"{row.count:,}", late)
    stdout().print(table)
    transaction_id = scenes.booking.transaction_id
    write_line(f"\nThe booking's history (SQL over the table transactions):\n{transaction_history(transaction_id)}")
    table = Table("event", "by", "when", "state", "check")
    for event in history.transaction(transaction_id):
        check = "" if event.check_times is None else str(event.check_times)
        table.add_row(event.event, event.by, f"{event.event_time:%H:%M:%S.%f}"[:-3], event.state or "", check)
    stdout().print(table)
