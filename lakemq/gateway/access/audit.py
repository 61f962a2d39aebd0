"""Who did what, when, from where, and whether it was allowed: records in a topic of the system, so rows of the lake.

What changes something is written down before it is done: in the log the record stands before what was changed, so a
change that survives has its record. Refusals are sieved (`noted.py`). What finds no room, or comes before there is the
topic, is carried out all the same: it is counted, and said with a later refusal's record.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import orjson

from lakemq.gateway.access.noted import Noted, Sieve
from lakemq.model.errors import LakemqError
from lakemq.model.names import AUDIT_TOPIC
from lakemq.storage.disk.clock import Clock
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.receiver import Stored
from lakemq.storage.segment.rows import make_row
from lakemq.storage.state.topics import Queue, Topic

logger = logging.getLogger(__name__)

WRITING_MAX = 1_000
"""So many records at most are on their way to the log."""
LOGIN_S = 3_600.0
LOGINS_MAX = 1_000
TEXT_CHARACTERS_MAX = 500
ALLOWED, REFUSED, LOGIN = "allowed", "refused", "login"
"""The records' tags."""


class Entry(NamedTuple):
    """`user`: empty for nobody who is known. `what`: method and path, or what it takes; `why`: which rule says so."""

    user: str
    source: str | None
    what: str
    why: str


class _Told:
    """Is told what became of a record."""

    def __init__(self, audit: Audit, noted: Noted) -> None:
        self._audit, self._noted = audit, noted

    def done(self) -> bool:
        return False

    def set_result(self, result: Stored, /) -> None:
        self._audit.written(None, self._noted)

    def set_exception(self, exception: Exception, /) -> None:
        self._audit.written(exception, self._noted)


class Audit:
    """That of one broker. Nothing is written before `begin`, and by a follower never."""

    def __init__(self, log: CommitLog, ensure_topic: Callable[[str], Awaitable[Topic]], clock: Clock) -> None:
        self._log = log
        self._ensure_topic = ensure_topic
        self._clock = clock
        self._sieve = Sieve()
        self._logins: OrderedDict[tuple[str, str | None], float] = OrderedDict()
        self._queue: Queue | None = None
        self._writing = 0

    async def begin(self) -> None:
        """Have the topic, if that can be."""
        if self._queue is None:
            try:
                self._queue = (await self._ensure_topic(AUDIT_TOPIC)).queues[0]
            except LakemqError as error:
                logger.warning("nothing can be audited yet: %s", error)

    def allowed(self, entry: Entry) -> None:
        """Somebody is about to change something."""
        self._write(ALLOWED, entry, Noted(1, 0))

    def refused(self, entry: Entry) -> None:
        """Somebody may not. Of those that nobody knows, all from one address are alike."""
        kind = (entry.user, entry.source, entry.what[:TEXT_CHARACTERS_MAX] if entry.user else "")
        if (noted := self._sieve.note(kind, self._now_s())) is not None:
            self._write(REFUSED, entry, noted)

    def logged_in(self, entry: Entry) -> None:
        """An administrator's token came from an address: written once an hour."""
        now_s, key = self._now_s(), (entry.user, entry.source)
        if 0 <= now_s - self._logins.get(key, -LOGIN_S) < LOGIN_S:
            return
        self._logins[key] = now_s
        self._logins.move_to_end(key)
        if len(self._logins) > LOGINS_MAX:
            self._logins.popitem(last=False)
        self._write(LOGIN, entry, Noted(1, 0))

    def written(self, error: Exception | None, noted: Noted) -> None:
        """What became of a record."""
        self._writing -= 1
        if error is not None:
            self._sieve.give_back(noted)
            logger.warning("a record of the audit could not be written: %s", error)

    def _write(self, tag: str, entry: Entry, noted: Noted) -> None:
        if self._queue is None or self._writing >= WRITING_MAX:
            self._sieve.give_back(noted)
            return
        content = {
            "user": entry.user,
            "source": entry.source,
            "what": entry.what[:TEXT_CHARACTERS_MAX],
            "why": entry.why[:TEXT_CHARACTERS_MAX],
            "times": noted.times,
            "missed": noted.missed,
        }
        row = make_row(body=orjson.dumps(content), tag=tag)
        self._writing += 1
        self._log.submit(RowsAppend([row], [self._queue]), _Told(self, noted))

    def _now_s(self) -> float:
        return self._clock.now_ms() / 1000
