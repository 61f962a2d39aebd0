"""A broker whose machine loses power, or whose process is killed, in any of its mutating calls.

`python -m tests.storage.power_cuts --rounds N --seed S --results FILE` runs so many machines and appends a
line of JSON for each hundred of them; with the same file it leaves out those that are in it.
`--run faults`: a disk that fails once, instead.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from lakemq.gateway.groups.offsets import QueueOffset
from lakemq.gateway.process.broker import Broker
from lakemq.model.errors import LakemqError
from lakemq.settings import Broker as Name
from lakemq.settings import Settings, Storage
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.log.topic_changes import NOBODY
from lakemq.storage.segment.rows import make_row
from lakemq.testing import LossyFiles, ManualClock
from tests.gateway.http_client import write_arrow
from tests.reliability.results import commit
from tests.storage.harness import Message, messages_of
from tests.storage.ledger import Broken, Fate, Ledger

T = TypeVar("T")
TOPIC = "t"
GROUP = "g"
SINK = "s"
LINE_ROUNDS = 100
SWITCHES_S = (0.00001, 0.0005, 0.005)
"""So long a thread keeps the interpreter: which thread comes first is not by the seed, so it is varied."""
SPREAD = 7_919
"""A prime, so that any some seeds are of calls far from one another, and as many seeds as calls are of all."""


class Machine:
    """One machine with one broker, and the clients that remember what it told them."""

    def __init__(self, root: Path, seed: int) -> None:
        self.files = LossyFiles(root, seed)
        self.chance = random.Random(seed + 1)
        self.clock = ManualClock()
        self.ledger = Ledger(random.Random(seed + 2))
        self.batch = 0
        storage = {
            "data_dir": root / "data",
            "segment_bytes": 2**20,
            "free_bytes_min": 0,
            "flush_interval_ms": 60_000,
            "snapshot_interval_ms": 3_600_000,
            "verify_ms": 10_000,
        }
        self._settings = Settings(broker=Name(name="b"), storage=Storage.model_validate(storage))
        self._loop: asyncio.AbstractEventLoop
        self.broker: Broker
        self._is_closed = False

    # Lives -----------------------------------------------------------------------------------

    def live(self, script: Callable[[], Awaitable[None]], may_fail: bool = False) -> None:
        """Start the broker, hold what it has against what was told, and go on with the script, until that
        ends or the machine does. Raises `Broken`. `may_fail`: it may also refuse to start."""
        self._loop = asyncio.new_event_loop()
        self._is_closed = False
        self.broker = Broker(self._settings, self.files, self.clock)
        try:
            self._run(self._start())
            self._run(script())
        except (LakemqError, OSError) as error:
            if not self.files.dead and not may_fail:
                raise Broken(f"the broker gave up: {error!r}") from error
        finally:
            self.files.dead = True  # nothing is written any more
            self._abandon()

    def end(self, power: bool) -> None:
        """The machine ends, or just the process; the next life may begin."""
        if power:
            self.ledger.lose_power()
            self.files.cut_power()
        self.files.revive()

    async def _start(self) -> None:
        self.broker.open()
        self.check()
        await self.broker.start()
        while any(self.broker.sinks.state.unfinished()):
            await asyncio.sleep(0.001)
            if self.files.dead:
                raise OSError("the machine is off")
        # What a sink's parts were made to just now is on disk only after this: a cut may move it until then.
        await self.broker.log.flushed()
        self.check()
        self.check_sink()

    def _run(self, awaitable: Awaitable[T]) -> T:
        async def waiting() -> T:
            return await awaitable

        return self._loop.run_until_complete(waiting())

    def _abandon(self) -> None:
        async def stopping() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        with suppress(LakemqError, OSError):
            self._run(stopping())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        if self._is_closed:
            return
        with suppress(AttributeError):  # it was not opened so far
            self.broker.log.release()
        for segment in self.broker.log.segments:
            segment.close()
        lock = self.broker._lock  # pyright: ignore[reportPrivateUsage]
        if lock is not None:
            lock.release()

    # What it says ----------------------------------------------------------------------------

    def check(self) -> None:
        """Hold what the broker says against what was told; all of it is on disk now."""
        self.ledger.erasing = self.broker.erasures.is_behind
        offsets = list(self.broker.groups.offsets.of(GROUP, TOPIC))
        self.ledger.check(self.found(), self.broker.log.min_position, offsets[0].offset if offsets else None)

    def check_sink(self) -> None:
        """Hold the sink's batches against those that were committed; the last one is carried out."""
        sink = self.broker.sinks.state.by_name.get(SINK)
        batch = -1 if sink is None else sink.batch
        self.ledger.check_batches(self.found(), batch, self.broker.log.min_position)
        self.batch = max(self.batch, batch + 1)

    def found(self) -> list[Message]:
        """All messages of the topic, as a consumer reads them."""
        topic = self.broker.log.topics.find(TOPIC)
        found: list[Message] = []
        for queue in [] if topic is None else topic.queues:
            offset = queue.min_offset
            while offset < queue.next_offset:
                plan = self.broker.reader.plan(queue, offset, 10_000, 2**20)
                found += messages_of(self.broker.reader.read(plan))
                offset = plan.end
        return found

    # What clients do -------------------------------------------------------------------------

    async def mix(self) -> None:
        """Of everything that writes, a little."""
        await self.produce(1)
        await self.produce(2, sync=True)
        await asyncio.gather(self.produce(1, sync=True), self.produce(3), self.produce(1, sync=True))
        await self.commit_batch([2, 1])
        await self.commit_offset()
        await self.roll()
        await self.produce(2)
        await self.snapshot()
        await self.produce(1)
        await self.roll()
        await self.produce(1, sync=True)
        await self.erase(2)
        await self.commit_batch([1])
        await self.produce(2, sync=True)
        await self.retain()
        await self.commit_offset()
        await self.produce(3)
        if self.chance.random() < 0.3:
            await self.attempt(self.broker.close())
            self._is_closed = True

    async def attempt(self, doing: Awaitable[T]) -> T | None:
        """What a client gets that doesn't give up; None for an error."""
        try:
            return await doing
        except (LakemqError, OSError):
            if self.files.dead:
                raise
            return None

    async def produce(self, count: int, sync: bool = False) -> None:
        """Send messages, as one request."""
        messages = [self.ledger.send() for _ in range(count)]
        topic = await self.attempt(self.broker.topics.writable(TOPIC, NOBODY))
        if topic is None:
            return
        queues = [self.chance.choice(topic.queues[:2]) for _ in messages]
        rows = [make_row(body=sent.body) for sent in messages]
        stored = await self.attempt(self.broker.log.append(RowsAppend(rows, queues)))
        for sent, placed in zip(messages, [None] * count if stored is None else stored.placed, strict=True):
            sent.fate = Fate.REFUSED if placed is None else Fate.HANDED
            sent.place = None if placed is None else (placed.queue_id, placed.queue_offset, placed.position)
        if stored is not None and sync:
            await self.flush()

    async def flush(self) -> bool:
        """Bring all to disk."""

        async def flushing() -> bool:
            position = self.broker.log.next_position
            await self.broker.log.flushed()
            self.ledger.flushed(position)
            return True

        return bool(await self.attempt(flushing()))

    async def commit_offset(self) -> None:
        """Commit the next offset of the group, and have it on disk."""
        offset = max(self.ledger.offset, *self.ledger.tried, 0) + 1
        queue = self.broker.log.topics.queue(TOPIC, 0)
        if queue.next_offset < offset:
            return
        self.ledger.tried.add(offset)
        offsets = self.broker.groups.offsets
        made = await self.attempt(offsets.commit(GROUP, [QueueOffset(TOPIC, 0, offset)]))
        if made is not None and await self.flush():
            self.ledger.offset, self.ledger.tried = offset, set()

    async def commit_batch(self, parts: list[int]) -> None:
        """Write a batch to the sink."""
        batch, self.batch = self.batch, self.batch + 1
        names: list[str] = []
        for number, count in enumerate(parts):
            messages = [self.ledger.send(batch) for _ in range(count)]
            content = write_arrow({"body": pa.array([sent.body for sent in messages])})
            name = f"{len(self.ledger.sent)}-{number}"
            part = await self.attempt(self.broker.sinks.stage(SINK, batch, name, TOPIC, None, content))
            if part is None:
                return
            names.append(name)
        if await self.attempt(self.broker.sinks.commit(SINK, batch, names, "", once=False)) is not None:
            self.ledger.committed.add(batch)

    async def snapshot(self) -> None:
        """Flush, with a snapshot of the index."""
        self.clock.time_ms += 3_600_000
        await self.flush()

    async def roll(self) -> None:
        """Begin a new segment, and see the old one sealed."""
        log = self.broker.log
        base = log.active.base_position
        log.begin_segment()
        while (log.active.base_position == base or any(s.sealing for s in log.segments)) and not log.unwritable:
            await asyncio.sleep(0.001)
            if self.files.dead:
                raise OSError("the machine is off")

    async def erase(self, count: int) -> None:
        """Erase some messages of those that are there."""
        there = [sent for sent in self.ledger.sent.values() if sent.place is not None and sent.is_erased is False]
        there = [sent for sent in there if sent.place is not None and sent.place[2] >= self.broker.log.min_position]
        some = self.chance.sample(there, min(count, len(there)))
        for sent in some:
            sent.is_erased = None
        positions = [s.place[2] for s in some if s.place]
        if await self.attempt(self._erase([(each, each + 1) for each in positions])) is not None:
            for sent in some:
                sent.is_erased = True

    async def _erase(self, ranges: list[tuple[int, int]]) -> None:
        async def until_others(_: int, __: float) -> None:
            """There are none."""

        await self.broker.erasures.erase(ranges, self.broker.topics.system, until_others)

    async def retain(self) -> None:
        """Let the oldest segments go, as retention does."""
        log = self.broker.log

        async def removing() -> None:
            while len(log.segments) > 3:
                log._store.remove_oldest(log.topics)  # pyright: ignore[reportPrivateUsage]

        await self.attempt(removing())


