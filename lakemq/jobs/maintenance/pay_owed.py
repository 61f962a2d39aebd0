"""The job `owed-erasures`: what erasures could not erase in logs whose brokers were away, once these are back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.maintenance.erase import erase_in_log, erase_in_tables, finish, held_of_the_same_logs
from lakemq.jobs.maintenance.owed_erasures import Owed, back, first_of, owed, places_of, settle
from lakemq.jobs.maintenance.places import count_by
from lakemq.jobs.maintenance.progress import held_by_all
from lakemq.jobs.maintenance.search import MESSAGES_MAX
from lakemq.jobs.maintenance.work import Outcome, Work


def pay_owed(work: Work) -> Outcome:
    """Erases what is owed of logs that can be asked now, at most `MESSAGES_MAX` messages in a run, and what of it has
    come into the tables again. Nothing else is looked for: the condition by which it was found is not known any more.
    It waits for the next run while a broker that the jobs follow is away, whose gateway may have read what is to go,
    and while a table lacks messages before what is owed: other jobs have their turn meanwhile.

    Without debts it does nothing. Raises `LogReplaced` where a broker has another log than the lake's.
    """
    due, left, waits = dict[str, Owed](), dict[str, Owed](), dict[str, Any]()
    if owed(work.lake):
        try:
            due, left = first_of(back(work.lake, work.broker_url), MESSAGES_MAX)
        except BrokerUnavailable as error:
            waits = {"waits_for": error.detail}
    if behind := _behind(work, due):
        due, waits = {}, {"waits_for": f"the lake, which does not have all that is owed of {', '.join(behind)}"}
    detail: dict[str, Any] = {"messages": 0}
    if due:
        held = held_of_the_same_logs(work)
        found = places_of(due.values())
        work.at(f"erases {found.num_rows:,} messages in the logs")
        erased = erase_in_log(work, found, held)
        detail = {"messages": found.num_rows, "topics": count_by(found, "topic"), "logs": count_by(found, "broker")}
        detail["log"] = {"erased": erased, "not_there": found.num_rows - erased}
        detail["tables"] = erase_in_tables(work, found)
        detail |= finish(work)
        settle(work.lake, due, left)
    still = Counter[str]()
    for debt in owed(work.lake).values():
        still[debt.broker] += debt.size
    return Outcome(detail | waits | ({"still_owed": dict(still)} if still else {}))


def _behind(work: Work, due: Mapping[str, Owed]) -> list[str]:
    """The brokers of whose debts a table doesn't have all yet: it would get them after the others have lost them."""
    held = held_by_all(work) if due else {}
    return sorted({debt.broker for debt in due.values() if held.get(debt.broker, 0) < debt.end})
