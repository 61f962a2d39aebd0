from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from lakemq.jobs.maintenance.catalogue import JOBS, schedules
from lakemq.jobs.maintenance.cron import trigger_of
from lakemq.model.errors import SettingsError
from lakemq.settings import Maintenance

FRIDAY = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def due_after(expression: str, moment: datetime, zone: str = "UTC") -> datetime:
    trigger = trigger_of("verify", expression, zone)
    assert trigger is not None
    return trigger.get_next_fire_time(None, moment)


def after(expression: str, moment: datetime = FRIDAY, zone: str = "UTC") -> str:
    """When the job is due next, in its time zone."""
    return due_after(expression, moment, zone).strftime("%a %Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("expression", "due"),
    [
        ("*/10 * * * *", "Fri 2026-01-02 12:00"),
        ("47 4 * * 0", "Sun 2026-01-04 04:47"),
        ("47 4 * * 7", "Sun 2026-01-04 04:47"),
        ("47 4 * * sun", "Sun 2026-01-04 04:47"),
        ("0 9 * * 1-5", "Mon 2026-01-05 09:00"),
        ("0 9 * * 0-2", "Sun 2026-01-04 09:00"),
        ("0 9 * * */3", "Sat 2026-01-03 09:00"),
        ("0 9 * * 1,3", "Mon 2026-01-05 09:00"),
        ("0 9 13 * *", "Tue 2026-01-13 09:00"),
        ("0 9 6 * 1", "Mon 2026-01-05 09:00"),  # as a crontab has it: the day or the weekday
    ],
)
def test_an_expression_means_what_it_means_in_a_crontab(expression: str, due: str) -> None:
    assert after(expression) == due


def test_a_sixth_field_is_the_time_zone_of_that_job() -> None:
    summer = datetime(2026, 7, 1, tzinfo=UTC)
    assert due_after("0 3 * * * Europe/Berlin", summer).astimezone(UTC).hour == 1
    assert due_after("0 3 * * *", summer, "Asia/Tokyo") == datetime(2026, 7, 2, 3, tzinfo=ZoneInfo("Asia/Tokyo"))


@pytest.mark.parametrize("expression", ["* * *", "61 * * * *", "* * * * 8", "* * * * 5-1", "* * * * * Mars/Base", "x"])
def test_what_is_no_schedule_is_an_error_that_names_its_setting(expression: str) -> None:
    with pytest.raises(SettingsError, match=r"maintenance\.retention"):
        schedules(Maintenance(retention=expression))


def test_an_empty_schedule_is_never_and_every_setting_is_one_of_a_job() -> None:
    assert "vacuum" not in schedules(Maintenance(vacuum=""))
    assert set(schedules(Maintenance())) == {job.name for job in JOBS.values() if job.setting} - {"index-rebuild"}
