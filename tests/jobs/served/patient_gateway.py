"""A gateway that remembers for an hour where the jobs answer SQL: as if they went on telling it, however long the
machine stands still."""

from __future__ import annotations

from lakemq import settings
from lakemq.gateway import serve
from lakemq.gateway.routing import jobs

ALIVE_MS = 3_600_000

if __name__ == "__main__":
    jobs.ALIVE_MS = ALIVE_MS
    serve(settings.load())
