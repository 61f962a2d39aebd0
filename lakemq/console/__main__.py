"""`python -m lakemq.console URL …`: the console of these brokers, with the settings of file and environment alone."""

from __future__ import annotations

import sys

from lakemq import settings
from lakemq.console import serve
from lakemq.model.errors import LakemqError

if __name__ == "__main__":
    try:
        serve(settings.load(), sys.argv[1:])
    except LakemqError as error:
        sys.exit(f"lakemq console: {error.detail}")
