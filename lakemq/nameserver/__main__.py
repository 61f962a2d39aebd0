"""`python -m lakemq.nameserver`: a name server with the settings of file and environment alone."""

from __future__ import annotations

import sys

from lakemq import settings
from lakemq.model.errors import LakemqError
from lakemq.nameserver import serve

if __name__ == "__main__":
    try:
        serve(settings.load())
    except LakemqError as error:
        sys.exit(f"lakemq nameserver: {error.detail}")
