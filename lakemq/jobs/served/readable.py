"""Which tables and views are served, and which of their rows to whom: all of it, in one place.

What isn't listed isn't served. A view's rows are chosen where the view ends: what it is made of is read in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from lakemq.jobs.session.connect import LIVE
from lakemq.jobs.sql.catalog import ALL, HIDING
from lakemq.model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC
from lakemq.model.sight import Names, Pattern, Sight
from lakemq.model.spark_sql import literal


class Rows(Enum):
    """By what rows are chosen."""

    TOPIC = "those of topics on which the user has `Sub` or `Get`"
    SCHEDULED = "those of such topics; retries only of groups on which the user has `Sub` or `Get`"
    GROUP = "those of groups and of topics on both of which the user has `Sub` or `Get`"
    ALL_OR_NONE = "all, for who has `Get` on the cluster; for others it isn't there"


_BY_TABLE = {
    "messages": Rows.TOPIC,
    "consume_queue": Rows.TOPIC,
    "message_index": Rows.TOPIC,
    "dead_letters": Rows.TOPIC,
    "topics": Rows.TOPIC,
    "scheduled": Rows.SCHEDULED,
    "consumer_offsets": Rows.GROUP,
    # Who knows the id of a transaction that is open may end it.
    "transactions": Rows.ALL_OR_NONE,
    "audit": Rows.ALL_OR_NONE,
    "maintenance_runs": Rows.ALL_OR_NONE,
    "lake_stats": Rows.ALL_OR_NONE,
    "log_holes": Rows.ALL_OR_NONE,
}
_LIVE = (*HIDING, *(ALL + name for name in HIDING), "dead_letters", "consumer_offsets", "audit")

SERVED: dict[tuple[str, ...], Rows] = {
    **{(name,): rows for name, rows in _BY_TABLE.items()},
    **{(LIVE, name): _BY_TABLE[name.removeprefix(ALL)] for name in _LIVE},
}
"""By the parts of their names."""


def condition_of(rows: Rows, sights: Sequence[Sight]) -> str | None:
    """Which rows are seen, as a condition of Spark's SQL: those that each of the sights has; None: all."""
    parts = [_one(rows, sight) for sight in sights if not sight.everything]
    return " AND ".join(f"({part})" for part in dict.fromkeys(parts)) or None


def _one(rows: Rows, sight: Sight) -> str:
    if rows is Rows.ALL_OR_NONE:
        return "true" if sight.system else "false"
    if rows is Rows.GROUP:
        return f"group IS NOT NULL AND {_any(sight.groups, 'group')} AND {_topic(sight, 'topic')}"
    condition = _topic(sight, "topic")
    if rows is Rows.SCHEDULED:
        condition += f" AND (retry_topic IS NULL OR ({_topic(sight, 'retry_topic')}))"
    return condition


def _topic(sight: Sight, column: str) -> str:
    """`Sight.sees_topic`, as a condition."""
    retry, dead = (_group(sight, prefix, column) for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX))
    is_system = f"({column} = '{SCHEDULE_TOPIC}' OR startswith({column}, 'RMQ_SYS_') OR startswith({column}, '%'))"
    is_group = " OR ".join(
        f"(startswith({column}, '{prefix}') AND {column} <> '{prefix}')"
        for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX)
    )
    system = f"({is_system} AND NOT ({is_group}))" if sight.system else "false"
    plain = f"(NOT {is_system} AND {_any(sight.topics, column)})"
    return f"{column} IS NOT NULL AND ({plain} OR {retry} OR {dead} OR {system})"


def _group(sight: Sight, prefix: str, column: str) -> str:
    names = tuple(
        Names(
            tuple(Pattern(prefix + each.name, each.is_prefix) for each in names.allowed),
            tuple(Pattern(prefix + each.name, each.is_prefix) for each in names.denied),
        )
        for names in sight.groups
    )
    return f"({column} <> '{prefix}' AND {_any(names, column)})"


def _any(all_names: Sequence[Names], column: str) -> str:
    return "(" + (" OR ".join(_names(names, column) for names in all_names) or "false") + ")"


def _names(names: Names, column: str) -> str:
    allowed = " OR ".join(_pattern(each, column) for each in names.allowed) or "false"
    denied = " OR ".join(_pattern(each, column) for each in names.denied) or "false"
    return f"(({allowed}) AND NOT ({denied}))"


def _pattern(pattern: Pattern, column: str) -> str:
    text = literal(pattern.name)
    if not pattern.is_prefix:
        return f"{column} = {text}"
    return f"startswith({column}, {text})" if pattern.name else "true"
