"""Who did what, when, from where, and whether it was allowed: records in a topic of the system, so rows of the lake.

What changes something is written down before it is done: in the log the record stands before what was changed, so a
change that survives has its record, and what can't be written down isn't done. Refusals are sieved (`noted.py`). They
hold nobody up, nor do logins: those that find no room, or come before there is the topic, are counted, and said with a
later refusal's record, or with one of its own when none comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from functools import partial
from math import ceil
from typing import NamedTuple

import orjson

from lakemq.model.errors import Busy, FlowControl, LakemqError
from lakemq.model.names import AUDIT_TOPIC
from lakemq.model.network import network_of
from lakemq.model.noted import Noted, Sieve
from lakemq.model.token_bucket import TokenBuckets
from lakemq.storage.disk.clock import Clock
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.receiver import Stored
from lakemq.storage.segment.rows import make_row
from lakemq.storage.state.topics import Queue, Topic

logger = logging.getLogger(__name__)

WRITING_MAX = 1_000
"""So many refusals and logins at most are on their way to the log."""
CHANGES_MAX = 1_000
"""So many changes at most wait until they are written down."""
CHANGE_BURST, CHANGES_PER_S, CHANGERS_MAX = 1_000, 50.0, 1_000
"""So many changes at once, and a second, of one user, of so many users: each is a record, whatever comes of it."""
OWED_MAX = 100
URGENT_S = 1.0
"""So long at most what is urgent waits for that."""
LOGIN_S = 3_600.0
LOGINS_MAX = 1_000
TEXT_CHARACTERS_MAX = 500
ALLOWED, REFUSED, LOGIN = "allowed", "refused", "login"
"""The records' tags."""


class Entry(NamedTuple):
    """`user`: empty for nobody who is known. `what`: method and path, or what it takes; `why`: which rule says so.
    `request_id`: empty where nobody knows one."""

    user: str
    source: str | None
    what: str
    why: str
    request_id: str = ""


class _Told:
    """Is told what became of a record."""

    def __init__(self, audit: Audit, noted: Noted, refusal: Entry | None) -> None:
        self._audit, self._noted, self._refusal = audit, noted, refusal

    def done(self) -> bool:
        return False

    def set_result(self, result: Stored, /) -> None:
        self._audit.written(None, self._noted, self._refusal)

    def set_exception(self, exception: Exception, /) -> None:
        self._audit.written(exception, self._noted, self._refusal)


