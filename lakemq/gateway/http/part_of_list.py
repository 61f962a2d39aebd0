"""A part of a list of names: those that match, a page at a time. Without anything it is the whole list."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Annotated, NamedTuple

from fastapi import Query

from lakemq.gateway.http.in_slices import Pause, in_order

NAME_CHARACTERS_MAX = 200
PAGE_MAX = 1_000
Name = Annotated[str, Query(max_length=NAME_CHARACTERS_MAX)]
Limit = Annotated[int | None, Query(ge=1, le=PAGE_MAX)]


class PartOfList(NamedTuple):
    """Names that begin with `prefix` and contain `contains`, in any case of letters, and come after `after`; the first
    `limit` of them; None: all."""

    prefix: str = ""
    contains: str = ""
    after: str = ""
    limit: int | None = None

    async def of(self, names: Iterable[str]) -> tuple[list[str], str | None]:
        """These names, sorted; and the last of them where there are more. On the event loop, in slices."""
        pause, found = Pause(), list[str]()
        prefix, contains = self.prefix.lower(), self.contains.lower()
        for name in list(names):
            lower = name.lower() if prefix or contains else ""
            if name > self.after and lower.startswith(prefix) and contains in lower:
                found.append(name)
            await pause()
        if self.limit is None or len(found) <= self.limit:
            return await in_order(found), None
        page = heapq.nsmallest(self.limit, found)
        return page, page[-1]
