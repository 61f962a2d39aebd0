"""A real broker on real files with a clock that is set by hand, driven from synchronous tests; and the
queries' decisions, made of the pure rules and what the log says."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from pyroaring import BitMap64

from lakemq.gateway.filter.selector import Selector
from lakemq.gateway.process.app import make_receiver
from lakemq.gateway.process.broker import Broker
from lakemq.gateway.produce.deferred import DeferredPlacement
from lakemq.gateway.receipts.receive_request import ReceiveRequest
from lakemq.gateway.receive.receiver import Given, Receiver
from lakemq.gateway.routing.decisions import Posted
from lakemq.gateway.routing.jobs import Heartbeat
from lakemq.gateway.routing.overdue import JOB_OF
from lakemq.gateway.routing.pending import Due
from lakemq.gateway.work.run import at_once
from lakemq.model import transaction, wheel
from lakemq.model.decide import Kind, of_half, of_nack, of_receipt
from lakemq.model.message import Draft
from lakemq.model.names import HALF_TOPIC, NACK_TOPIC, OP_TOPIC, RECEIVE_TOPIC, SCHEDULE_TOPIC
from lakemq.model.wheel import Entry, Terms, decide_due
from lakemq.settings import Broker as Name
from lakemq.settings import Routing, Settings, Storage
from lakemq.storage.lake.history import History
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.log.recovery import recover
from lakemq.storage.log.topic_changes import NOBODY
from lakemq.storage.segment.rows import Row, value_of
from lakemq.storage.state.bitmaps import unpack, unpack_numbers
from lakemq.storage.state.routing_state import RoutingState
from lakemq.storage.state.topics import Queue
from lakemq.testing import FaultyFiles, ManualClock
from tests.storage.harness import plan_rows_now

T = TypeVar("T")

TOPIC = "orders"
CONFIRM_MS = 60_000


SETTLED_S_MAX = 60


def anybody(*_: object) -> None:
    """Who refuses nobody a topic, or a group."""


class Message(NamedTuple):
    """A message as the log holds it."""

    position: int
    topic: str
    store_time_ms: int
    row: Row

    def get(self, name: str) -> Any:
        """The value in a stored column."""
        return value_of(self.row, name)


class RoutingHarness:
    """Opens, crashes and opens again one broker."""

    def __init__(self, data_dir: Path, **storage: object) -> None:
        values: dict[str, object] = {
            "data_dir": data_dir,
            "segment_bytes": 2**20,
            "free_bytes_min": 0,
            "flush_interval_ms": 60_000,
            "snapshot_interval_ms": 3_600_000,
            "verify_ms": 0,
            "compacted_grace_ms": 0,
            "clock_confirm_ms": 0,
            "disk_high_ratio": 1.0,  # how full the machine's disk is does not matter
            **storage,
        }
        self._storage = Storage.model_validate(values)
        self.files = FaultyFiles()
        self.clock = ManualClock()
        self.broker: Broker
        self.receiver: Receiver
        self.last_state: dict[str, Any] = {}
        self.alive: Sequence[str] = [*JOB_OF.values()]
        """The routing jobs that are, though none decides anything by itself."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._frozen: tuple[Callable[[], dict[str, Any]], dict[str, Any]] | None = None

    # The broker's life -----------------------------------------------------------------------

    def open(self, lead_ms: int, grace_ms: int = -1) -> None:
        """Start the broker with this lead and grace; what is overdue by that it looks for when it is told."""
        routing = Routing(lead_ms=lead_ms, grace_ms=grace_ms, clock_confirm_ms=CONFIRM_MS)
        settings = Settings(broker=Name(name="b"), storage=self._storage, routing=routing)
        self._loop = asyncio.new_event_loop()
        self.broker = Broker(settings, self.files, self.clock)
        # What a test lets go of was never seen in a lake.
        ids, lake = self.broker.router.executor.ids, settings.lake
        self.broker.cold.history = History(lake.dir, ids, lake.cache_bytes, is_verified=False)
        self.receiver = make_receiver(self.broker)
        self.run(self._start())
        self.run(self._settle())

    async def _start(self) -> None:
        self.broker.open()
        await self.broker.start()
        await self.broker.router.overdue.close()

    def close(self) -> None:
        """Stop it as an operator does."""
        self.run(self.broker.close())
        self._end_loop()

    def crash(self) -> None:
        """Let go of everything without a further write: what is in the files now stays."""
        self.run(self._crash())
        self._end_loop()

    async def _crash(self) -> None:
        broker = self.broker
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(3):  # what was given to the log is written, as nothing stops it any more
            await asyncio.sleep(0)
        self.last_state = normal(broker.router.state, broker.log.min_position)
        broker.log.release()
        lock = broker._lock  # pyright: ignore[reportPrivateUsage]
        assert lock is not None
        lock.release()

    def restart(self, lead_ms: int, clean: bool, grace_ms: int = -1) -> None:
        """Stop it as an operator does, or crash; and open it again."""
        if clean:
            self.close()
        else:
            self.crash()
        self.open(lead_ms, grace_ms)

    def restart_without_snapshots(self, lead_ms: int, grace_ms: int = -1) -> None:
        """Crash, and open from the frames alone: the state that they make is what it was."""
        self.crash()
        for index in self._storage.data_dir.rglob("*.idx"):
            index.unlink()
        recovered = recover(self.files, self._storage.data_dir / "commitlog", 0)
        assert normal(recovered.state.routing, recovered.segments[0].base_position) == self.last_state
        for segment in recovered.segments:
            segment.close()
        self.open(lead_ms, grace_ms)

    def _end_loop(self) -> None:
        loop, self._loop = self._loop, None
        assert loop is not None
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    def run(self, awaitable: Awaitable[T]) -> T:
        """The awaitable's result."""
        assert self._loop is not None

        async def waiting() -> T:
            return await awaitable

        return self._loop.run_until_complete(waiting())

    def run_all(self, *awaitables: Awaitable[Any]) -> list[Any]:
        """The results of all, which go on at once."""

        async def waiting() -> list[Any]:
            return list(await asyncio.gather(*awaitables))

        return self.run(waiting())

    # What users do ---------------------------------------------------------------------------

    def produce(self, draft: Draft, group: str | None = None) -> int:
        """Store a message, or a half of the group; returns its position."""

        return self.run(self.storing(draft, group))

    async def storing(self, draft: Draft, group: str | None) -> int:
        """`produce`, for several at once."""
        topic = await self.broker.topics.writable(TOPIC, NOBODY)
        broker = self.broker
        halves, delays = broker.router.transactions, broker.settings.delay
        placement = DeferredPlacement(broker.log, broker.topics, halves, delays)
        placed = await placement.place(topic, [draft], group, at_once)
        assert isinstance(placed, RowsAppend)
        stored = await self.broker.log.append(placed)
        return stored.placed[0].position

    async def receiving(
        self, group: str, messages_max: int, invisible_ms: int, most: int, ordered: bool
    ) -> list[Received]:
        """Receive what there is now."""
        selector = Selector.of(None)
        wanted = ReceiveRequest(group, TOPIC, messages_max, invisible_ms, most, ordered, selector, "")
        given = await self.receiver.receive(wanted, 0, asyncio.get_running_loop().create_future())
        return [] if given is None else _received(given)

    def id_of(self, position: int) -> str:
        """The id of the message at a position."""
        return self.broker.ids.of(position)

    def secret_of(self, position: int) -> str:
        """The receipt, or the transaction's id, of the row at a position."""
        return self.broker.secret_ids.of(position)

    # Time, and what the queries do -----------------------------------------------------------

    def pass_time(self, ms: int) -> None:
        """Set the clock ahead, and let everything happen that is due by then."""
        self.clock.time_ms += ms
        self.run(self._settle())

    async def _settle(self) -> None:
        """Until all is done that is due: a loop may be at it, in a thread too, with nothing due any more."""
        router = self.broker.router
        routing = self.broker.settings.routing
        runs_out = routing.lead_ms > 0 or routing.grace_ms >= 0  # else only the query decides
        works = [router.deliveries, router.run_out] if runs_out else [router.deliveries]
        until_s = time.monotonic() + SETTLED_S_MAX
        while time.monotonic() < until_s:
            await asyncio.sleep(0)
            if all(work.loop.idle for work in works):
                dues = [(work.dues.earliest(), work.now_ms()) for work in works]
                if all(due_ms is None or due_ms > now_ms for due_ms, now_ms in dues):
                    return
                for work in works:
                    work.loop.look_again()
        raise AssertionError("what is due is not done")

    def decisions(self) -> list[Posted]:
        """What the three queries decide now, by the whole log, whether it is done or not."""
        limits = self.broker.settings
        now = self.clock.time_ms
        messages = self.messages()
        operations = {
            m.get("transaction_id"): m.get("tag") for m in messages if m.topic == OP_TOPIC and m.get("tag") != "unknown"
        }
        posted: list[Posted] = []
        for message in messages:
            if message.topic == SCHEDULE_TOPIC and message.get("deliver_at_ms") <= now + limits.routing.lead_ms:
                posted.append(Posted(message.position, "deliver", message.get("deliver_at_ms")))
            elif message.topic == HALF_TOPIC:
                checks = message.get("check_times") or 0
                resolution = operations.get(message.get("transaction_id") or self.id_of(message.position))
                wait = transaction.wait_ms(checks, 6_000, 60_000)
                if resolution or message.store_time_ms + wait <= now:
                    action = of_half(checks, limits.transactions.check_max, resolution).action
                    posted.append(Posted(message.position, action, None))
            elif message.topic == NACK_TOPIC:
                options = message.get("properties")
                decision = of_nack(
                    message.get("reconsume_times"),
                    int(options["delay_level"]),
                    int(options["max_reconsume_times"]),
                    limits.delay.levels,
                    message.store_time_ms,
                )
                posted.append(Posted(message.position, decision.action, decision.due_ms))
            elif message.topic == RECEIVE_TOPIC and message.get("deliver_at_ms") <= now:
                posted.append(_run_out(message))
        return posted

    def listed(self, due: Due, count_max: int = 10_000) -> list[dict[str, Any]]:
        """The rows of all pages that list what is pending and due then."""
        rows: list[dict[str, Any]] = []
        for kind in Kind:
            after: int | None = -1
            while after is not None:
                page = self.broker.router.pending.page(kind, due, after, count_max, at_once)
                body, after = self.run(page)
                found: list[dict[str, Any]] = pa.ipc.open_stream(body).read_all().to_pylist()
                assert len(found) <= count_max
                rows += found
        return rows

    def decisions_by_listing(self) -> list[Posted]:
        """What the query decides now that begins with what the gateway lists."""
        settings = self.broker.settings
        limits, now = settings.transactions, self.clock.time_ms
        terms = Terms(
            settings.routing.lead_ms,
            settings.delay.levels,
            limits.timeout_ms,
            limits.check_interval_ms,
            limits.check_max,
            settings.retry.max_reconsume_times,
        )
        rows = self.listed(Due(0, now + settings.routing.lead_ms + 1), 3)
        due = [_due(row) for row in rows if row["topic"] == SCHEDULE_TOPIC or (row["deliver_at_ms"] or 0) <= now]
        return [Posted(*decide_due(each, terms)) for each in due]

    def post(self, posted: list[Posted]) -> int:
        """Post decisions; how many were news."""
        return self.run(self.broker.router.decisions.take(posted)) if posted else 0

    def hear_jobs(self) -> None:
        """Those that are alive, and say nothing else, say that."""
        jobs = self.broker.router.jobs
        jobs.hear([Heartbeat(name, None, 0, None) for name in self.alive if not jobs.is_alive(name)])

    def decide_overdue(self) -> None:
        """Have the gateway decide all that is overdue by its grace."""
        self.hear_jobs()
        for _ in range(1_000):
            if not self.run(self.broker.router.overdue.look()):
                return
        raise AssertionError("it never ends")

    # Looking ---------------------------------------------------------------------------------

    def messages(self) -> list[Message]:
        """All that the log holds."""
        reader, log = self.broker.reader, self.broker.log
        found: list[Message] = []
        for part in reader.read_rows(plan_rows_now(reader, range(log.min_position, log.next_position)), 2**40).parts:
            meta = part.frame.meta
            found += [
                Message(meta.first_position + number, part.run_of(number).topic, meta.store_time_ms, part.row(number))
                for number in part.numbers
            ]
        return found

    def queue(self, topic: str) -> Queue:
        """The only queue of a system topic."""
        return self.broker.log.topics.queue(topic, 0)

    def check_snapshot(self) -> None:
        """A snapshot that is written later, in a thread, holds the state as it was when it was asked for."""
        if self._frozen is not None:
            dump, then = self._frozen
            assert dump() == then
        self._frozen = None
        if self.is_open:
            dump = self.broker.log.state.freeze()
            self._frozen = dump, dump()

    @property
    def is_open(self) -> bool:
        """Whether there is a broker to work with."""
        return self._loop is not None

    def stop(self) -> None:
        """End it, however it is."""
        if self._loop is not None:
            with contextlib.suppress(Exception):
                self.crash()


