"""What a broker holds follows what waits and what its log holds, not what has been."""

from __future__ import annotations

import asyncio
import functools
import time
import types
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap64

from lakemq.gateway.routing.nacks import Nack
from lakemq.model.message import Draft
from lakemq.storage.read import row_reader
from lakemq.storage.state import due_times
from tests.gateway.routing.harness import SETTLED_S_MAX, RoutingHarness, anybody

HELD = (dict, list, set, deque, array, BitMap64)
MAY_GROW = {"RoutingState.dead"}
"""Dead letters that nobody has sent again, up to a bound of their own."""
ROUNDS, ROUND_MS = 24, 140_000


def parts_of(thing: Any) -> Iterator[tuple[str, Any]]:
    """What an object of ours, or a container, refers to: with names where it has names."""
    if isinstance(thing, dict):
        yield from (("", each) for pair in thing.items() for each in pair)
    elif isinstance(thing, list | tuple | set | frozenset | deque):
        yield from (("", each) for each in thing)
    elif isinstance(thing, functools.partial):
        yield from (("", each) for each in (thing.func, *thing.args, *thing.keywords.values()))
    elif isinstance(thing, types.MethodType):
        yield "", thing.__self__
    elif isinstance(thing, types.FunctionType):
        yield from (("", cell.cell_contents) for cell in thing.__closure__ or ())
    elif type(thing).__module__.startswith("lakemq"):
        slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
        names = {*getattr(thing, "__dict__", ()), *(name for name in slots if hasattr(thing, name))}
        yield from ((name, getattr(thing, name)) for name in names)


def sizes_of(root: Any) -> Counter[str]:
    """How much the containers hold that can be reached from there, by whose attribute they are."""
    sizes, seen, left = Counter[str](), set[int](), [root]
    while left:
        thing = left.pop()
        if id(thing) in seen or isinstance(thing, type | types.ModuleType | str | bytes | int):
            continue
        seen.add(id(thing))
        for name, part in parts_of(thing):
            if name and isinstance(part, HELD):
                sizes[f"{type(thing).__qualname__}.{name}"] += len(part)
            left.append(part)
    return sizes


def live(harness: RoutingHarness) -> None:
    """All kinds of messages, each to its end, and nothing of it is left in the log."""
    router, run = harness.broker.router, harness.run
    plain = [harness.produce(Draft(b"x", tag="a", keys=["k"])) for _ in range(12)]
    for delay_ms in (500, 7_000, 30_000, 70_000, 10 * ROUND_MS):
        harness.produce(Draft(b"x", delay_ms=delay_ms))
    recalled = harness.id_of(harness.produce(Draft(b"x", delay_ms=60_000)))
    run(router.recalls.recall(recalled, anybody))
    halves = [harness.produce(Draft(b"x"), "pg") for _ in range(3)]
    for half, resolution in zip(halves, ("commit", "rollback", "unknown"), strict=True):
        run(router.transactions.resolve(harness.secret_of(half), "pg", resolution))
    run(router.nacks.nack("g", [Nack(harness.id_of(each), 1) for each in plain[:3]], anybody))
    run(router.nacks.nack("g", [Nack(harness.id_of(plain[3]), -1)], anybody))
    for messages_max, invisible_ms in ((6, 1_000), (1_000, 1_000_000)):
        given = run(harness.receiving("h", messages_max, invisible_ms, 16, False))
        receipts = [harness.secret_of(each.receipt) for each in given]
        if receipts:
            run(router.acknowledger.acknowledge("h", receipts[messages_max // 2 :] or receipts))
        for _ in range(2):
            harness.pass_time(20_000)
            harness.decide_overdue()
    run(router.transactions.resolve(harness.secret_of(halves[2]), "pg", "rollback"))
    harness.pass_time(60_000)
    harness.decide_overdue()
    let_go(harness)


def let_go(harness: RoutingHarness) -> None:
    """All but the newest segment leave the log, as it is in the lake, and what waits moves on."""
    log = harness.broker.log
    segments = len(log.segments)
    harness.run(later(log.begin_segment))
    until_s = time.monotonic() + SETTLED_S_MAX
    while len(log.segments) == segments or log.segments[-2].sealing:
        assert time.monotonic() < until_s, "no segment begins"
        harness.run(asyncio.sleep(0))
    retain(harness)


def retain(harness: RoutingHarness) -> None:
    """Whatever the lake is said to hold can go. The broker looks for a lake meanwhile, and finds none."""
    log = harness.broker.log
    log.retention.certain_position = log.next_position
    harness.run(harness.broker.router.make_room())
    log.retention.certain_position = log.next_position
    log.retain()


def settled_sizes(harness: RoutingHarness) -> Counter[str]:
    """How much is held once only the newest segment is left: with how many others a round ends is a matter of
    how busy the machine is, and with a segment stays what belongs to it."""
    log, until_s = harness.broker.log, time.monotonic() + SETTLED_S_MAX
    while len(log.segments) > 1:
        assert time.monotonic() < until_s, "old segments stay"
        harness.pass_time(1_000)
        retain(harness)
    return sizes_of(harness.broker)


async def later(act: Callable[[], None]) -> None:
    """Do it on the loop."""
    act()


@pytest.mark.parametrize("lead_ms", [0, 10_000])
def test_what_has_been_leaves_nothing_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lead_ms: int) -> None:
    monkeypatch.setattr(due_times, "CHUNK", 8)
    monkeypatch.setattr(row_reader, "RECENT_BYTES_MAX", 0)
    harness = RoutingHarness(tmp_path, retention_ms=0, cache_bytes=0)
    harness.open(lead_ms, 5_000)
    try:
        for _ in range(ROUNDS):
            live(harness)
        before = settled_sizes(harness)
        assert before["RoutingState.dead"] == ROUNDS  # it is looked at what there is
        for _ in range(ROUNDS):
            live(harness)
        after = settled_sizes(harness)
    finally:
        harness.stop()
    grown = {name: (before[name], size) for name, size in after.items() if size >= before[name] + ROUNDS // 2}
    assert set(grown) <= MAY_GROW, grown
