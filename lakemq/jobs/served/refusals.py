"""What is refused here stands in the audit of a broker that the jobs follow: it is told by a thread of its own, as
nobody waits for that. What can't be told for long is counted, and in the jobs' log."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from itertools import islice
from threading import Condition, Thread
from typing import NamedTuple

from lakemq.contract.sql_routes import REFUSALS, REFUSALS_MAX, WHAT_CHARACTERS_MAX, WHY_CHARACTERS_MAX
from lakemq.jobs.served.brokers import Brokers
from lakemq.model.errors import InvalidRequest, LakemqError, MessageTooLarge

WAITING_MAX = 1_000
"""So many at most wait to be told."""
AGAIN_S = 1.0
END_S = 5.0

logger = logging.getLogger(__name__)


class Refusal(NamedTuple):
    """`user`: empty where nobody knows who asked. `what`: the statement in short (`in_short.py`)."""

    user: str
    source: str | None
    what: str
    why: str
    request_id: str
    of: str = "sql"
    """Which route refused it: `sql`, or `state`, `run` or `cancel` of the jobs."""

    def fields(self) -> dict[str, str | None]:
        """As a broker is told."""
        told: dict[str, str | None] = self._asdict()
        if self.of == "sql":  # which is what an older broker takes
            del told["of"]
        return told

    def older_fields(self) -> dict[str, str | None]:
        """As a broker is told that doesn't know other routes than `sql` yet: which one it was stands in `what`."""
        what = self.what if self.of == "sql" else f"{self.of}: {self.what}"
        return self._replace(what=what[:WHAT_CHARACTERS_MAX], of="sql").fields()


class _Outcome(Enum):
    """Of telling some. `TOO_LARGE`: no broker took them, and fewer would do for one of them."""

    TOLD = auto()
    TOO_LARGE = auto()
    UNTOLD = auto()


class Refusals:
    """Those of one server. For any thread."""

    def __init__(self, brokers: Brokers, addresses: Callable[[], str]) -> None:
        self._brokers, self._addresses = brokers, addresses
        self._waiting: deque[Refusal] = deque()
        self._missed = 0
        self._change = Condition()
        self._ends = False
        self._thread: Thread | None = None

    def add(self, refusal: Refusal) -> None:
        """Have it told, soon."""
        bounded = refusal._replace(what=refusal.what[:WHAT_CHARACTERS_MAX], why=refusal.why[:WHY_CHARACTERS_MAX])
        with self._change:
            if len(self._waiting) < WAITING_MAX:
                self._waiting.append(bounded)
            else:
                self._missed += 1
            if self._thread is None and not self._ends:
                self._thread = Thread(target=self._run, name="sql refusals", daemon=True)
                self._thread.start()
            self._change.notify_all()

    def close(self) -> None:
        """Tell what waits, if that can be."""
        with self._change:
            self._ends = True
            self._change.notify_all()
        if self._thread is not None:
            self._thread.join(END_S)

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._ends)
                if not self._waiting:
                    return
                some, missed = list(islice(self._waiting, REFUSALS_MAX)), self._missed
            if told := self._tell_some(some, missed):
                with self._change:
                    for _ in range(told):
                        self._waiting.popleft()
                    self._missed -= missed
                continue
            with self._change:
                if self._change.wait_for(lambda: self._ends, AGAIN_S):
                    logger.warning("could not record %d refusals of SQL in any broker's audit", len(self._waiting))
                    return

    def _tell_some(self, some: list[Refusal], missed: int) -> int:
        """Tell the first of them, as many as a broker takes; how many that were. A broker may take so small requests
        that there is no room for all, or for one: that is counted, and holds up none behind it."""
        while (outcome := self._tell_first(some, missed)) is not _Outcome.TOLD:
            if outcome is _Outcome.UNTOLD:
                return 0
            if len(some) <= 1:
                return 1 if self._tell_first([], missed + 1) is _Outcome.TOLD else 0
            some = some[: len(some) // 2]
        return len(some)

    def _tell_first(self, some: list[Refusal], missed: int) -> _Outcome:
        """To the first broker that takes it."""
        outcome = _Outcome.UNTOLD
        for address in filter(None, self._addresses().split(",")):
            refusal = self._tell(address, [each.fields() for each in some], missed)
            if isinstance(refusal, InvalidRequest):
                refusal = self._tell(address, [each.older_fields() for each in some], missed)
            if refusal is None:
                return _Outcome.TOLD
            if isinstance(refusal, MessageTooLarge):
                outcome = _Outcome.TOO_LARGE
            logger.debug("could not report refusals of SQL to %s: %s", address, refusal.detail)
        return outcome

    def _tell(self, address: str, told: list[dict[str, str | None]], missed: int) -> LakemqError | None:
        body = json.dumps({"refusals": told, "missed": missed}).encode()
        try:
            return self._brokers.tell(address, REFUSALS.at(), body)
        except LakemqError as error:
            return error
