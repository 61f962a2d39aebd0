"""Spark's classes as Java keeps them in memory, in one file: a session that maps it starts with little more than
half the work of one that reads, checks and links them from a hundred jars.

`make setup` makes it (`make_class_archive`), for this Java and these jars. Without it all works as with it, and
later: Java passes over one that does not fit.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from lakemq.jobs.session import jars
from lakemq.jobs.session.java import release_of

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""One that does not fit is no matter for who uses Spark."""


def folder() -> Path:
    """Where it is kept: inside the environment that this Python runs in."""
    return Path(sys.prefix) / "share" / "lakemq" / "classes"


def path_for(java: Path) -> Path:
    """Where the one for that Java, these versions and this place is, or would be."""
    parts = (
        release_of(java),
        str(java.resolve()),
        jars.DELTA.versions(),
        sys.prefix,
        *sorted(jars.DELTA.pins().values()),
    )
    return folder() / f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}.jsa"


def java_options(java: Path) -> str:
    """What makes that Java use it; empty where there is none."""
    path = path_for(java)
    return f' "-XX:SharedArchiveFile={path}" -Xshare:auto {QUIET}' if path.exists() else ""
