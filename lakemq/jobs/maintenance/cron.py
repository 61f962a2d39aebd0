"""When a job runs: a crontab's five fields and, if it is not the default, a time zone.

APScheduler counts weekdays from Monday and wants day and weekday both to match; crontab(5) counts
from Sunday and takes either. Here an expression means what it means in a crontab.
"""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger

from lakemq.model.errors import SettingsError

_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


def trigger_of(name: str, expression: str, timezone: str) -> Any | None:
    """APScheduler's trigger; None for an empty expression, which is never.

    Raises `SettingsError` that names the setting `maintenance.{name}`.
    """
    fields = expression.split()
    if not fields:
        return None
    zone = fields.pop() if len(fields) == 6 else timezone
    try:
        return _trigger(fields, ZoneInfo(zone))
    except (ValueError, LookupError, OSError) as error:
        raise SettingsError(
            f"setting 'maintenance.{name}' is no cron expression with an optional time zone: {error}"
        ) from None


def _trigger(fields: list[str], zone: ZoneInfo) -> Any:
    if len(fields) != 5:
        raise ValueError(f"{len(fields)} fields where 5 are due")
    minute, hour, day, month, weekday = fields
    of_day = {"minute": minute, "hour": hour, "month": month, "timezone": zone}
    if weekday == "*":
        return CronTrigger(day=day, **of_day)
    named = ",".join(_weekdays(part) for part in weekday.lower().split(","))
    by_weekday = CronTrigger(day_of_week=named, **of_day)
    return by_weekday if day == "*" else OrTrigger([CronTrigger(day=day, **of_day), by_weekday])


def _weekdays(part: str) -> str:
    """One part of the field (`1`, `1-5`, `sun`, `*/2`, `0-6/3`) as APScheduler's names."""
    span, _, step = part.partition("/")
    first, _, last = span.partition("-")
    if first == "*":
        first, last = "0", "6"
    begin = _number(first)
    end = _number(last) if last else (6 if step else begin)
    if end < begin:
        raise ValueError(f"weekdays {part!r} run backwards")
    return ",".join(_WEEKDAYS[day % 7] for day in range(begin, end + 1, int(step or 1)))


def _number(text: str) -> int:
    """0 to 7, both Sunday, or a name's number."""
    if text in _WEEKDAYS:
        return _WEEKDAYS.index(text)
    if not text.isdecimal() or int(text) > 7:
        raise ValueError(f"no weekday {text!r}")
    return int(text)
