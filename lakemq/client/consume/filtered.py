"""A listener that is called only with the messages that a function takes. The others are done without it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING

from lakemq.client.consume.called import is_async
from lakemq.client.wrong_type import WrongType

if TYPE_CHECKING:
    from lakemq.client.consume.listener import AsyncBatchListener, AsyncListener, BatchListener, ConsumeResult, Listener
    from lakemq.client.view import MessageView

Filter = Callable[["MessageView"], object]
"""Whether a message is taken. It runs before the listener, and what it raises is an error of the listener."""


def check_filter(given: object) -> None:
    """Raises `WrongType` for what is no plain function."""
    if not callable(given) or is_async(given):
        raise WrongType("a filter is a plain function of a message", given)


def filtered(listener: Listener, keep: Filter) -> Listener:
    """Calls it with the messages that `keep` takes."""

    @wraps(listener)
    def call(message: MessageView) -> ConsumeResult | None:
        return listener(message) if keep(message) else None

    return call


def filtered_batch(listener: BatchListener, keep: Filter) -> BatchListener:
    """Calls it with those of the messages that `keep` takes, if there are any."""

    @wraps(listener)
    def call(messages: list[MessageView]) -> ConsumeResult | None:
        kept = [each for each in messages if keep(each)]
        return listener(kept) if kept else None

    return call


def filtered_async(listener: AsyncListener, keep: Filter) -> AsyncListener:
    """As `filtered`."""

    @wraps(listener)
    async def call(message: MessageView) -> ConsumeResult | None:
        return await listener(message) if keep(message) else None

    return call


def filtered_async_batch(listener: AsyncBatchListener, keep: Filter) -> AsyncBatchListener:
    """As `filtered_batch`."""

    @wraps(listener)
    async def call(messages: list[MessageView]) -> ConsumeResult | None:
        kept = [each for each in messages if keep(each)]
        return await listener(kept) if kept else None

    return call
