"""What maintenance deletes by age goes by the time of the brokers that answer, not by a clock that jumped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import apscheduler.schedulers.base
import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.maintenance import requests
from lakemq.jobs.maintenance.catalogue import schedules
from lakemq.jobs.maintenance.cleanup import clean_up
from lakemq.jobs.maintenance.layout import vacuum
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.maintenance.scheduler import MaintenanceScheduler
from lakemq.jobs.maintenance.work import CLOCK_AHEAD_MS_MAX, ClockAhead, Work
from lakemq.jobs.tables.driver import Driver
from lakemq.settings import HOUR_MS, Lake, Maintenance, Settings
from lakemq.storage.disk.clock import SystemClock
from lakemq.testing import start_gateway

DEAD = "http://127.0.0.1:1"
WAIT_S = 300


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_gateway(tmp_path_factory.mktemp("log")) as gateway:
        yield gateway.url


def work_of(lake: Path, brokers: str) -> Work:
    """A job's run that must not come to ask Spark for anything."""
    session = cast("SparkSession", None)
    return Work(session, Settings(lake=Lake(dir=lake)), brokers, driver=Driver(session, Lake(dir=lake)))


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets this machine's clock ahead, for who asks it in this process."""
    now_ms = SystemClock.now_ms

    def ahead(by_ms: int) -> None:
        monkeypatch.setattr(SystemClock, "now_ms", lambda clock: now_ms(clock) + by_ms)

    return ahead


def test_a_clock_that_jumped_ahead_lets_nothing_be_deleted(
    url: str, tmp_path: Path, jump: Callable[[int], None]
) -> None:
    """A checkpoint of a query that runs looked as if nobody had written it for a day."""
    checkpoint = tmp_path / "_checkpoints" / "lake" / "running"
    checkpoint.mkdir(parents=True)
    before_ms = SystemClock().now_ms()
    jump(1_000 * HOUR_MS)
    work = work_of(tmp_path, url)
    for job in (vacuum, clean_up):
        with pytest.raises(ClockAhead, match=r"storage\.clock_confirm_ms"):
            job(work)
    assert checkpoint.exists()
    assert work.steady_ms() < before_ms + HOUR_MS, "`keep` goes by it"


def test_a_clock_that_is_a_little_off_is_no_jump(url: str, tmp_path: Path, jump: Callable[[int], None]) -> None:
    jump(CLOCK_AHEAD_MS_MAX // 2)
    work_of(tmp_path, url).check_clock()


def test_a_dead_broker_keeps_nobody_from_knowing_the_time(
    url: str, tmp_path: Path, jump: Callable[[int], None]
) -> None:
    before_ms = SystemClock().now_ms()
    jump(1_000 * HOUR_MS)
    assert before_ms - HOUR_MS < work_of(tmp_path, f"{DEAD},{url}").steady_ms() < before_ms + HOUR_MS
    with pytest.raises(BrokerUnavailable, match="nothing is deleted by its age"):
        work_of(tmp_path, DEAD).steady_ms()


@pytest.fixture
def set_clock(jump: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets this machine's clock so far from what it is, for APScheduler too."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return now(tz)

    monkeypatch.setattr(apscheduler.schedulers.base, "datetime", Clock)
    return jump


def now(zone: Any = UTC) -> datetime:
    return datetime.fromtimestamp(SystemClock().now_ms() / 1000, zone)


def test_a_clock_that_is_set_back_keeps_no_request_waiting_and_no_job_from_being_due(
    tmp_path: Path, set_clock: Callable[[int], None]
) -> None:
    """Both waited until the clock was again where it had been: after one that was years ahead at the start, for years.
    `lakemq erase` waited too."""
    settings = Settings(lake=Lake(dir=tmp_path), maintenance=Maintenance(optimize="0 * * * *"))
    session = cast("SparkSession", None)
    runner = Runner(session, settings, lambda: DEAD, driver=Driver(session, settings.lake))
    set_clock(1_000 * HOUR_MS)
    scheduler = MaintenanceScheduler(runner, settings, schedules(settings.maintenance))
    scheduler.start()
    try:
        assert is_answered(tmp_path)
        set_clock(0)
        assert is_answered(tmp_path)
        end = time.monotonic() + WAIT_S
        while due_of(scheduler, "optimize") > now() + timedelta(hours=1):
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        scheduler.stop()


def due_of(scheduler: MaintenanceScheduler, job: str) -> datetime:
    return scheduler._scheduler.get_job(job).next_run_time  # pyright: ignore[reportPrivateUsage]


def is_answered(lake: Path) -> bool:
    """What needs no Spark."""
    asked = requests.submit(lake, "defragment", {})
    end = time.monotonic() + WAIT_S
    while (found := requests.take_result(lake, asked)) is None and time.monotonic() < end:
        time.sleep(0.05)
    return found is not None and "no job 'defragment'" in found["error"]
