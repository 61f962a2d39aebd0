"""How many heaps the C library makes for the threads of Spark's Java and of the Python workers that it starts."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from lakemq.model.environment import is_malloc_said

HEAPS_MAX = 2
"""glibc makes up to eight for each core. The JVM has hundreds of threads, and what one of them frees in its own heap no
other takes: with two, the same work needs some 90 MiB less."""
VARIABLE = "MALLOC_ARENA_MAX"


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
