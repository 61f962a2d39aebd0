"""Answers that are as long as what clients have made: they are described and written as JSON on the event loop in
slices, so that others go on in between, one such answer at a time (`Work.listing`), for clients in turn."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import orjson
from fastapi import Response

from lakemq.web.asgi import JOINED_BYTES_MAX

T = TypeVar("T")

SLICE_S = 0.003
SORTED_AT_ONCE = 1_000


class Pause:
    """Lets others go on, once a slice has taken its time."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + SLICE_S

    async def __call__(self) -> None:
        if time.monotonic() >= self._until_s:
            await asyncio.sleep(0)
            self._until_s = time.monotonic() + SLICE_S


async def in_order(items: Sequence[T], key: Callable[[T], Any] | None = None) -> list[T]:
    """The items, sorted."""
    pause, sorted_ones = Pause(), list[list[T]]()
    for begin in range(0, len(items), SORTED_AT_ONCE):
        sorted_ones.append(sorted(items[begin : begin + SORTED_AT_ONCE], key=key))  # pyright: ignore[reportArgumentType, reportCallIssue]
        await pause()
    if len(sorted_ones) <= 1:
        return [item for each in sorted_ones for item in each]
    found: list[T] = []
    for item in heapq.merge(*sorted_ones, key=key):  # pyright: ignore[reportArgumentType, reportCallIssue]
        found.append(item)
        await pause()
    return found


async def all_of(items: Iterable[T]) -> list[T]:
    """The items, which are made one by one as they are asked for."""
    pause, found = Pause(), list[T]()
    for item in items:
        found.append(item)
        await pause()
    return found


async def write(fields: Mapping[str, object]) -> bytes:
    """The fields as a JSON object. What is long is an iterator, and becomes a list: its items are made as they are
    asked for, of what there is then."""
    pause, pieces = Pause(), list[bytes]()
    for name, value in fields.items():
        pieces += (b"," if pieces else b"{", orjson.dumps(name), b":")
        if not isinstance(value, Iterator):
            pieces.append(orjson.dumps(value))
            continue
        separator = b"["
        items: Iterator[object] = value
        for item in items:
            pieces += (separator, orjson.dumps(item))
            separator = b","
            await pause()
        pieces.append(b"[]" if separator == b"[" else b"]")
    pieces.append(b"}" if pieces else b"{}")
    if sum(map(len, pieces)) > JOINED_BYTES_MAX:
        return await asyncio.to_thread(b"".join, pieces)
    return b"".join(pieces)


async def respond(fields: Mapping[str, object]) -> Response:
    """`write`, as a route answers it."""
    return Response(await write(fields), media_type="application/json")
