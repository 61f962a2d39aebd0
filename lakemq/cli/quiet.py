"""What a JVM says while it starts, kept from the terminal unless something goes wrong."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Generator

from lakemq.model.errors import LakemqError
from lakemq.model.interrupted import was_interrupted

STDERR = 2
SAID = "spark_not_started"
"""The error whose cause is in what was kept back."""


@contextlib.contextmanager
def quiet_stderr() -> Generator[None]:
    """Keep back what this process and those that it starts meanwhile write to stderr.

    An exception that is no `LakemqError` lets it be seen after all, and so does a Spark that didn't start.
    Processes that were started within go on writing to where nobody reads.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as kept:
        seen = os.dup(STDERR)
        os.dup2(kept.fileno(), STDERR)
        failed = False
        try:
            yield
        except Exception as error:
            failed = error.code == SAID if isinstance(error, LakemqError) else not was_interrupted(error)
            raise
        finally:
            sys.stderr.flush()
            os.dup2(seen, STDERR)
            os.close(seen)
            if failed:
                kept.seek(0)
                sys.stderr.write(kept.read().decode(errors="replace"))