async def _nothing() -> None:
    """A life without clients."""


def run_one(root: Path, seed: int, die_at: int | None, skipped_site: str | None = None) -> LossyFiles:
    """Some lives of one machine, of which the first ends in the mutating call `die_at` (None: it doesn't
    end early). Raises `Broken`. With a `skipped_site` most end soon after it."""
    machine = Machine(root, seed)
    files, chance = machine.files, machine.chance
    if skipped_site is not None:
        files.skipped_site = skipped_site
        files.on_skip = lambda: _end_soon(files, chance)
    files.die_at = die_at
    machine.live(machine.mix)
    machine.end(power=chance.random() < 0.6)
    for _ in range(chance.randrange(4)):  # in recovery, or soon after, or when all had gone well
        script = chance.choice((machine.mix, _nothing))
        files.die_at = files.calls + chance.randint(1, 30)
        machine.live(script)
        machine.end(power=chance.random() < 0.6)

    async def last() -> None:
        await machine.produce(2)
        await machine.produce(1, sync=True)

    machine.live(last)
    machine.end(power=True)
    machine.live(_nothing)
    machine.end(power=True)
    return files


def run_fault(seed: int, calls: int) -> None:
    """One machine whose disk fails once, with one of two errors, in a mutating call that the seed says: it may
    refuse, but what it answered stays so, and the next life is sound. Raises `Broken`."""
    root = Path(tempfile.mkdtemp(prefix="lakemq-fault-"))
    try:
        machine = Machine(root, seed)
        machine.files.fault = seed // 2 * SPREAD % calls + 1, (errno.EIO, errno.ENOSPC)[seed % 2]
        machine.live(machine.mix, may_fail=True)
        machine.files.fault = None
        machine.end(power=machine.chance.random() < 0.5)
        machine.live(machine.mix)
        machine.end(power=True)
        machine.live(_nothing)
    except Exception as error:
        raise Broken(f"fault, seed {seed}, of {calls} calls: {error!r}") from error
    finally:
        shutil.rmtree(root)


