"""Which messages a consumer wants: by tags, by SQL92, or by both, and then both must match."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from typing import Any, ClassVar

import pyarrow as pa

from lakemq.gateway.filter.sql92 import PropertyFilter
from lakemq.gateway.filter.values import pc
from lakemq.gateway.work.slices import Part, stretches
from lakemq.model.errors import InvalidFilter
from lakemq.storage.segment.content import Rows

TAGS_CHARACTERS_MAX = 4_096
CACHED_MAX = 1_000
CACHED_CHARACTERS_MAX = 128 * 1024
"""Of all conditions that are kept compiled: a character takes about 200 bytes then."""


class Selector:
    """A choice of messages. `everything`: it chooses all of them. `characters`: of its condition."""

    _cached: ClassVar[OrderedDict[tuple[str | None, str | None], Selector]] = OrderedDict()
    _cached_characters: ClassVar[int] = 0
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, tags: frozenset[str] | None, condition: PropertyFilter | None) -> None:
        self.everything = tags is None and condition is None
        self._tag_names = tags or frozenset()
        self._tags = None if tags is None else pa.array(sorted(tags), type=pa.string())
        self._condition = condition
        self.characters = 0 if condition is None else len(condition.text)

    @classmethod
    def of(cls, tags: str | None, sql: str | None = None) -> Selector:
        """The selector of `A||B` (None, nothing or `*`: any) and of a condition (None: none). The last
        ones are kept. Raises `InvalidFilter`, which says what is wrong and at which character."""
        found = cls._find(tags, sql)
        if found is None:
            found = cls(parse_tags(tags), None if sql is None else PropertyFilter(sql))
            cls._keep((tags, sql), found)
        return found

    @classmethod
    def _keep(cls, key: tuple[str | None, str | None], selector: Selector) -> None:
        with cls._lock:
            if key not in cls._cached:
                cls._cached[key] = selector
                cls._cached_characters += _characters(key)
            while len(cls._cached) > CACHED_MAX or cls._cached_characters > CACHED_CHARACTERS_MAX:
                oldest, _ = cls._cached.popitem(last=False)
                cls._cached_characters -= _characters(oldest)

    @classmethod
    async def soon(cls, tags: str | None, sql: str | None = None) -> Selector:
        """`of`, for the event loop: what takes long is done in a thread."""
        if tags is None and sql is None:
            return EVERYTHING
        found = cls._find(tags, sql)
        if found is not None:
            return found
        return cls.of(tags) if sql is None else await asyncio.to_thread(cls.of, tags, sql)

    @classmethod
    def _find(cls, tags: str | None, sql: str | None) -> Selector | None:
        with cls._lock:
            found = cls._cached.get((tags, sql))
            if found is not None:
                cls._cached.move_to_end((tags, sql))
            return found

    def matches(self, part: Part) -> list[Part]:
        """The stretches of the slice whose messages are chosen."""
        if self.everything:
            return [part]
        content = part.frame.content
        if isinstance(content, Rows) and self._condition is None:
            tags = content.values("tag", part.row, part.count)
            return _chosen(part, [tag in self._tag_names for tag in tags])
        batch = content.batch.slice(part.row, part.count)
        chosen: Any = None if self._tags is None else _match_tags(batch, self._tags)
        if self._condition is not None and chosen is not False:
            met = self._condition.matches(batch)
            chosen = met if chosen is None else pc.and_(chosen, met)
        return [] if chosen is False else _chosen(part, chosen.to_pylist())


EVERYTHING = Selector(None, None)


def _chosen(part: Part, chosen: list[bool]) -> list[Part]:
    return [part] if all(chosen) else stretches(part, chosen)


def _characters(key: tuple[str | None, str | None]) -> int:
    return sum(len(text) for text in key if text is not None)


def _match_tags(batch: pa.RecordBatch, tags: pa.Array) -> Any:
    """Which rows have one of the tags; False: none has."""
    return pc.is_in(batch.column("tag"), value_set=tags) if "tag" in batch.schema.names else False


def parse_tags(expression: str | None) -> frozenset[str] | None:
    """The tags of `A||B`; None for `*`. Raises `InvalidFilter`."""
    if expression is None:
        return None
    tags = [tag.strip() for tag in expression[: TAGS_CHARACTERS_MAX + 1].split("||")]
    if len(expression) <= TAGS_CHARACTERS_MAX and tags in ([""], ["*"]):
        return None
    if len(expression) > TAGS_CHARACTERS_MAX or not all(tags) or "*" in tags:
        raise InvalidFilter(f"tags is '*' or 'A||B', not {expression[:200]!r}")
    return frozenset(tags)