class Audit:
    """That of one broker. Of a follower (`writes` False), which refuses changes by itself, nothing is written."""

    def __init__(
        self, log: CommitLog, ensure_topic: Callable[[str], Awaitable[Topic]], clock: Clock, writes: bool = True
    ) -> None:
        self._log = log
        self._writes = writes
        self._changing = 0
        self._changers = TokenBuckets(CHANGE_BURST, CHANGES_PER_S, CHANGERS_MAX)
        self.owed: deque[Entry] = deque(maxlen=OWED_MAX)
        """What was urgent, and is to be written when that can be."""
        self._ensure_topic = ensure_topic
        self._clock = clock
        self._sieve = Sieve[Entry]()
        self._logins: OrderedDict[tuple[str, str | None], float] = OrderedDict()
        self._queue: Queue | None = None
        self._writing = 0

    async def begin(self) -> None:
        """Have the topic, and write what is owed and what was only counted, if that can be. To be called now and
        then."""
        try:
            queue = await self._ready()
        except LakemqError as error:
            logger.warning("the audit can't be written yet: %s", error)
            return
        if self._log.refusal() is not None:
            return
        for _ in range(len(self.owed)):
            self._append_urgent(queue, self.owed.popleft())
        self._write_counted()

    def end(self) -> None:
        """Write what was only counted, before the log is closed."""
        if self._queue is not None and self._log.refusal() is None:
            self._write_counted(ends=True)

    def _write_counted(self, *, ends: bool = False) -> None:
        for entry, noted in self._sieve.due(self._now_s(), ends=ends):
            self._write(REFUSED, entry, noted)

    async def _ready(self) -> Queue:
        if self._queue is None:
            self._queue = (await self._ensure_topic(AUDIT_TOPIC)).queues[0]
        return self._queue

    async def changes(self, entry: Entry, trusted: bool = False) -> None:
        """Somebody is about to change something: that is written when this returns. Raises `Busy`, `StoreUnwritable`
        where it can't be, and then nothing is to be changed; and `FlowControl` where one who isn't `trusted` changes
        too much: the right to change what isn't there would fill the log."""
        if not self._writes:
            return
        if not trusted and not self._changers.take(entry.user or network_of(entry.source), self._now_s()):
            raise FlowControl(f"these are more than {CHANGES_PER_S:.0f} changes a second of one user: wait a second")
        if self._changing >= CHANGES_MAX:
            raise Busy(f"{CHANGES_MAX} changes are waiting for the audit, which is written first")
        self._changing += 1
        try:
            await self._log.append(_append(await self._ready(), ALLOWED, _cut(entry), Noted(1, 0)))
        finally:
            self._changing -= 1

    async def urgent(self, entry: Entry) -> None:
        """Somebody is about to do what may be needed for anything to be written at all: it waits a moment, and is
        written later where it can't be now."""
        entry = _cut(entry)
        if self._queue is None:
            self._owe(entry)
        else:
            await asyncio.wait([self._append_urgent(self._queue, entry)], timeout=URGENT_S)

    def _append_urgent(self, queue: Queue, entry: Entry) -> asyncio.Future[Stored]:
        future = self._log.append(_append(queue, ALLOWED, entry, Noted(1, 0)))
        future.add_done_callback(partial(self._look_at, entry))
        return future

    def _look_at(self, entry: Entry, future: asyncio.Future[Stored]) -> None:
        if future.cancelled() or future.exception() is not None:
            self._owe(entry)

    def _owe(self, entry: Entry) -> None:
        logger.warning("not in the audit yet: %s, by %s from %s", entry.what, entry.user, entry.source)
        self.owed.append(entry)

    def refused(self, entry: Entry) -> None:
        """Somebody may not. Of those that nobody knows, all from one address, or network of IPv6, are alike."""
        if not self._writes:
            return
        entry, network = _cut(entry), network_of(entry.source)
        kind = (entry.user, network, entry.what if entry.user else "")
        who = (entry.user, None if entry.user else network)
        if (noted := self._sieve.note(kind, self._now_s(), who, entry)) is not None:
            self._write(REFUSED, entry, noted)

    def missed(self, count: int) -> None:
        """So many more were refused somewhere, of whom nothing else is known: it is said with the next."""
        self._sieve.give_back(Noted(count, 0))

    def logged_in(self, entry: Entry) -> int:
        """An administrator's token came from an address: written once an hour. When it is to be told again, in ms."""
        now_s, key = self._now_s(), (entry.user, entry.source)
        then_s = self._logins.get(key, -LOGIN_S)
        if 0 <= now_s - then_s < LOGIN_S:
            return ceil((then_s + LOGIN_S) * 1000)
        self._logins[key] = now_s
        self._logins.move_to_end(key)
        if len(self._logins) > LOGINS_MAX:
            self._logins.popitem(last=False)
        self._write(LOGIN, entry, Noted(1, 0))
        return ceil((now_s + LOGIN_S) * 1000)

    def written(self, error: Exception | None, noted: Noted, refusal: Entry | None) -> None:
        """What became of a record; `refusal`: what it said, unless it was of a login."""
        self._writing -= 1
        if error is not None:
            self._sieve.give_back(noted, refusal)
            logger.warning("could not write a record of the audit: %s", error)

    def _write(self, tag: str, entry: Entry, noted: Noted) -> None:
        refusal = entry if tag == REFUSED else None
        if self._queue is None or self._writing >= WRITING_MAX:
            self._sieve.give_back(noted, refusal)
            return
        self._writing += 1
        self._log.submit(_append(self._queue, tag, entry, noted), _Told(self, noted, refusal))

    def _now_s(self) -> float:
        return self._clock.now_ms() / 1000


def _cut(entry: Entry) -> Entry:
    """The entry as it is written, and kept until then."""
    return entry._replace(what=entry.what[:TEXT_CHARACTERS_MAX], why=entry.why[:TEXT_CHARACTERS_MAX])


def _append(queue: Queue, tag: str, entry: Entry, noted: Noted) -> RowsAppend:
    content = {
        "user": entry.user,
        "source": entry.source,
        "what": entry.what,
        "why": entry.why,
        "times": noted.times,
        "missed": noted.missed,
        **({"request_id": entry.request_id} if entry.request_id else {}),
    }
    return RowsAppend([make_row(body=orjson.dumps(content), tag=tag)], [queue])
