"""Asking all brokers that a console knows, so that one that hangs keeps nobody waiting for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from lakemq.console.asked import Broker

ANSWER_S = 5.0
"""What a broker hasn't said by then is left out."""
LATE = f"No answer within {ANSWER_S:.0f} s."
T = TypeVar("T")


async def side_by_side(
    brokers: Collection[Broker], ask: Callable[[Broker], Coroutine[Any, Any, T]], late: Callable[[Broker], T]
) -> list[T]:
    """What `ask` finds at each, in their order; `late`: what stands for a broker that hasn't answered in time."""
    asking = [asyncio.ensure_future(ask(each)) for each in brokers]
    _, unfinished = await asyncio.wait(asking, timeout=ANSWER_S)
    for each in unfinished:
        each.cancel()
    return [late(broker) if task in unfinished else task.result() for broker, task in zip(brokers, asking, strict=True)]
