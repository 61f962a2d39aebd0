"""The jobs there are."""

from __future__ import annotations

from typing import Any

from lakemq.jobs.maintenance.adopt import adopt
from lakemq.jobs.maintenance.cleanup import clean_up
from lakemq.jobs.maintenance.cron import trigger_of
from lakemq.jobs.maintenance.erase import erase
from lakemq.jobs.maintenance.layout import optimize, vacuum
from lakemq.jobs.maintenance.pay_owed import pay_owed
from lakemq.jobs.maintenance.rebuild import rebuild_index
from lakemq.jobs.maintenance.retention import retention
from lakemq.jobs.maintenance.stats import stats
from lakemq.jobs.maintenance.verify import verify
from lakemq.jobs.maintenance.work import Job
from lakemq.settings import Maintenance

_ALL = (
    Job("optimize", "merge small files and cluster them", optimize, "optimize"),
    Job("vacuum", "delete files that no recent version needs", vacuum, "vacuum"),
    Job("retention", "delete what is past the topics' retention", retention, "retention"),
    Job("checkpoint-cleanup", "delete what past runs left next to the tables", clean_up, "checkpoint_cleanup"),
    Job("index-rebuild", "rebuild consume_queue and message_index from messages", rebuild_index, "index_rebuild"),
    Job("verify", "compare the log and the tables of messages", verify, "verify"),
    Job("erase", "erase messages: lakemq erase", erase),
    Job("owed-erasures", "erase in the logs of brokers that were away", pay_owed, "owed_erasures"),
    Job("adopt", "continue with a broker's new log: lakemq lake adopt", adopt),
    Job("stats", "note what each table and topic amounts to", stats, "stats"),
)
JOBS: dict[str, Job] = {job.name: job for job in _ALL}


def schedules(options: Maintenance) -> dict[str, Any]:
    """APScheduler's trigger of each job that has a schedule. Raises `SettingsError`."""
    found = {
        job.name: trigger_of(job.setting, getattr(options, job.setting), options.timezone)
        for job in JOBS.values()
        if job.setting is not None
    }
    return {name: trigger for name, trigger in found.items() if trigger is not None}
