"""Streams of tests. Each begins with a process of Python, which Spark gives 10 s to start, a limit that nobody can set:
on a machine that does much else a stream may end by that, before it has read anything. Then it is begun once more, as
`keep_running` does it for the jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.process.keep_running import PYTHON_LATE

T = TypeVar("T")
STARTS_MAX = 8


def has_given_up(stream: StreamingQuery) -> bool:
    """Whether it ended as its process of Python took too long to start."""
    return not stream.isActive and PYTHON_LATE in str(stream.exception())


def begun(run: Callable[[], T]) -> T:
    """What `run` returns, which begins a stream and waits for its end, or for a batch of it at least."""
    for _ in range(STARTS_MAX - 1):
        try:
            return run()
        except PySparkException as error:
            if PYTHON_LATE not in str(error):
                raise
    return run()


class LakeRun:
    """A lake query that runs, and a new one where that gave up."""

    def __init__(self, make: Callable[[], LakeQuery]) -> None:
        self._make = make
        self._starts_left = STARTS_MAX
        self._begin()

    def _begin(self) -> None:
        self._starts_left -= 1
        self.query = self._make()
        try:
            self._stream = self.query.start()
        except BaseException:
            self.query.stop()
            raise

    def is_alive(self) -> bool:
        """Whether it runs; to be asked again and again while its batches are waited for."""
        if self._starts_left and has_given_up(self._stream):
            self.query.stop()
            self._begin()
        return self._stream.isActive

    def stop(self) -> None:
        """Let its batch end, and stop."""
        self.query.stop()
