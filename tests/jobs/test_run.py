from __future__ import annotations

import pytest

from lakemq.jobs.process.run import run_jobs
from lakemq.model.errors import SettingsError
from lakemq.settings import Settings


def test_an_unknown_job_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(SettingsError, match="'lak'; there are lake, maintenance, delay, transaction, retry"):
        run_jobs(Settings(), "http://127.0.0.1:1", ["lake", "lak"])