class Received(NamedTuple):
    """A message that was received: its receipt, its place, and its order where that is kept."""

    receipt: int
    position: int
    topic: str
    origin: int
    reconsume_times: int


def _received(given: Given) -> list[Received]:
    receipt = given.first_receipt
    found: list[Received] = []
    for part in [part for some in given.chosen for part in some.parts]:
        for number in range(part.count):
            row = part.frame.content.copies([part.row + number], 0)[0]
            position = part.first_position + number
            origin = value_of(row, "origin_message_id")
            first = position if origin is None else int(origin.rpartition(".")[2])
            found.append(Received(receipt, position, part.run.topic, first, value_of(row, "reconsume_times") or 0))
            receipt += 1
    return found


def _due(row: dict[str, Any]) -> wheel.Due:
    """What the wheel is told by a row of a listing."""
    properties, stored_ms = dict(row["properties"] or ()), row["store_time_ms"]
    kinds = {SCHEDULE_TOPIC: Entry.DELAY, HALF_TOPIC: Entry.HALF, RECEIVE_TOPIC: Entry.RECEIPT, NACK_TOPIC: Entry.NACK}
    kind = kinds.get(row["topic"]) or (Entry.COMMIT if row["tag"] == "commit" else Entry.ROLLBACK)
    if row["topic"] == OP_TOPIC:
        assert row["origin_message_id"].endswith(f".{row['position']}")
    due_ms = stored_ms if row["deliver_at_ms"] is None else row["deliver_at_ms"]
    times = row["check_times"] if kind is Entry.HALF else row["reconsume_times"] or 0
    most, level = int(properties.get("max_reconsume_times", -1)), int(properties.get("delay_level", 0))
    return wheel.Due(kind, row["position"], due_ms, times, most, level)


