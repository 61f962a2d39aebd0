"""Which brokers there are and answer, and telling them which jobs are alive: one small request to each, every 2 s."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Any, Protocol

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.process.told_levels import ToldLevels
from lakemq.jobs.source.plan import StreamOffset
from lakemq.model.errors import LakemqError
from lakemq.wire.connections import NoAnswer
from lakemq.wire.name_servers import NameServers

BEAT_S = 2.0
DEAD_S = 10.0
"""A broker that hasn't answered for so long is left out while others answer."""
BACK_S = 5.0
"""One that was away is taken in again when it has answered for so long."""
NAMES_S = 2.0
"""So often name servers are asked who there is."""
_ANSWER_S = 5.0

logger = logging.getLogger(__name__)


class Told(Protocol):
    """A job, as brokers are told of it."""

    @property
    def reached(self) -> StreamOffset | None:
        """How far it has read each broker's log; None: it reads none."""
        ...

    @property
    def topics(self) -> tuple[str, ...]:
        """Of which topics; none: of all."""
        ...


class _Broker:
    """What is known of one: since when it answers, and when it did last; None: it doesn't."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.name: str | None = None
        self.has_left = False
        self.was_asked = False
        self.is_refused = False
        self.sql_refused: Any = None
        self.schemas: Any = None
        self.since_s: float | None = None
        self.last_s: float | None = None

    def answers(self) -> bool:
        return self.since_s is not None


class BrokerWatch:
    """The brokers of a process with jobs: those at the addresses, with commas between, or those that name servers know
    at any time. `start` before anything else; `stop` ends it."""

    def __init__(self, broker_url: str, stop: Event, names: NameServers | None = None) -> None:
        self._brokers = {address: _Broker(address) for address in broker_url.split(",") if address}
        self._names = names
        self._is_known = names is None
        self._stop = stop
        self._jobs: dict[str, Told | None] = {}
        self._lock = Lock()
        self._began_s = time.monotonic()
        self.sql: str | None = None
        """Where this process answers SQL; brokers are told so."""
        self.on_waiting: Callable[[str], None] = lambda broker: None
        """Is told which broker is waited for, as none answers; empty: one does. By any thread."""
        self.on_schemas: Callable[[], None] | None = None
        """Is called when a broker says that schemas of its topics have changed."""

    def start(self) -> None:
        """Begin to ask and to tell."""
        for broker in self._brokers.values():
            self._begin(broker)
        if self._names is not None:
            Thread(target=self._follow, args=(self._names,), name="name servers", daemon=True).start()

    def _begin(self, broker: _Broker) -> None:
        Thread(target=self._run, args=(broker,), name=f"watch {broker.address}", daemon=True).start()

    def _follow(self, names: NameServers) -> None:
        """Learn who joins and who leaves. While no name server answers, those that are known go on."""
        silent = False
        while not self._stop.is_set():
            try:
                self._learn(names.primaries())
                silent = False
            except NoAnswer as error:
                if not silent:
                    logger.warning("%s; continuing with the known brokers", error)
                silent = True
            self._stop.wait(NAMES_S if self._brokers else NAMES_S / 4)
        names.close()

    def _learn(self, named: Mapping[str, str]) -> None:
        """`named`: the address of each broker, by name. Who is not named any more has left if it doesn't answer either,
        as a name server that has just begun knows nobody yet; and if its name is another's now, whether it answers or
        not: it has a new address, or another replica leads."""
        now, addresses = time.monotonic(), set(named.values())
        with self._lock:
            self._is_known = True
            joined = [_Broker(address) for address in addresses if address not in self._brokers]
            unnamed = [broker for address, broker in self._brokers.items() if address not in addresses]
            left = [broker for broker in unnamed if broker.name in named or _is_dead(broker, now)]
            for broker in joined:
                self._brokers[broker.address] = broker
            for broker in left:
                broker.has_left = True
                del self._brokers[broker.address]
        for broker in joined:
            logger.info("the broker at %s has joined", broker.address)
            self._begin(broker)
        for broker in left:
            logger.warning("the broker at %s has left", broker.address)

    @contextmanager
    def telling(self, names: Sequence[str], job: Told | None = None) -> Generator[None]:
        """Meanwhile the brokers are told that the jobs of these names, which are one query, are alive."""
        with self._lock:
            self._jobs.update(dict.fromkeys(names, job))
        try:
            yield
        finally:
            with self._lock:
                for name in names:
                    self._jobs.pop(name, None)

    def addresses(self) -> str:
        """All brokers that there are, with commas between."""
        with self._lock:
            return ",".join(self._brokers)

    @property
    def answering(self) -> tuple[str, ...]:
        """The brokers that have answered when they were asked last."""
        with self._lock:
            return tuple(each.address for each in self._brokers.values() if each.answers())

    def wait(self) -> tuple[str, ...]:
        """The brokers that answer, once one does; at first all are waited for a while. None when asked to stop."""
        told = ""
        while not self._stop.is_set():
            found = self.answering
            awaited = "" if found else self._awaited()
            if awaited != told:
                self.on_waiting(told := awaited)
            is_all = self._is_known and len(found) == len(self._brokers)
            if found and (is_all or time.monotonic() - self._began_s > DEAD_S):
                return found
            self._stop.wait(0.1)
        return ()

    def _awaited(self) -> str:
        """Who is waited for, in words; empty before all have been asked."""
        with self._lock:
            brokers = list(self._brokers.values())
        if not brokers:
            return "a broker to register with the name servers" if self._is_known else "a name server that answers"
        addresses = ", ".join([each.address for each in brokers])
        return f"a broker at {addresses}" if all(each.was_asked for each in brokers) else ""

    def has_changed(self, addresses: Sequence[str]) -> bool:
        """Whether a run with these brokers should end, for one with others: one of them is dead while another
        isn't, or one that was left out is back."""
        now = time.monotonic()
        with self._lock:
            brokers = list(self._brokers.values())
            away = {each.address for each in brokers if _is_dead(each, now)}
            away |= set(addresses) - {each.address for each in brokers}
            back = any(each.address not in addresses and _is_back(each, now) for each in brokers)
        return back or (bool(away.intersection(addresses)) and any(each.address not in away for each in brokers))

    def _run(self, broker: _Broker) -> None:
        client, levels = LogClient(broker.address, 0, _ANSWER_S), ToldLevels()
        while not self._stop.is_set() and not broker.has_left:
            try:
                answer = client.put_jobs(self._beats(broker.name), self.sql, levels.describe())
                name = str(answer["broker"])
                levels.take(broker.address, answer)
            except BrokerUnavailable as error:
                self._note_silence(broker, error)
            except (LakemqError, ValueError, KeyError, TypeError) as error:  # it is there, but doesn't understand
                self._note_refusal(broker, error)
                self._note_answer(broker, broker.name)
            else:
                broker.is_refused = False
                self._note_answer(broker, name)
                self._note_schemas(broker, answer.get("schemas"))
                self._note_sql(broker, answer.get("sql_refused"))
            self._stop.wait(BEAT_S if broker.answers() else BEAT_S / 4)
        client.close()

    def _beats(self, broker: str | None) -> list[dict[str, Any]]:
        with self._lock:
            return [_beat(name, job, broker) for name, job in self._jobs.items()]

    def _note_answer(self, broker: _Broker, name: str | None) -> None:
        now = time.monotonic()
        with self._lock:
            is_back = broker.was_asked and not broker.answers()
            broker.was_asked, broker.name, broker.last_s = True, name, now
            broker.since_s = now if broker.since_s is None else broker.since_s
        if is_back:
            logger.info("the broker at %s answers", broker.address)

    def _note_schemas(self, broker: _Broker, mark: Any) -> None:
        """`mark`: another one after each change."""
        if self.on_schemas is not None and mark != broker.schemas:
            broker.schemas = mark
            self.on_schemas()

    def _note_sql(self, broker: _Broker, why: Any) -> None:
        """`why`: the broker doesn't tell clients where this process answers SQL. Said once."""
        if why != broker.sql_refused:
            broker.sql_refused = why
            if why:
                logger.warning("the broker at %s tells nobody where these jobs answer SQL: %s", broker.address, why)

    def _note_refusal(self, broker: _Broker, error: Exception) -> None:
        """Said once where somebody has to change something: the queries fail by it too, and say it again."""
        refused = isinstance(error, LakemqError) and error.lasting
        logger.log(
            logging.WARNING if refused and not broker.is_refused else logging.DEBUG, "%s: %s", broker.address, error
        )
        broker.is_refused = refused

    def _note_silence(self, broker: _Broker, error: LakemqError) -> None:
        with self._lock:
            is_news = not broker.was_asked or broker.answers()
            broker.was_asked, broker.since_s = True, None
        if is_news:
            logger.warning("%s; waiting for it", error.detail)


def _is_dead(broker: _Broker, now_s: float) -> bool:
    return not broker.answers() and (broker.last_s is None or now_s - broker.last_s > DEAD_S)


def _is_back(broker: _Broker, now_s: float) -> bool:
    return broker.since_s is not None and now_s - broker.since_s > BACK_S


def _beat(name: str, job: Told | None, broker: str | None) -> dict[str, Any]:
    reached = None if job is None else job.reached
    if job is None or reached is None or broker is None or broker not in reached.positions:
        return {"name": name}
    beat: dict[str, Any] = {"name": name, "position": reached.positions[broker], "clock_ms": reached.clock_of(broker)}
    return beat | {"topics": list(job.topics)} if job.topics else beat
