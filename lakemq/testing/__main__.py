"""A gateway whose clock is so many ms ahead of the system's: `python -m lakemq.testing 60000`."""

from __future__ import annotations

import sys

from lakemq import settings
from lakemq.gateway import serve
from lakemq.testing.clocks import ShiftedClock

if __name__ == "__main__":
    serve(settings.load(), ShiftedClock(int(sys.argv[1])))
