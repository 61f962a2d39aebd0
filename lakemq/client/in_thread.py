"""Calls of what users wrote, in a thread, awaited by the clients' loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

Result = TypeVar("Result")


async def in_thread(threads: Executor | None, call: Callable[..., Result], *arguments: object) -> Result:
    """What it returns, called in one of these threads, or of the loop's own. Raises what it raises, but for
    `StopIteration`, as of a bare `next`: no future takes that one, and whoever waited would wait forever. It is the
    cause of a `RuntimeError`, as where a generator raises it."""
    return await asyncio.get_running_loop().run_in_executor(threads, _call, call, arguments)


def _call(call: Callable[..., Result], arguments: tuple[object, ...]) -> Result:
    try:
        return call(*arguments)
    except StopIteration as error:
        raise RuntimeError("StopIteration was raised, as by a next() without a default") from error
