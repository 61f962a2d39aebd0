"""Dead letters, sent to their group again or discarded."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from lakemq.client.broker_requests import ToPrimary
from lakemq.client.consume.subscription import to_ms
from lakemq.client.dead_letter import DeadLetter, DeadLetterPage, DeadLetterState, asked, count_causes
from lakemq.client.manage.ask import Brokers
from lakemq.client.manage.results import (
    DeadLetterCause,
    DeadLetterCauses,
    Discarded,
    Redrive,
    RedriveProgress,
    RedriveResult,
)
from lakemq.client.outgoing import check_group
from lakemq.contract.dead_letter_routes import DEAD_LETTERS, DISCARD, REDRIVE, REDRIVEN
from lakemq.contract.route import Target
from lakemq.model.causes import Causes
from lakemq.model.errors import InvalidRequest

LOOK_EVERY = timedelta(milliseconds=500)
PAGE = 1_000
LETTERS = 200
_RUNNING = "running"


class Redrives:
    """Dead letters and redrives at all brokers."""

    _brokers: Brokers

    async def dead_letters(
        self,
        group: str,
        *,
        state: DeadLetterState | None = None,
        reason: str | None = None,
        cause: str | None = None,
        topic: str | None = None,
        begin: datetime | None = None,
        end: datetime | None = None,
        broker: str | None = None,
    ) -> AsyncIterator[DeadLetter]:
        """A group's dead letters, broker by broker, newest first within each, a page at a time.

        `state`: `open`, `redriven`, `discarded` or `gone`. `reason`: a part of the failure's class or text. `cause`:
        exactly this one, as `dead_letter_causes` names it. `topic`: the topic that they were first sent to. `begin`,
        `end`: when they became dead letters. Use `message` to get their bodies. Raises `GroupNotFound`.
        """
        target = DEAD_LETTERS.at(check_group(group))
        query = asked(state, reason, cause, topic, _ms(begin), _ms(end), LETTERS)
        first = await self._brokers.each(lambda each: each.get(target, query), broker)
        for name, answer in first.items():
            async for page in _pages(self._brokers.cluster.primary(name), target, query, answer):
                for letter in page.letters:
                    yield letter

    async def dead_letter_causes(
        self,
        group: str,
        *,
        state: DeadLetterState | None = "open",
        topic: str | None = None,
        begin: datetime | None = None,
        end: datetime | None = None,
        letters_max: int = 100_000,
        broker: str | None = None,
    ) -> DeadLetterCauses:
        """What a group's dead letters died of, at all brokers together, those with most letters first. This reads the
        letters: at each broker the newest `letters_max`.

        `state`: None: in any. `topic`, `begin`, `end`: as for `dead_letters`. Raises `GroupNotFound`.
        """
        if letters_max < 1:
            raise InvalidRequest("letters_max is at least 1")
        target = DEAD_LETTERS.at(check_group(group))
        query = asked(state, None, None, topic, _ms(begin), _ms(end), PAGE)
        causes = Causes()
        more = await self._brokers.each(lambda each: _count(each, target, query, letters_max, causes), broker)
        found = [DeadLetterCause(each.name, each.letters, each.oldest_ms, each.newest_ms) for each in causes.most()]
        return DeadLetterCauses(tuple(found), any(more.values()))

    async def redrive(
        self,
        group: str,
        where: str | None = None,
        *,
        rate_per_s: float = 100,
        dry_run: bool = False,
        broker: str | None = None,
    ) -> Redrive:
        """Send a group's dead letters to it again: all, or those that match an SQL predicate over their columns.
        Returns as soon as they are found. The brokers then continue by themselves, even after a restart.

        `rate_per_s`: the most per second, at each broker. `dry_run`: only finds them. Raises `GroupNotFound`,
        `InvalidFilter`, `InvalidRequest` for too many at a time.
        """
        content: dict[str, Any] = {"rate_per_s": rate_per_s, "dry_run": dry_run}
        content |= {} if where is None else {"where": where}
        target = REDRIVE.at(check_group(group))
        found = await self._brokers.each(lambda each: each.send(target, content, twice=False), broker)
        answers = list(found.values())
        return Redrive(
            ids=tuple(each["redrive_id"] for each in answers),
            matched=sum(each["matched"] for each in answers),
            gone=sum(each.get("gone", 0) for each in answers),
        )

    async def discard(
        self, group: str, where: str | None = None, *, dry_run: bool = False, broker: str | None = None
    ) -> Discarded:
        """Give up a group's open dead letters for good: all, or those that match an SQL predicate over their columns.
        They stay readable, and no redrive sends them. Returns when all are discarded. After an error, the same call
        again discards the rest.

        `dry_run`: only counts them. Raises `InvalidFilter`, `InvalidRequest` for too many at a time, `Busy`.
        """
        content: dict[str, Any] = {"dry_run": dry_run} | ({} if where is None else {"where": where})
        target = DISCARD.at(check_group(group))
        found = (await self._brokers.each(lambda each: each.send(target, content, twice=False), broker)).values()
        return Discarded(
            matched=sum(each["matched"] for each in found),
            discarded=sum(each["discarded"] for each in found),
            gone=sum(each.get("gone", 0) for each in found),
        )

    async def redrive_progress(self, redrive: Redrive | str) -> RedriveProgress:
        """The progress of a redrive, which you can also name by one of its ids. Raises `RedriveNotFound`."""
        found = [await self._look(each, 0, 0) for each in _ids(redrive)]
        return RedriveProgress(
            matched=sum(each["matched"] for each in found),
            redriven=sum(each["redriven"] for each in found),
            failed=sum(each["failed"] for each in found),
            running=any(each["state"] == _RUNNING for each in found),
        )

    async def watch_redrive(
        self, redrive: Redrive | str, every: timedelta = LOOK_EVERY
    ) -> AsyncIterator[RedriveProgress]:
        """The progress of a redrive, repeatedly, until it has ended. Raises `RedriveNotFound`."""
        while True:
            progress = await self.redrive_progress(redrive)
            yield progress
            if not progress.running:
                return
            await asyncio.sleep(every.total_seconds())

    async def redrive_results(self, redrive: Redrive | str) -> AsyncIterator[RedriveResult]:
        """The outcome of each dead letter, a page at a time. Raises `RedriveNotFound`."""
        for each in _ids(redrive):
            offset, more = 0, True
            while more:
                found = await self._look(each, offset, PAGE)
                for result in found["results"]:
                    yield RedriveResult(result["message_id"], result["status"], result.get("redriven_message_id"))
                offset, more = offset + len(found["results"]), found["truncated"]

    async def _look(self, redrive_id: str, offset: int, results_max: int) -> dict[str, Any]:
        owner = await self._brokers.owner(redrive_id)
        return await owner.get(REDRIVEN.at(redrive_id), {"offset": offset, "max": results_max})


async def _count(
    broker: ToPrimary, target: Target, query: dict[str, str | int], letters_max: int, causes: Causes
) -> bool:
    """Count a broker's letters. Returns whether it has more than that many."""
    more = False
    async for page in _pages(broker, target, query, letters_max=letters_max):
        count_causes(page.letters, causes)
        more = page.next_after is not None
    return more


async def _pages(
    broker: ToPrimary,
    target: Target,
    query: Mapping[str, str | int],
    first: Mapping[str, Any] | None = None,
    letters_max: int = sys.maxsize,
) -> AsyncIterator[DeadLetterPage]:
    """A broker's pages, of `letters_max` letters at most. `first`: the answer to the query, if it is here already."""
    left, page_max, following = letters_max, int(query["max"]), dict[str, int]()
    while left:
        answer = first or await broker.get(target, {**query, "max": min(left, page_max), **following})
        page, first = DeadLetterPage.of(answer), None
        yield page
        if page.next_after is None:
            return
        left -= len(page.letters)
        following = {"after": page.next_after}


def _ms(time: datetime | None) -> int | None:
    return None if time is None else to_ms(time)


def _ids(redrive: Redrive | str) -> tuple[str, ...]:
    return (redrive,) if isinstance(redrive, str) else redrive.ids