def _end_soon(files: LossyFiles, chance: random.Random) -> None:
    if chance.random() < 0.3:
        files.die_at = files.calls + chance.randint(1, 6)


def count_calls(root: Path) -> int:
    """How many mutating calls a first life has, about."""
    machine = Machine(root, 0)
    machine.live(machine.mix)
    return machine.files.calls


def run_seed(seed: int, calls: int, skipped_site: str | None = None) -> LossyFiles:
    """One machine of this seed, in a folder of its own; raises `Broken`, which says the seed."""
    root = Path(tempfile.mkdtemp(prefix="lakemq-power-"))
    try:
        return run_one(root, seed, seed * SPREAD % calls + 1, skipped_site)
    except Exception as error:
        raise Broken(f"seed {seed}, of {calls} calls: {error!r}") from error
    finally:
        shutil.rmtree(root)


RUNS: dict[str, Callable[[int, int], object]] = {"power_cuts": run_seed, "faults": run_fault}


def run_rounds(run: str, seeds: range, results: Path | None = None, calls: int | None = None, repeat: int = 1) -> int:
    """A machine for each seed; returns how many of them broke a promise. A line of `results` for each hundred;
    hundreds that are in it already are not run again, but what they broke counts. `calls`: as a failure said them.
    `repeat`: so often each seed, as threads are not by the seed."""
    if calls is None:
        with tempfile.TemporaryDirectory(prefix="lakemq-power-") as folder:
            calls = count_calls(Path(folder))
    done = _done(run, results)
    broken = 0
    for begin in range(seeds.start, seeds.stop, LINE_ROUNDS):
        some = range(begin, min(begin + LINE_ROUNDS, seeds.stop))
        found = done.get((some.start, len(some)))
        if found is None:
            found = _run_line(run, some, results, calls, repeat)
        broken += len(found)
    return broken


