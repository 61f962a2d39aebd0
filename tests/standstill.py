"""What tests do on a machine that may stand still for seconds, in the middle of anything: they look again, or begin
again, a few times at most."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

from tests.beside import Beside

T = TypeVar("T")
A = TypeVar("A")
P = ParamSpec("P")
LOOKS, TRIES = 10, 3
TIMEOUT_S = 180
"""Pytest's of a test, as pyproject.toml has it."""


class StoodStill(Exception):
    """The machine stood still in the middle of an attempt, which shows nothing by that."""


class Standstill(Beside):
    """How long this process stood still, at most, from the first to the last line of a `with`."""

    def __init__(self) -> None:
        super().__init__()
        self.longest_s = 0.0

    def _run(self) -> None:
        before_s, ended = time.monotonic(), False
        while not ended:
            ended = self._ends.wait(0.05)
            now_s = time.monotonic()
            self.longest_s, before_s = max(self.longest_s, now_s - before_s), now_s


def first_of(attempts: Iterable[A], attempt: Callable[[A], T]) -> T:
    """What the first attempt returns that doesn't raise `StoodStill`. Each is made with another of `attempts`; it fails
    where there are no more."""
    said: list[str] = []
    for each in attempts:
        try:
            return attempt(each)
        except StoodStill as spoiled:
            said.append(str(spoiled))
    raise AssertionError(said)


def within(limit_s: float, look: Callable[[], T]) -> T:
    """What is seen of something that stays so for so long: where this process stood still meanwhile, it looks again."""

    def attempt(_: int) -> T:
        begun_s, seen = time.monotonic(), look()
        if (took_s := time.monotonic() - begun_s) >= limit_s:
            raise StoodStill(f"a look takes {took_s:.1f} s, and is of {limit_s:.1f} s")
        return seen

    return first_of(range(LOOKS), attempt)


def begins_again_after(
    standstill_s: float, timeout_s: float = TRIES * TIMEOUT_S
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A test that begins again, in another `tmp_path`, where it failed and this process stood still meanwhile, for so
    long at once or longer. Whatever fails without that is a failure the first time. `timeout_s`: of all its tries."""

    def decorate(test: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(test)
        def begun(*args: P.args, **kwargs: P.kwargs) -> None:
            folder = kwargs["tmp_path"]
            assert isinstance(folder, Path)

            def attempt(number: int) -> None:
                kwargs["tmp_path"] = folder / str(number)
                (folder / str(number)).mkdir()
                failure: Exception | None = None
                with Standstill() as still:
                    try:
                        test(*args, **kwargs)
                    except Exception as error:  # noqa: BLE001  raised again below, once the last standstill is known
                        failure = error
                if failure is not None and still.longest_s >= standstill_s:
                    raise StoodStill(f"it stood still for {still.longest_s:.1f} s: {failure!r}") from failure
                if failure is not None:
                    raise failure

            first_of(range(TRIES), attempt)

        return pytest.mark.timeout(timeout_s)(begun)

    return decorate
