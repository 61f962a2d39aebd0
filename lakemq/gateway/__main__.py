"""`python -m lakemq.gateway`: the gateway with the settings of file and environment alone."""

from __future__ import annotations

import sys

from lakemq import settings
from lakemq.gateway import serve
from lakemq.model.errors import LakemqError

if __name__ == "__main__":
    try:
        serve(settings.load())
    except LakemqError as error:
        sys.exit(f"lakemq gateway: {error.detail}")