def _run_line(run: str, seeds: range, results: Path | None, calls: int, repeat: int) -> list[str]:
    found: list[str] = []
    begun, before_s = time.monotonic(), sys.getswitchinterval()
    for each in (seed for seed in seeds for _ in range(repeat)):
        sys.setswitchinterval(random.Random(each).choice(SWITCHES_S))
        try:
            RUNS[run](each, calls)
        except Broken as error:
            again = f"--run {run} --seed {each} --rounds 1 --calls {calls} --repeat 50"
            found.append(f"{error}; again with: python -m tests.storage.power_cuts {again}")
            print(found[-1], file=sys.stderr)  # noqa: T201
        finally:
            sys.setswitchinterval(before_s)
    line = {"run": run, "seed": seeds.start, "rounds": len(seeds), "calls": calls, "repeat": repeat, "broken": found}
    line |= {"commit": commit(), "seconds": round(time.monotonic() - begun, 1)}
    print(json.dumps(line), flush=True)  # noqa: T201
    if results is not None:
        with results.open("a") as file:
            file.write(json.dumps(line) + "\n")
    return found


def _done(run: str, results: Path | None) -> dict[tuple[int, int], list[str]]:
    """What was found from which seeds on, of how many."""
    if results is None or not results.exists():
        return {}
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return {(line["seed"], line["rounds"]): line["broken"] for line in lines if line["run"] == run}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", choices=RUNS, default="power_cuts")
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, help="as a failure says them")
    parser.add_argument("--repeat", type=int, default=1, help="so often each seed: threads are not by the seed")
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    logging.disable(logging.ERROR)
    seeds = range(arguments.seed, arguments.seed + arguments.rounds)
    return 1 if run_rounds(arguments.run, seeds, arguments.results, arguments.calls, arguments.repeat) else 0


if __name__ == "__main__":
    sys.exit(main())
