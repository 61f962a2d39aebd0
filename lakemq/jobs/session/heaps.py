"""Memory that threads leave behind: of Spark's Java, of the jobs' process and of the Python workers."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from lakemq.model.environment import is_malloc_said

HEAPS_MAX = 2
"""glibc makes up to eight for each core. The JVM has hundreds of threads, and what one of them frees in its own heap no
other takes: with two, the same work needs some 90 MiB less."""
VARIABLE = "MALLOC_ARENA_MAX"
ARROW_VARIABLE, ARROW_POOL = "ARROW_DEFAULT_MEMORY_POOL", "jemalloc"
"""Arrow's own choice, mimalloc, keeps what threads had that have ended, and the jobs have a new one for each batch."""


def choose_arrow_pool() -> None:
    """Arrow, which must not be imported yet, takes its memory from there, in this process and those that it starts,
    unless the environment says from where. An Arrow that was built without it says so, and takes its own choice."""
    os.environ.setdefault(ARROW_VARIABLE, ARROW_POOL)


@contextmanager
def few_heaps() -> Generator[None]:
    """Processes that start meanwhile have few heaps, unless the environment says how many."""
    if is_malloc_said(os.environ):
        yield
        return
    os.environ[VARIABLE] = str(HEAPS_MAX)
    try:
        yield
    finally:
        del os.environ[VARIABLE]
