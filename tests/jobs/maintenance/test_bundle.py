"""conf/databricks.yml against the types that Databricks publishes for its bundles."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from databricks.bundles.jobs import Job, PauseStatus

from lakemq.jobs.databricks import MAINTENANCE

ROOT = Path(__file__).parents[3]
BUNDLE: dict[str, Any] = yaml.safe_load((ROOT / "conf/databricks.yml").read_text(encoding="utf-8"))
JOBS: dict[str, Any] = BUNDLE["resources"]["jobs"]
SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]


@pytest.mark.parametrize("name", JOBS)
def test_each_job_is_one_of_databricks_whose_task_is_a_command_of_ours(name: str) -> None:
    job: Any = Job.from_dict(JOBS[name])  # an unknown field, or a value that a field can't have, raises
    assert job.max_concurrent_runs == 1, "one writer at a time"
    (task,) = job.tasks
    assert task.job_cluster_key in {cluster.job_cluster_key for cluster in job.job_clusters}
    wheel = task.python_wheel_task
    assert wheel is not None
    assert wheel.package_name == "lakemq"
    assert wheel.entry_point in SCRIPTS
    command, *rest = wheel.parameters
    assert command == name
    assert len(rest) == (3 if name == "lake" else 1)


def test_the_query_is_continuous_and_every_job_of_maintenance_on_cron() -> None:
    assert set(JOBS) == {"lake", *MAINTENANCE}
    query: Any = Job.from_dict(JOBS["lake"])
    assert query.continuous is not None
    assert query.continuous.pause_status is PauseStatus.UNPAUSED
    for name in MAINTENANCE:
        schedule: Any = Job.from_dict(JOBS[name]).schedule
        assert schedule is not None
        assert len(schedule.quartz_cron_expression.split()) == 6


def test_a_job_that_the_types_do_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="Unexpected field"):
        Job.from_dict(JOBS["verify"] | {"cron": "* * * * *"})


def test_every_variable_that_is_used_is_declared() -> None:
    used = set(re.findall(r"\$\{var\.(\w+)\}", (ROOT / "conf/databricks.yml").read_text(encoding="utf-8")))
    assert used == set(BUNDLE["variables"])
    assert set(BUNDLE) == {"bundle", "variables", "artifacts", "resources", "targets"}
