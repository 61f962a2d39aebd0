"""`python -m lakemq.jobs.session.setup_jars`, which scripts/setup-jars.sh runs: gets all jars that aren't there."""

from __future__ import annotations

import logging
import sys

from lakemq.jobs.errors import JarsNotGot
from lakemq.jobs.session import jars, object_storage_jars
from lakemq.model.errors import LakemqError

ATTEMPTS_MAX = 2
"""For those that most do without: it begins every target of the Makefile."""


def main() -> None:
    """Ends with an error where those that everything needs can't be had, and where any is not what it should be. That
    those of object storage can't be got it only says."""
    logging.basicConfig(level=logging.INFO, format="setup-jars: %(message)s")
    try:
        jars.install()
    except LakemqError as error:
        sys.exit(f"setup-jars: {error.detail}")
    try:
        object_storage_jars.install(ATTEMPTS_MAX)
    except JarsNotGot as error:
        sys.stderr.write(f"setup-jars: {error.detail}; tests that need them will be skipped\n")
    except LakemqError as error:
        sys.exit(f"setup-jars: {error.detail}")


if __name__ == "__main__":
    main()
