"""A gateway whose clock is so many ms ahead of the system's: `python -m lakemq.testing 60000`; or as many as
stand in a file, which may change while it runs: `python -m lakemq.testing path/to/file`."""

from __future__ import annotations

import sys
from pathlib import Path

from lakemq import settings
from lakemq.gateway import serve
from lakemq.testing.clocks import FileClock, ShiftedClock

if __name__ == "__main__":
    ahead = sys.argv[1]
    serve(settings.load(), ShiftedClock(int(ahead)) if ahead.lstrip("-").isdigit() else FileClock(Path(ahead)))
