"""Starts jobs when they are due, and those that other processes ask for. One worker does them all."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from threading import Event, Thread
from typing import Any, NamedTuple

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from lakemq.jobs.maintenance import requests
from lakemq.jobs.maintenance.catalogue import JOBS
from lakemq.jobs.maintenance.requests import ATTEMPTS_MAX, CANCEL, Request
from lakemq.jobs.maintenance.runner import Runner, UnderWay, one_line
from lakemq.jobs.maintenance.runs import STOPPED
from lakemq.settings import Settings
from lakemq.storage.disk.clock import SystemClock

LOOK_S = 1
"""Every so often it looks for requests, and at the clock."""
SET_BACK_MS = 60_000
"""A clock that has gone back so far has been set: what is due next is reckoned anew. By less a run is late by less."""

_WORKER = "default"

logger = logging.getLogger(__name__)


class _Cancel(NamedTuple):
    """What a request to cancel ends: a request that is served, or a run by the schedule; and how many that waited."""

    serving: Request | None
    run: UnderWay | None
    withdrawn: int

    def told(self) -> dict[str, Any]:
        """As it is answered."""
        job = self.serving.job if self.serving is not None else None if self.run is None else self.run.job
        return {"cancelled": job, "withdrawn": self.withdrawn}


def _asker(request: Request) -> str:
    """As `started_by` of a run says it."""
    return f"user {request.asked_by}" if request.asked_by else "request"


class MaintenanceScheduler:
    """Runs from `start` to `stop`. `triggers` by job; a job that is due while it waits or runs is
    not started twice."""

    def __init__(self, runner: Runner, settings: Settings, triggers: Mapping[str, Any]) -> None:
        self._runner = runner
        self._settings = settings
        self._lake = settings.lake.dir
        self._triggers = triggers
        self._clock = SystemClock()
        self._ahead_ms = self._clock.now_ms() - self._clock.counted_ms()
        self._stopped = Event()
        self._taken: set[str] = set()
        self._serving: Request | None = None
        self._cancelled: set[str] = set()
        self._cancels: dict[str, _Cancel] = {}
        logging.getLogger("apscheduler").setLevel(logging.ERROR)  # it tells of each skipped start
        self._scheduler: Any = BackgroundScheduler(
            executors={_WORKER: ThreadPoolExecutor(1)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone="UTC",
        )
        for name, trigger in triggers.items():
            self._scheduler.add_job(runner.run, trigger, (name, "schedule"), id=name)

    def start(self) -> None:
        """Raises `OSError` where the port for metrics is taken."""
        options = self._settings.maintenance
        if options.metrics_port:
            self._runner.metrics.serve(options.metrics_host, options.metrics_port)
        self._scheduler.start()
        # Not a job of the scheduler: it waits by the clock, so one that was set back would have it wait for as long.
        Thread(target=self._look_on, name="maintenance-requests", daemon=True).start()

    def stop(self) -> None:
        """Ends the job that is under way: its tables stay as they were. Waits for some seconds."""
        self._stopped.set()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        self._runner.stop()
        self._runner.metrics.close()

    def _look_on(self) -> None:
        while not self._stopped.wait(LOOK_S):
            self._follow_clock()
            self._look()

    def _follow_clock(self) -> None:
        """The scheduler reckons when a job is due once, and sleeps until then by the time that there was."""
        before_ms, self._ahead_ms = self._ahead_ms, self._clock.now_ms() - self._clock.counted_ms()
        try:
            if self._ahead_ms <= before_ms - SET_BACK_MS:
                logger.warning(
                    "the clock was set back by %d s: maintenance follows it", (before_ms - self._ahead_ms) // 1000
                )
                for name, trigger in self._triggers.items():
                    self._scheduler.reschedule_job(name, trigger=trigger)
            self._scheduler.wakeup()  # it may have been set ahead, and something is due
        except Exception as error:  # noqa: BLE001 (requests are looked for all the same)
            logger.warning("maintenance can't follow the clock: %s", one_line(error))

    def _look(self) -> None:
        try:
            waiting = requests.waiting(self._lake)
            cancels = {each.request_id: each for each in waiting if each.job == CANCEL}
            self._cancels = {name: each for name, each in self._cancels.items() if name in cancels}
            for request in cancels.values():
                self._cancel(request, waiting)
            for request in waiting:
                if request.job != CANCEL and request.request_id not in self._taken:
                    self._taken.add(request.request_id)
                    self._scheduler.add_job(self._serve, args=(request,), executor=_WORKER)
        except Exception as error:  # noqa: BLE001 (a folder that can't be read now may be later)
            logger.warning("can't look for maintenance requests: %s", one_line(error))

    def _serve(self, request: Request) -> None:
        try:
            self._serving = request
            if not requests.is_asked(self._lake, request.request_id):
                return  # it was seen before it was answered, and its turn comes once more after
            if request.request_id in self._cancelled:
                requests.answer(self._lake, request, {"error": f"{request.job} was cancelled before it began"})
            elif request.job not in JOBS:
                requests.answer(self._lake, request, {"error": f"no job {request.job!r}"})
            elif request.starts >= ATTEMPTS_MAX:
                error = f"{request.job} has ended its process {request.starts} times"
                requests.answer(self._lake, request, {"error": error})
            else:
                requests.begin(self._lake, request)
                run = self._runner.run(request.job, _asker(request), request.parameters)
                if run.result != STOPPED:  # else it is begun again by the next process
                    requests.answer(self._lake, request, run.as_json())
        except Exception as error:  # noqa: BLE001 (the request stays, and is tried at the next start)
            logger.warning("a request for %s failed: %s", request.job, one_line(error))
        finally:
            self._taken.discard(request.request_id)
            self._cancelled.discard(request.request_id)
            self._serving = None

    def _cancel(self, request: Request, waiting: Sequence[Request]) -> None:
        """Answered once the run that it ends is over: what is told then is so."""
        found = self._cancels.get(request.request_id)
        if found is None:
            wanted = request.parameters.get("job")
            others = {each.request_id for each in waiting if each.job == (wanted or each.job) and each.job != CANCEL}
            serving = self._serving if self._serving is not None and self._serving.request_id in others else None
            others -= {serving.request_id} if serving is not None else set()
            self._cancelled |= others
            run = None if serving is not None else self._runner.cancel(wanted)
            found = self._cancels[request.request_id] = _Cancel(serving, run, len(others))
        if found.serving is not None and self._serving is found.serving:
            self._runner.cancel(found.serving.job)
            return
        if found.run is not None and self._runner.cancel(number=found.run.number) is not None:
            return
        requests.answer(self._lake, request, found.told())