def _run_out(receipt: Message) -> Posted:
    most = int(dict(receipt.get("properties"))["max_reconsume_times"])
    action = of_receipt(receipt.get("reconsume_times") or 0, most).action
    return Posted(receipt.position, action, receipt.get("deliver_at_ms"))


SETS = ("delays", "decided", "halves", "nacks", "dead", "redrives", "recalled")
ENDED = ("committed", "rolled_back")


def normal(state: RoutingState, min_position: int) -> dict[str, Any]:
    """The state as far as it follows from the log alone."""
    state.tidy(min_position)
    dumped = state.dump()
    for name in ("timers", "moved", "nack_targets"):
        dumped[name] = sorted(zip(*map(unpack_numbers, dumped[name]), strict=True))
    dumped["transactions"]["open"] = sorted(zip(*map(unpack_numbers, dumped["transactions"]["open"]), strict=True))
    receipts, transactions = dumped["receipts"], dumped["transactions"]
    for sets, names in ((dumped, SETS), (receipts, ("issued", "acked", "nacked")), (transactions, ENDED)):
        for name in names:  # a set may be written in more ways than one
            sets[name] = list(unpack(sets[name]))
    dumped["nacked"] = {group: list(unpack(text)) for group, text in dumped["nacked"].items()}
    dumped["nacked_of"] = sorted([*key, list(unpack(text))] for *key, text in dumped["nacked_of"])
    for subscription in [*receipts["subscriptions"], *receipts.get("left", ())]:
        subscription["cursors"] = [[*cursor[:4], list(unpack(cursor[4]))] for cursor in subscription["cursors"]]
    # Which slots, that is another matter: they are sorted out, and what is decided leaves them, at one time or another.
    dues = BitMap64(position for _, _, text in dumped["dues"] for position in unpack(text))
    dumped["dues"] = list(dues - state.decided)
    assert dumped["dues"] == list(state.delays - state.decided)
    dumped["due_times"] = [state.due_times.of(position) for position in state.delays]
    del dumped["decisions"]  # records that are carried out are forgotten at one time or another
    return dumped
