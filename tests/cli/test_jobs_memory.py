"""Where the jobs' Arrow has its memory from."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lakemq.jobs.session.heaps import ARROW_POOL, ARROW_VARIABLE

JOBS = """
import sys
from lakemq.cli import main
sys.argv = ["lakemq", "jobs", "no-such-job"]
try:
    main()
finally:
    import pyarrow
    print(pyarrow.default_memory_pool().backend_name)
"""


@pytest.mark.parametrize(("said", "taken"), [(None, ARROW_POOL), ("system", "system")])
def test_arrow_is_told_before_it_is_imported_unless_the_environment_says(said: str | None, taken: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != ARROW_VARIABLE}
    if said is not None:
        environment[ARROW_VARIABLE] = said
    done = subprocess.run([sys.executable, "-c", JOBS], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [taken], done.stderr
    assert "no job 'no-such-job'" in done.stderr
