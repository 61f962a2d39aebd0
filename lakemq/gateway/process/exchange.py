"""The broker of the moment, and its exchange for another one: where leaders are elected a process leads, follows, and
leads again, and its connections stay."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import ParamSpec, TypeVar

from lakemq.contract.log_level_routes import PUT_LEVELS
from lakemq.contract.routes import BROKER, HEALTH, LOG_FRAMES, LOG_PART, METRICS, READY
from lakemq.gateway.access.audit import Entry
from lakemq.gateway.fleet.election import Election
from lakemq.gateway.fleet.follower import Follower
from lakemq.gateway.fleet.incarnation import Incarnation
from lakemq.gateway.fleet.log_elsewhere import has_log, log_elsewhere
from lakemq.gateway.fleet.open_leadership import open_leadership
from lakemq.gateway.process.app import App, forget_handlers, make_app
from lakemq.gateway.process.broker import Broker
from lakemq.gateway.process.elected_lead import ElectedLead
from lakemq.gateway.process.quick import Quick, SampledQuick
from lakemq.gateway.process.resigning import Resigning
from lakemq.gateway.work.work import Work
from lakemq.model.errors import Busy, LakemqError, NotInSync, NotLeader, StoreUnwritable
from lakemq.model.in_sync import Member, Record
from lakemq.settings import Settings
from lakemq.storage.disk.clock import Clock
from lakemq.storage.disk.files import Files
from lakemq.storage.disk.lock import DirectoryLock
from lakemq.traces.spans import Spans
from lakemq.web.asgi import Receive, Scope, Send, client_of, send_answer
from lakemq.web.front import Front
from lakemq.web.problems import answer_to, json_answer
from lakemq.web.protocol import Connection
from lakemq.web.room import Room

logger = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")

HOLD_S = 5.0
"""So long a request waits for the next broker."""
HELD_OF_ONE_MAX = 1_000
"""So many of them of one client."""
END_S = 2.0
"""So long requests that have begun may take to end."""
_ASSUMING = frozenset({LOG_FRAMES.path, BROKER.path, METRICS.path, HEALTH.path, PUT_LEVELS.path})
_SEEN = b"seen_epoch="
"""What only a replica says as it follows: it is told at once that another leads, which may be that one itself, and who
waits for the next leader waits for that."""
_PARTS = LOG_PART.path.partition("{")[0]
"""What a leader serves before all is confirmed that was before it: its followers need it for that."""


class Exchange:
    """That of one process: an ASGI application, which gives requests to the broker of the moment."""

    def __init__(
        self,
        settings: Settings,
        files: Files,
        clock: Clock | None,
        renew: Callable[[], object],
        spans: Spans | None = None,
    ) -> None:
        """`renew` is called when a broker has gone, and nothing is served: it took much memory."""
        self._settings, self._files, self._clock = settings, files, clock
        self._renew = renew
        self.work = Work(settings.gateway, spans=spans)
        self._front: Front | None = None
        self._assuming: Front | None = None
        self._running: set[asyncio.Task[object]] = set()
        self._asides: set[asyncio.Task[object]] = set()
        """Those of them that are no client's, and never written by."""
        self._held = Room(settings.gateway.waiters_max, HELD_OF_ONE_MAX)
        self._news = asyncio.Event()
        self._stopping = False
        self._going = False
        """The broker of the moment is being closed."""
        self._closing: asyncio.Task[None] | None = None
        self._address = ""
        self._election: Election | None = None
        self._resigning: Resigning | None = None
        self._connections: type[Connection] | None = None
        self.broker: Broker | None = None

    @contextmanager
    def holding_folder(self) -> Generator[None]:
        """Have the data directory for all brokers that take turns. Raises `LogInUse`, `OSError`."""
        files, directory = self._files, self._settings.storage.data_dir
        files.make_dirs(directory)
        lock = DirectoryLock(files, directory, f"the lakemq gateway {self._settings.broker.name!r}")
        try:
            yield
        finally:
            lock.release()

    async def run(self, connections: type[Connection], address: str) -> None:
        """Lead and follow as it is elected, until it is cancelled; `address`: where the gateway listens. Raises what
        keeps a broker from being opened."""
        settings = self._settings
        self._connections, self._address = connections, address
        incarnation = Incarnation(self._files, settings.storage.data_dir)
        incarnation.load()
        self._forget_without_log(incarnation)
        leadership = await open_leadership(settings, self._files, "")
        advertised = settings.gateway.advertise or address
        elsewhere = partial(log_elsewhere, settings, self._files)
        election = self._election = Election(settings, leadership, incarnation, advertised, elsewhere)
        tenure = await election.first()
        owed: list[Entry] = []
        while True:
            broker = self.broker = Broker(self._settings, self._files, self._clock, tenure, self.work)
            if broker.audit is not None:
                broker.audit.owed.extend(owed)
            broker.lead = ElectedLead(broker, election, self.hand_over)
            if broker.follower is not None:
                await self._follow(broker, broker.follower, election)
                tenure = await election.until_elected(broker.follower)
            else:
                await self._assume(broker, election)
                tenure = await election.until_replaced()
            await self._let_go(broker)
            owed = [] if broker.audit is None else list(broker.audit.owed)
            del broker
            forget_handlers()
            self._renew()

    def _forget_without_log(self, incarnation: Incarnation) -> None:
        """A folder whose log is gone, as where its disk is not mounted, is nobody that it was: it led with an empty log
        else, and its members followed that. Raises `OSError`, `LogVersion`."""
        if incarnation.lives and not has_log(self._settings, self._files):
            logger.error(
                "there is no log in %s, and this replica had one: it follows, and leads no more until it is in sync "
                "again; if it led alone, put the log back, or see lakemq broker elect --unclean",
                self._settings.storage.data_dir,
            )
            incarnation.forget()

    async def _follow(self, broker: Broker, follower: Follower, election: Election) -> None:
        """Open the broker of who follows, and serve it."""
        follower.on_diverged = election.begin_anew
        # While the leader begins, whose first frame then waits for this one.
        making = asyncio.ensure_future(_in_thread(make_app, broker))
        try:
            await election.meanwhile(broker.prepare())
        finally:
            await asyncio.wait([making])
        app = making.result()
        await election.meanwhile(self._open(broker))
        await broker.start()
        self._serve(broker, app.front)

    async def _assume(self, broker: Broker, election: Election) -> None:
        """Open the broker of who leads. What it is asked is answered once all is confirmed that any leader before it
        confirmed; or another leads by then."""
        await self._open(broker)
        app = await _in_thread(make_app, broker)
        end, elected = broker.log.next_position, broker.tenure.elected
        assert broker.replication is not None
        assert elected is not None
        record = elected.record or await election.establish(broker.log.identity)
        await broker.start(record)
        with suppress(OSError):  # a start waits longer then
            await asyncio.to_thread(elected.incarnation.has_opened)
        self._assuming = app.front
        broker.serve()
        self._resigning = Resigning(broker, election)
        self._tell()
        confirmed = asyncio.ensure_future(self._until_asked(broker, election, end))
        replaced = asyncio.ensure_future(election.until_replaced())
        try:
            await asyncio.wait([confirmed, replaced], return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_confirmed = confirmed.done() and not confirmed.cancelled() and confirmed.exception() is None
            for each in (confirmed, replaced):
                each.cancel()
            await asyncio.gather(confirmed, replaced, return_exceptions=True)
        if is_confirmed and self._connections is not None:
            self._connections.quick = quick_of(broker, app)
            self._serve(broker, app.front)

    async def _until_asked(self, broker: Broker, election: Election, end: int) -> None:
        assert broker.replication is not None
        await broker.replication.first_frame(end)
        if not broker.log.sync_always:  # else nothing is acknowledged by a lease alone
            await election.until_alone()

    async def hand_over(self, broker: Broker, to: Member) -> Record:
        """Have that member, which is in sync, lead in this one's place: nothing is written any more, it gets all that
        is, and leads by the record. New requests wait. Raises `NotInSync`, `StoreUnwritable`, and then this one leads
        on."""
        is_resigning = self._resigning is not None and self._resigning.is_due
        if self._election is not None and not is_resigning:
            # Before anything is given up: else nothing is written until the store is back.
            await self._election.until_heard()
        if self._resigning is not None and self._resigning.is_due:  # maybe only since then
            return await self._resigning.hand_over(to)
        front, connections, replication, election = self._front, self._connections, broker.replication, self._election
        if front is None or connections is None or replication is None or election is None:
            raise NotInSync("this replica doesn't lead just now")
        quick, connections.quick = connections.quick, None
        self._front, self._assuming = None, front
        broker.work.waiters.stop()
        replication.hold(True)
        try:
            await self._end_requests(self._running - self._asides)
            broker.log.retire(StoreUnwritable("this leader hands over to another"))
            seconds = self._settings.replication.silent_ms / 1000
            await _settled(broker, seconds)
            end = broker.log.next_position
            now = await replication.until_all_have(end, seconds)
            record = await election.hand_over(now, to)
        except BaseException:
            if self.broker is not broker or self._going or self._stopping:
                raise  # another leads already, or may: this broker is never asked again
            broker.log.retire(None)
            replication.hold(False)
            broker.work.waiters.go_on()
            connections.quick, self._front, self._assuming = quick, front, None
            self._tell()
            raise
        replication.replaced(record)
        election.handed_over()
        return record

    async def _open(self, broker: Broker) -> None:
        """Open it in a thread: that takes as long as the log is large, and meanwhile a leader has to beat, and a
        follower to look, on this loop. Were it the loop that stood still for a lease, another member would take the
        lead from who opens, and then the next one from that: a broker with a large log might never have a leader. That
        the beats are the loop's own is on purpose: a process whose loop hangs leads no more."""
        await _in_thread(broker.recover, asyncio.get_running_loop())
        broker.keep_house()

    def _serve(self, broker: Broker, front: Front) -> None:
        """From now on this one is asked."""
        self._front, self._assuming = front, None
        self._tell()
        broker.register(self._address)

    async def _let_go(self, broker: Broker) -> None:
        """Close the broker, once all that it is asked is answered."""
        assert self._connections is not None
        self._going = True
        await self._resign_no_more()
        self._front = self._assuming = None
        self._connections.quick = None
        if not broker.tenure.follows:
            broker.log.retire(self._not_leader())
        if broker.replication is not None and self._election is not None and self._election.record is not None:
            broker.replication.replaced(self._election.record)
        broker.leave(stays=True)
        await self._end_requests(self._running, cancels=True)
        self.broker = None
        self.work = broker.work.renewed()
        self._connections.quick = None
        # Who stops meanwhile waits for it: what it has is brought to disk, and its threads end.
        self._closing = asyncio.ensure_future(broker.close(stays=True))
        await asyncio.shield(self._closing)
        self._closing = None
        self._going = False

    async def _resign_no_more(self) -> None:
        resigning, self._resigning = self._resigning, None
        if resigning is not None:
            await resigning.close()

    async def _end_requests(self, these: set[asyncio.Task[object]], cancels: bool = False) -> None:
        """Let them end, but for who asks for that; those that are late go on, or are cancelled."""
        running = {each for each in these if each is not asyncio.current_task()}
        if not running:
            return
        _, late = await asyncio.wait(running, timeout=END_S)
        if late and cancels:
            for task in late:
                task.cancel()
            await asyncio.wait(late, timeout=END_S)

    def _leads_no_more(self) -> bool:
        return self._election is not None and self._election.leads_no_more()

    def _not_leader(self) -> NotLeader:
        leader = "" if self._election is None else self._election.where()
        return NotLeader(f"this broker no longer leads: {leader or 'the new leader is not known yet'}", leader)

    # Requests --------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        front = self._front
        if front is None:
            front = await self._wait(scope, send)
            if front is None:
                return
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        if _is_assuming(scope["path"]):
            self._asides.add(task)
        try:
            await front(scope, receive, send)
        finally:
            self._running.discard(task)
            self._asides.discard(task)

    async def _wait(self, scope: Scope, send: Send) -> Front | None:
        """Who serves the request: after a while, maybe. None: nobody does, and it is answered."""
        path = scope["path"]
        if self._assuming is not None and _is_assuming(path):
            return self._assuming
        if path == LOG_FRAMES.path and _SEEN in scope["query_string"] and self._leads_no_more():
            await send_answer(send, answer_to(self._not_leader(), self.work.counters.problem, scope))
            return None
        if path == HEALTH.path:
            await send_answer(send, json_answer(b'{"status":"up"}'))
            return None
        if path == READY.path:
            await send_answer(send, answer_to(StoreUnwritable(self._why()), self.work.counters.problem, scope))
            return None
        if self._may_wait(scope):
            with suppress(TimeoutError), self._held.place(client_of(scope)):
                async with asyncio.timeout(HOLD_S):
                    return await self._next(path)
        await send_answer(send, answer_to(self._refusal(), self.work.counters.problem, scope))
        return None

    def _may_wait(self, scope: Scope) -> bool:
        """Whether a request may be held: none that would be refused, as it needs a token and has none."""
        if self._settings.auth.required and all(name != b"authorization" for name, _ in scope["headers"]):
            return False
        return self._held.has_room(client_of(scope))

    async def _next(self, path: str) -> Front | None:
        """Who serves that path next. Raises `TimeoutError` where nobody will."""
        while not self._stopping:
            await self._news.wait()
            if self._front is not None:
                return self._front
            if self._assuming is not None and _is_assuming(path):
                return self._assuming
        raise TimeoutError

    def _tell(self) -> None:
        """Wake requests that wait for the next broker."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _refusal(self) -> LakemqError:
        known = self._election is not None and self._election.where()
        return self._not_leader() if known and not self._stopping else Busy(self._why())

    def _why(self) -> str:
        if self._stopping:
            return "the gateway is stopping"
        problem = None if self._election is None else self._election.problem
        return f"this replica neither leads nor follows just now: {problem or 'it changes from one to the other'}"

    # Stopping --------------------------------------------------------------------------------

    def depart(self) -> None:
        """Be ready no more. Name servers go on to say who leads, until nobody does here."""
        self.work.leaving = True

    def leave(self) -> None:
        """Answer who waits."""
        self._stopping = True
        self._tell()
        if self.broker is not None:
            self.broker.leave()

    async def close(self) -> None:
        """Close the broker of the moment, after `run` has ended."""
        await self._resign_no_more()
        broker, self.broker = self.broker, None
        try:
            if broker is not None and broker.is_open:
                await broker.close()
            elif broker is not None:
                await broker.abandon()
            else:
                self.work.close()
            if self._closing is not None:
                await self._closing
        finally:
            if self._election is not None:
                await self._election.close()


async def _settled(broker: Broker, seconds: float) -> None:
    """Wait for what is being written: it is acknowledged, so who is to lead has to get it. Raises `NotInSync`."""
    try:
        async with asyncio.timeout(seconds):
            await broker.log.settled()
    except TimeoutError:
        raise NotInSync("what is being written takes long; this one leads on") from None


async def _in_thread(work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Do it in a thread. Who is cancelled waits for its end: the folder is to be let go in order, by who has it
    alone."""
    doing = asyncio.get_running_loop().run_in_executor(None, partial(work, *arguments, **named))
    try:
        return await asyncio.shield(doing)
    finally:
        await asyncio.wait([doing])


def _is_assuming(path: str) -> bool:
    return path in _ASSUMING or path.startswith(_PARTS)


def quick_of(broker: Broker, app: App) -> Quick | None:
    """Who serves a broker's quick requests: all of them write."""
    if broker.follower is not None:
        return None
    served = broker.store, app.producer, broker.router.transactions, broker.access, broker.work.counters
    if app.spans is None or not broker.settings.traces.ratio:
        return Quick(*served)
    return SampledQuick(*served, chooses=app.spans.choose)
